"""Watches the worker processes of `--direct_running_mode=multi_processing`.

Beam's runner starts them, but does not watch them well enough. When a worker is killed, the runner may wait
for it for ever. When the runner ends, the workers go on with their work and make more calls.
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

# The message of Beam's thread that waits for a worker.
_EXITED = re.compile(r"Worker subprocess exited with return code (-?[0-9]+)")
_COMMAND = "apache_beam.runners.worker.sdk_worker_main"


@contextmanager
def watched(*, show_tracebacks: bool = False) -> Iterator[None]:
    """While the block runs, end this process with a sentence when a worker process is lost.

    At the end of the block, the remaining workers are ended, because nothing reads their answers any more.

    Args:
        show_tracebacks: Whether to print the tracebacks of failed threads, as Python does.
    """
    before = threading.excepthook

    def hook(failed: Any) -> None:
        lost = _EXITED.search(str(failed.exc_value))
        if lost is None:
            # When a worker ends, its connection breaks first; that error says nothing of its own.
            if show_tracebacks or not isinstance(failed.exc_value, grpc.RpcError):
                before(failed)
            return
        os.write(2, f"{LostWorkerError(int(lost[1]))}\n".encode())
        _end_workers()
        # Without this, the runner would wait for the lost worker and for all the others.
        os._exit(1)

    threading.excepthook = hook
    try:
        yield
    finally:
        threading.excepthook = before
        _end_workers()


def workers_of(pid: int) -> list[int]:
    """Return the process IDs of the worker processes that a process has started."""
    seen = _processes()
    ours = [pid]
    for parent in ours:  # the list grows in the loop, because a shell may be the parent of a worker
        ours.extend(child for child, (its_parent, _) in seen.items() if its_parent == parent)
    return [each for each in ours[1:] if _COMMAND in seen[each][1]]


def _end_workers() -> None:
    for each in workers_of(os.getpid()):
        with suppress(OSError):
            os.kill(each, signal.SIGTERM)


def _processes() -> dict[int, tuple[int, str]]:
    """Return the parent's ID and the command line of every visible process, by process ID."""
    if not Path("/proc/self/stat").exists():
        listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,args="], capture_output=True, text=True)
        rows = [line.split(None, 2) for line in listed.stdout.splitlines()]
        return {int(row[0]): (int(row[1]), row[2]) for row in rows if len(row) == 3}
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            # The process's name stands in brackets and may contain brackets itself.
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            found[int(folder.name)] = parent, command
    return found
