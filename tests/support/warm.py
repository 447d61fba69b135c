"""`groundrows` as a command, in forks of one process that has imported what commands need.

Most of what a short command takes is its imports. `python -m tests.support.warm SOCKET` prints `ready` and runs
each command that `command_for` hands it, with the caller's directory, environment, input and output.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.paths import ROOT

_COMMAND = """\
#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({server!r})
    asked = {{"argv": sys.argv[1:], "here": os.getcwd(), "environment": dict(os.environ)}}
    socket.send_fds(server, [json.dumps(asked).encode()], [0, 1, 2])
    sys.exit(int(server.recv(16) or b"70"))
"""
_LONGEST = 1 << 20


@contextmanager
def warm_groundrows() -> Iterator[str]:
    """The address of such a process, for as long as the block lasts."""
    with tempfile.TemporaryDirectory(prefix="warm-") as folder:
        address = os.path.join(folder, "socket")
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.warm", address], cwd=ROOT, stdout=subprocess.PIPE
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield address
        finally:
            process.terminate()
            process.wait()


def command_for(address: str, path: Path) -> None:
    """Make the program `path`, which is `groundrows` for whoever calls it."""
    path.write_text(_COMMAND.format(python=sys.executable, server=address), encoding="utf-8")
    path.chmod(0o755)


def _serve(address: str) -> None:
    from groundrows.pipeline.cli import main
    from groundrows.pipeline.commands import plan, replay, run  # noqa: F401 - what they import is the point

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        print("ready", flush=True)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that have ended
        while True:
            connection, _ = listener.accept()
            asked, streams, _, _ = socket.recv_fds(connection, _LONGEST, 3)
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                listener.close()
                for number, stream in enumerate(streams):
                    os.dup2(stream, number)
                code = _run(main, json.loads(asked))
                connection.sendall(str(code).encode())
                os._exit(0)
            connection.close()
            for stream in streams:
                os.close(stream)


def _run(main: object, asked: dict[str, object]) -> int:
    try:
        os.chdir(str(asked["here"]))
        os.environ.clear()
        os.environ.update(asked["environment"])  # type: ignore[call-overload]
        code = main(asked["argv"])  # type: ignore[operator]
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 70
    sys.stdout.flush()
    sys.stderr.flush()
    return int(code)


if __name__ == "__main__":
    _serve(sys.argv[1])
