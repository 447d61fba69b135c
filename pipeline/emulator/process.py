"""The emulator as a child process, for a run with `--service=emulator` and for tests."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import groundrows

START_SECONDS = 20.0
STOP_SECONDS = 10.0
# Whatever the package was found by, the child finds it too.
_ROOT = Path(groundrows.__file__).parents[1]
_READY = "ready on "
_REST = "REST on "


@dataclass(frozen=True, slots=True)
class EmulatorProcess:
    """A running emulator.

    Attributes:
        address: `HOST:PORT` of its gRPC server.
        child: The process.
        rest_address: `HOST:PORT` of its REST server, or None when there is none.
    """

    address: str
    child: subprocess.Popen[bytes]
    rest_address: str | None = None

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.child.pid

    def signal(self, signum: int) -> None:
        """Send it a signal."""
        self.child.send_signal(signum)

    def wait(self, seconds: float = STOP_SECONDS) -> int:
        """Wait for its end and return its exit code.

        Raises:
            subprocess.TimeoutExpired: It still runs after `seconds`.
        """
        return self.child.wait(seconds)


@contextmanager
def running_emulator(*flags: str) -> Iterator[EmulatorProcess]:
    """Start an emulator with the given flags, yield it once it serves, and stop it whatever happens.

    It also stops by itself when this process dies, however it dies.

    Raises:
        RuntimeError: It did not come up; the message is one sentence and holds what it said on stderr.
    """
    # Its stderr goes to a file: a pipe that nobody reads would block it one day.
    with tempfile.TemporaryFile() as stderr, _child(flags, stderr) as child:
        try:
            address, rest_address = _addresses(child, stderr)
            yield EmulatorProcess(address, child, rest_address)
        finally:
            _stop(child)


def _child(flags: tuple[str, ...], stderr: IO[bytes]) -> subprocess.Popen[bytes]:
    path = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
    return subprocess.Popen(
        # -P: a directory called pipeline in the working directory must not be taken for this package.
        [sys.executable, "-P", "-m", "groundrows.pipeline.emulator", "--exit_with_parent", *flags],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env={**os.environ, "PYTHONPATH": path},
        # In a session of its own it does not get the terminal's Ctrl-C: a run that is interrupted may
        # still finish the calls it has under way.
        start_new_session=True,
    )


def _addresses(child: subprocess.Popen[bytes], stderr: IO[bytes]) -> tuple[str, str | None]:
    """Wait for the ready line, and return the address in it and that of the REST server, if any."""
    assert child.stdout is not None
    said = b""
    deadline = time.monotonic() + START_SECONDS
    while True:
        readable, _, _ = select.select([child.stdout], [], [], max(0.0, deadline - time.monotonic()))
        if not readable:
            raise RuntimeError(_failure(f"did not start within {START_SECONDS:g} s", stderr))
        received = os.read(child.stdout.fileno(), 4096)
        if not received:
            raise RuntimeError(_failure(f"ended with exit code {child.wait(STOP_SECONDS)}", stderr))
        said += received
        *lines, _ = said.decode(errors="replace").split("\n")
        rest_address = None
        for line in lines:
            if line.startswith(_READY):
                return line.removeprefix(_READY), rest_address
            if not line.startswith(_REST):
                raise RuntimeError(_failure(f"said {line!r} instead of being ready", stderr))
            rest_address = line.removeprefix(_REST)


def _failure(what: str, stderr: IO[bytes]) -> str:
    stderr.seek(0)
    said = stderr.read().decode(errors="replace").strip()
    return f"The emulator {what}: {said or 'it said nothing on stderr.'}"


def _stop(child: subprocess.Popen[bytes]) -> None:
    child.terminate()  # does nothing to a child that has ended
    try:
        child.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
