"""The flags of `groundrows replay`: which failures, and those of a run but its input."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from groundrows.pipeline.options.checks import values_of
from groundrows.pipeline.options.flag import MOST, Flag, flag, flags_of
from groundrows.pipeline.options.parser import FlagParser
from groundrows.pipeline.options.run import RUNNERS, RunOptions, checked_options, parse_flags, replay_flags
from groundrows.schemas.errors import UsageError

EXAMPLE = """\
example:
  groundrows replay --failures=out/first --only_retryable --service=emulator --output=out/again

A record that fails again has its earlier failures in the column `history`, their number in `generation`.
Give the flags that the first run had, so that the same is asked in the same way. Unless --ledger names
another, the first run's own ledger is used, so that no answer it holds is paid for again. --output may be
the directory of the failures, with --append.
"""


def _directories(text: str) -> tuple[str, ...]:
    return tuple(directory.rstrip("/") or "/" for directory in text.split(",") if directory)


def _codes(text: str) -> tuple[str, ...]:
    codes = tuple(code for code in text.split(",") if code)
    for code in codes:
        if not re.fullmatch(r"[A-Z][A-Z0-9_]*", code):
            raise UsageError(
                f"--codes={text} has {code!r}, which is no code: write them as UNAVAILABLE,INTERNAL."
            )
    if not codes:
        raise UsageError("--codes names no code: write them as UNAVAILABLE,INTERNAL.")
    return codes


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """A replay as asked for.

    Attributes:
        run: The run that it is; its `inputs` are empty.
        failures: Directories of finished runs.
        only_retryable: Replay only what may go well another time.
        codes: Replay only failures of these codes, or None for all.
        max_generations: How often a record is replayed at most.
    """

    GROUP: ClassVar[str] = "what to replay"

    run: RunOptions
    failures: tuple[str, ...] = flag(
        (), Flag("The --output of earlier runs.", metavar="DIR[,DIR]", read=_directories)
    )
    only_retryable: bool = flag(False, Flag("Replay only failures that may go well another time."))
    codes: tuple[str, ...] | None = flag(
        None, Flag("Replay only failures of these codes.", metavar="CODE[,CODE]", read=_codes)
    )
    max_generations: int = flag(
        5,
        Flag(
            "Leave out records that were replayed N times already; the summary counts them.",
            metavar="N",
            least=1,
            most=MOST,
        ),
    )


def replay_parser() -> FlagParser:
    """The parser of a replay's flags."""
    return FlagParser(
        prog="groundrows replay",
        description="Ask again what failed in earlier runs, each record once.",
        epilog=EXAMPLE + RUNNERS,
        flags=flags_of(ReplayOptions) + replay_flags(),
    )


def parse_replay(argv: Sequence[str]) -> ReplayOptions:
    """Check a replay's flags.

    Raises:
        UsageError: One sentence about the first thing that is wrong.
    """
    given, runner_flags = parse_flags(replay_parser(), argv)
    own = values_of(flags_of(ReplayOptions), given)
    if not own["failures"]:
        raise UsageError("Nothing says what to replay: give --failures=DIR, the --output of an earlier run.")
    return ReplayOptions(run=checked_options(replay_flags(), given, runner_flags), **own)
