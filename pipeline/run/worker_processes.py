"""Worker processes of `--direct_running_mode=multi_processing`: none is lost unnoticed, none stays behind.

Beam's runner starts them. When one is killed it may wait for it for ever, and when the runner itself ends the
others go on with what they have begun, calls included.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc

from groundrows.schemas.errors import LostWorkerError

# As Beam's thread that waits for a worker says it.
_EXITED = re.compile(r"Worker subprocess exited with return code (-?[0-9]+)")
_COMMAND = "apache_beam.runners.worker.sdk_worker_main"


@contextmanager
def watched(*, show_tracebacks: bool = False) -> Iterator[None]:
    """End the process at once, with a sentence, when a worker is lost while the block lasts.

    At the end of the block workers that are left are ended: nobody takes what they would still answer.

    Args:
        show_tracebacks: Whether to print what threads end with, as Python does.
    """
    before = threading.excepthook

    def hook(failed: Any) -> None:
        lost = _EXITED.search(str(failed.exc_value))
        if lost is None:
            # A connection to a worker breaks before its end is seen.
            if show_tracebacks or not isinstance(failed.exc_value, grpc.RpcError):
                before(failed)
            return
        os.write(2, f"{LostWorkerError(int(lost[1]))}\n".encode())
        _end_workers()
        # The runner would wait for the worker, and then for all the others.
        os._exit(1)

    threading.excepthook = hook
    try:
        yield
    finally:
        threading.excepthook = before
        _end_workers()


def workers_of(pid: int) -> list[int]:
    """The worker processes that a process has started."""
    seen = _processes()
    ours = [pid]
    for parent in ours:  # grows: a shell stands between a process and its worker
        ours.extend(child for child, (its_parent, _) in seen.items() if its_parent == parent)
    return [each for each in ours[1:] if _COMMAND in seen[each][1]]


def _end_workers() -> None:
    for each in workers_of(os.getpid()):
        with suppress(OSError):
            os.kill(each, signal.SIGTERM)


def _processes() -> dict[int, tuple[int, str]]:
    """Parent and command of every process that can be seen, by its number."""
    if not Path("/proc/self/stat").exists():
        listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,args="], capture_output=True, text=True)
        rows = [line.split(None, 2) for line in listed.stdout.splitlines()]
        return {int(row[0]): (int(row[1]), row[2]) for row in rows if len(row) == 3}
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            # The name, in brackets, may hold anything.
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            found[int(folder.name)] = parent, command
    return found
