"""Which runner works, with how many processes, and how this process is set up for it."""

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
    """How many processes will work, or None where the runner decides.

    Raises:
        UsageError: A number that makes no sense.
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
    """Whether this machine does the work."""
    runner = beam_options.view_as(StandardOptions).runner
    return runner is None or runner.lower() in ("directrunner", "fnapirunner")


def is_dataflow(beam_options: PipelineOptions) -> bool:
    """Whether Google's service does the work."""
    return "dataflow" in (beam_options.view_as(StandardOptions).runner or "").lower()


def empty_pipeline(beam_options: PipelineOptions) -> beam.Pipeline:
    """The empty pipeline, which checks the runner's flags.

    Raises:
        UsageError: They are refused.
    """
    # DirectRunner would first try to download a runner of its own; batch ends up here anyway.
    runner: Any = FnApiRunner() if is_direct(beam_options) else None
    try:
        return beam.Pipeline(runner=runner, options=beam_options)
    except ValueError as error:
        raise UsageError(f"The runner refuses its flags: {error}") from None


def equip_workers(beam_options: PipelineOptions) -> None:
    """See to it that workers elsewhere have this package: from the image that is named, else from `setup.py`.

    Nothing depends on `__main__`, so it is not shipped.

    Raises:
        UsageError: There is neither.
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
            "The workers would not have this package: name an image with it by --sdk_container_image, "
            "or start from a checkout, which has a setup.py."
        )
    setup.setup_file = str(SETUP_FILE)


def tune_interpreter() -> None:
    """Settings of CPython for a process in which two threads pass many small objects on.

    What Beam and the graph have allocated by now stays for the whole run: taking it out of the garbage
    collector's sight, and collecting less often, saved an eighth of a run's CPU. The loop's thread waits
    for the interpreter's lock up to a switch interval on each wake-up: with 5 ms or with 1 ms fewer calls a
    second were made than with 4.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)
    sys.setswitchinterval(0.004)


@contextmanager
def tracebacks_hidden() -> Iterator[None]:
    """Keep Beam from logging the traceback of an error that it passes on all the same."""
    loggers = [logging.getLogger(f"apache_beam.runners.{name}") for name in TRACEBACK_LOGGERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.NOTSET if os.environ.get("GROUNDROWS_TRACEBACK") else logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
