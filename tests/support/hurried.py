"""The program with shorter waits: what takes a minute by default takes seconds, so that tests see the end of it.

Leases end after four seconds instead of twenty, and a worker gathers small batches. All else is as it is.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from collections.abc import Mapping, Sequence

from groundrows.pipeline.cli import main
from groundrows.pipeline.commands import run as command  # noqa: F401 - imported once, for all processes
from groundrows.pipeline.worker import gathering
from groundrows.pipeline.worker import run as worker
from groundrows.transforms.generate.calling import leases, rights

SURE_SECONDS = 3.0


def run(argv: Sequence[str], environment: Mapping[str, str], stderr: str) -> None:
    """`groundrows ARGV` in this process, which ends with it. SIGUSR1 makes it say what its threads are doing.

    Args:
        argv: The command.
        environment: What is added to the environment.
        stderr: The file that takes what the program says.
    """
    leases.LEASE_SECONDS = 4.0
    leases.SURE_SECONDS = SURE_SECONDS
    leases.BEAT_SECONDS = rights.BEAT_SECONDS = 1.0
    worker.limits_for = lambda _: gathering.Limits(messages=10, seconds=0.3)  # type: ignore[attr-defined]
    os.environ.update(environment)
    with open(stderr, "ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    faulthandler.register(signal.SIGUSR1, sys.__stderr__)
    sys.exit(main(list(argv)))
