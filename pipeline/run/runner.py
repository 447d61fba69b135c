"""The Beam runner: which one it is, how many worker processes it has, and how this process is set up."""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import (
    DirectOptions,
    PipelineOptions,
    SetupOptions,
    StandardOptions,
    WorkerOptions,
)
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from groundrows.schemas.errors import UsageError

SETUP_FILE = Path(__file__).resolve().parents[2] / "setup.py"
TRACEBACK_LOGGERS = ("common", "worker", "portability.fn_api_runner", "portability.local_job_service")


def worker_processes(beam_options: PipelineOptions) -> int | None:
    """Return the number of worker processes, or None when the runner decides.

    Raises:
        UsageError: `--direct_num_workers` is negative.
    """
    if not is_direct(beam_options):
        return None
    direct = beam_options.view_as(DirectOptions)
    if direct.direct_running_mode != "multi_processing":
        return 1
    if direct.direct_num_workers < 0:
        raise UsageError(f"--direct_num_workers={direct.direct_num_workers} makes no sense: give 0 or more.")
    return direct.direct_num_workers or os.cpu_count() or 1


def is_direct(beam_options: PipelineOptions) -> bool:
    """Whether the runner works on this machine."""
    runner = beam_options.view_as(StandardOptions).runner
    return runner is None or runner.lower() in ("directrunner", "fnapirunner")


def is_dataflow(beam_options: PipelineOptions) -> bool:
    """Whether the runner is Dataflow, Google's service."""
    return "dataflow" in (beam_options.view_as(StandardOptions).runner or "").lower()


def empty_pipeline(beam_options: PipelineOptions) -> beam.Pipeline:
    """Make a pipeline without steps; Beam checks the runner's flags.

    Raises:
        UsageError: Beam refuses the flags.
    """
    # DirectRunner would try to download another runner first, and then use this one for batch anyway.
    runner: Any = FnApiRunner() if is_direct(beam_options) else None
    try:
        return beam.Pipeline(runner=runner, options=beam_options)
    except ValueError as error:
        raise UsageError(f"The runner refuses its flags: {error}") from None


def equip_workers(beam_options: PipelineOptions) -> None:
    """Make sure that workers on other machines have this package.

    It comes from the image that the flags name, or else from this checkout's `setup.py`. Beam need not send
    the `__main__` module to the workers, because no step uses it.

    Raises:
        UsageError: There is neither an image nor a `setup.py`.
    """
    if is_direct(beam_options):
        return
    setup = beam_options.view_as(SetupOptions)
    setup.save_main_session = False
    packed = setup.setup_file or setup.extra_packages or setup.requirements_file
    if packed or beam_options.view_as(WorkerOptions).sdk_container_image:
        return
    if not SETUP_FILE.is_file():
        raise UsageError(
            "The workers would not have this package: name an image that has it with --sdk_container_image, "
            "or start from a checkout, which has a setup.py."
        )
    setup.setup_file = str(SETUP_FILE)


def tune_interpreter() -> None:
    """Set up CPython for a process in which two threads exchange many small objects.

    The objects that Beam and the graph have allocated so far live as long as the run. The garbage collector
    is told to skip them and to run less often, which saved an eighth of the CPU time in a measurement.

    Each time the event loop's thread wakes up, it waits up to one switch interval for the interpreter's lock.
    An interval of 4 ms gave more calls per second than 1 ms or 5 ms.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)
    sys.setswitchinterval(0.004)


@contextmanager
def tracebacks_hidden() -> Iterator[None]:
    """Keep Beam from logging the traceback of an error. Beam raises the error in any case."""
    loggers = [logging.getLogger(f"apache_beam.runners.{name}") for name in TRACEBACK_LOGGERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.NOTSET if os.environ.get("GROUNDROWS_TRACEBACK") else logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
