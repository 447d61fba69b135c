"""`groundrows run`: asks every question of an archive or a subscription."""

from __future__ import annotations

import time

from apache_beam.options.pipeline_options import PipelineOptions

from groundrows.pipeline.options.run import parse_run
from groundrows.pipeline.run import session
from groundrows.pipeline.run.runner import is_direct
from groundrows.pipeline.run.saying import say


def run(argv: list[str]) -> int:
    """Run the command; return the exit code.

    For questions in files, the command waits until each has an outcome. Questions from Pub/Sub are answered
    by a worker in this process, or by a job on another runner. The command only submits such a job.

    Raises:
        UsageError: Something is wrong with the flags; no call was made.
    """
    started = time.monotonic()
    options = parse_run(argv)
    if not options.is_stream:
        return session.run_archives(options, started)
    if is_direct(PipelineOptions(list(options.runner_flags))):
        from groundrows.pipeline.worker.run import run_worker  # its Pub/Sub client is slow to import

        return run_worker(options, started)
    session.submit(options)
    if not options.quiet:
        say(f"The job is submitted, and runs until you drain it. It writes its rows to {options.output}.")
    return 0
