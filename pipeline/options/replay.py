"""The flags of `groundrows replay`: which failures, and those of a run but its input."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from groundrows.pipeline.options.flags import FlagParser, HelpFormatter, add_run_flags
from groundrows.pipeline.options.run import RunOptions, check_output, checked_options, parse_flags
from groundrows.pipeline.options.source import Source
from groundrows.schemas.errors import UsageError

EXAMPLE = """\
example:
  groundrows replay --failures=out/first --only_retryable --service=emulator --output=out/again

A record that fails again has its earlier failures in the column `history`, their number in `generation`.
Give the flags that the first run had, so that the same is asked in the same way. Unless --ledger names
another, the first run's own ledger is used, so that no answer it holds is paid for again. --output may be
the directory of the failures, with --append.
"""


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

    run: RunOptions
    failures: tuple[str, ...]
    only_retryable: bool
    codes: tuple[str, ...] | None
    max_generations: int


def replay_parser() -> FlagParser:
    """The parser of a replay's flags."""
    parser = FlagParser(
        prog="groundrows replay",
        description="Ask again what failed in earlier runs, each record once.",
        epilog=EXAMPLE + "\nFlags of the runner, such as --direct_num_workers, pass through.",
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    replay = parser.add_argument_group("what to replay")
    replay.add_argument("--failures", metavar="DIR[,DIR]", help="the --output of earlier runs")
    replay.add_argument(
        "--only_retryable", action="store_true", help="only failures that may go well another time"
    )
    replay.add_argument("--codes", metavar="CODE[,CODE]", help="only failures of these codes")
    replay.add_argument(
        "--max_generations",
        type=int,
        default=5,
        metavar="N",
        help="leave out records that were replayed so often; the summary counts them (default: 5)",
    )
    add_run_flags(parser, inputs=False)
    return parser


def parse_replay(argv: Sequence[str]) -> ReplayOptions:
    """Check a replay's flags.

    Raises:
        UsageError: One sentence about the first thing that is wrong.
    """
    flags, runner_flags = parse_flags(replay_parser(), argv)
    failures = _parts(flags.failures)
    if not failures:
        raise UsageError("Nothing says what to replay: give --failures=DIR, the --output of an earlier run.")
    check_output(flags)
    if flags.max_generations < 1:
        raise UsageError(
            f"--max_generations={flags.max_generations} makes no sense: give a whole number from 1 on."
        )
    return ReplayOptions(
        run=checked_options(flags, runner_flags, Source()),
        failures=tuple(directory.rstrip("/") or "/" for directory in failures),
        only_retryable=flags.only_retryable,
        codes=None if flags.codes is None else _codes(flags.codes),
        max_generations=flags.max_generations,
    )


def _codes(text: str) -> tuple[str, ...]:
    codes = _parts(text)
    for code in codes:
        if not re.fullmatch(r"[A-Z][A-Z0-9_]*", code):
            raise UsageError(
                f"--codes={text} has {code!r}, which is no code: write them as UNAVAILABLE,INTERNAL."
            )
    if not codes:
        raise UsageError("--codes names no code: write them as UNAVAILABLE,INTERNAL.")
    return codes


def _parts(text: str | None) -> tuple[str, ...]:
    return tuple(part for part in (text or "").split(",") if part)
