"""The flags of `groundrows replay`: those that choose failures, and a run's flags except its source."""

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

When a record fails again, its new failure row has the earlier failures in the column `history` and their
number in `generation`.

Give the same flags as for the first run, so that the same questions are asked in the same way. By default
the first run's ledger is used, so that no stored answer is paid for again; --ledger names another one.
--output may be the directory of the failures, with --append.
"""


def _directories(text: str) -> tuple[str, ...]:
    return tuple(directory.rstrip("/") or "/" for directory in text.split(",") if directory)


def _codes(text: str) -> tuple[str, ...]:
    codes = tuple(code for code in text.split(",") if code)
    for code in codes:
        if not re.fullmatch(r"[A-Z][A-Z0-9_]*", code):
            raise UsageError(
                f"--codes={text} has {code!r}, which is not a code: write codes as UNAVAILABLE,INTERNAL."
            )
    if not codes:
        raise UsageError("--codes names no code: write codes as UNAVAILABLE,INTERNAL.")
    return codes


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """The values of the flags.

    Attributes:
        run: The flags of the run that asks again; its `inputs` are empty.
        failures: The directories of finished runs.
        only_retryable: Replay only failures that may succeed when asked again.
        codes: Replay only failures with these codes, or None for all.
        max_generations: The largest number of times that a record is replayed.
    """

    GROUP: ClassVar[str] = "what to replay"

    run: RunOptions
    failures: tuple[str, ...] = flag(
        (), Flag("The --output of earlier runs.", metavar="DIR[,DIR]", read=_directories)
    )
    only_retryable: bool = flag(False, Flag("Replay only failures that may succeed when asked again."))
    codes: tuple[str, ...] | None = flag(
        None, Flag("Replay only failures with these codes.", metavar="CODE[,CODE]", read=_codes)
    )
    max_generations: int = flag(
        5,
        Flag(
            "Leave out records that were already replayed N times. The summary counts them.",
            metavar="N",
            least=1,
            most=MOST,
        ),
    )


def replay_parser() -> FlagParser:
    """The parser of a replay's flags."""
    return FlagParser(
        prog="groundrows replay",
        description="Ask the records again that failed in earlier runs, each record once.",
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
