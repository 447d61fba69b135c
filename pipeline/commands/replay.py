"""`groundrows replay`: asks the records again that failed in earlier runs, with the graph of a run."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from groundrows.pipeline.options.replay import ReplayOptions, parse_replay
from groundrows.pipeline.run import preflight, session
from groundrows.pipeline.run.intended import Intended, Kind
from groundrows.pipeline.sources.archive_source import Archives
from groundrows.pipeline.sources.archives import Archive
from groundrows.pipeline.sources.failed import FailedRecords, FailureFilter
from groundrows.pipeline.storage.credentials import check_storage
from groundrows.pipeline.storage.files import make_directory
from groundrows.pipeline.storage.output import STAGING, Output, finished_files, ledger_in
from groundrows.pipeline.storage.uris import is_remote
from groundrows.schemas.errors import UsageError


def replay(argv: list[str]) -> int:
    """Run the command; returns the exit code.

    Raises:
        UsageError: Something is wrong with the flags or the failures; nothing was called.
    """
    started = time.monotonic()
    options = parse_replay(argv)
    directories = _distinct(options.failures)
    # Checked first, because the next lines look for files there.
    check_storage((*directories, options.run.output))
    _check_not_overwritten(options, directories)
    # The failures are read before the output is changed, because both may be the same directory.
    failed = FailedRecords(
        _files(directories, "failures"),
        _files(directories, "answers"),
        _files(directories, "grounding_checks"),
        FailureFilter(
            options.only_retryable,
            None if options.codes is None else frozenset(options.codes),
            options.max_generations,
        ),
    )
    with closing(failed):

        def source(where: Output) -> Archives:
            make_directory(where.private(STAGING))
            path = where.private(STAGING, f"replay{where.format.suffix}")
            failed.write(path)
            return Archives((), known=(Archive(path, "failures", "none"),))

        flags = replace(options.run, ledger=options.run.ledger or _ledger(directories))
        run = Intended(flags, Kind.REPLAY, started, source_in=source)
        preflight.check(run)
        return session.carry_out(run, {"replay": _summary(options, failed)})


def _distinct(directories: Sequence[str]) -> list[str]:
    return list({_absolute(directory): directory for directory in reversed(directories)}.values())[::-1]


def _absolute(directory: str) -> str:
    return directory if is_remote(directory) else os.path.realpath(directory)


def _check_not_overwritten(options: ReplayOptions, directories: Sequence[str]) -> None:
    same = [each for each in directories if _absolute(each) == _absolute(options.run.output)]
    if same and not options.run.append:
        raise UsageError(
            f"--output={options.run.output} holds the failures to replay: give --append to add to it, or "
            "name another directory."
        )


def _files(directories: Sequence[str], table: str) -> list[str]:
    files: list[str] = []
    for directory in directories:
        found = finished_files(directory, table)
        if found is None:
            raise UsageError(
                f"--failures={directory} holds no finished run: name the --output of one, or finish a "
                "stopped run by running its command again."
            )
        files += found
    return files


def _ledger(directories: Sequence[str]) -> str | None:
    """Return the ledger of the first run that has one. Its answers need not be paid for again."""
    for directory in directories:
        uri = ledger_in(directory)
        if uri is not None and os.path.exists(uri.removeprefix("sqlite://")):
            return uri
    return None


def _summary(options: ReplayOptions, failed: FailedRecords) -> Mapping[str, Any]:
    return {
        "failures": list(options.failures),
        "only_retryable": options.only_retryable,
        "codes": None if options.codes is None else list(options.codes),
        "max_generations": options.max_generations,
        "found": failed.found,
        "replayed": failed.chosen,
        "left_out": dict(failed.left_out),
    }
