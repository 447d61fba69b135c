"""The flags of `groundrows expire`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from groundrows.pipeline.options.checks import values_of
from groundrows.pipeline.options.directory import run_directory
from groundrows.pipeline.options.flag import Flag, flag, flags_of
from groundrows.pipeline.options.parser import FlagParser
from groundrows.schemas.errors import UsageError

EXAMPLE = """\
examples:
  groundrows expire out/first --older_than=30d
  groundrows expire gs://BUCKET/answers --older_than=12h --ledger=redis://:PASSWORD@HOST:6379/0

The command removes links with their titles, search suggestions and passages. It keeps the answers, their
claims, queries and scores, and everything that came from your own stores and facts. It changes the ledgers
that the runs used in the same way, and no question is asked again because of it. If it was stopped, run it
again. It does not change copies that you made, such as exports, reports and tables in BigQuery.
"""

_UNITS = {"d": timedelta(days=1), "h": timedelta(hours=1)}


def _age(text: str) -> timedelta:
    return int(text[:-1]) * _UNITS[text[-1]]


@dataclass(frozen=True, slots=True)
class ExpireOptions:
    """The values of the flags.

    Attributes:
        directory: The `--output` of runs, local or `gs://`, without a slash at its end.
        older_than: The age from which answers expire.
        ledger: The URI of a ledger, with its password, or None.
        as_json: Whether to print JSON.
    """

    directory: str = run_directory()
    older_than: timedelta | None = flag(
        None,
        Flag(
            "Change answers that were answered longer ago than this.",
            metavar="AGE",
            pattern="[0-9]{1,5}[dh]",
            noun="age",
            example="30d or 12h",
            read=_age,
        ),
    )
    ledger: str | None = flag(
        None,
        Flag(
            "The ledger of the run, if it needs a password, which run.json does not contain. In a ledger "
            "outside the directory, only the answers of the directory are changed.",
            metavar="URI",
            pattern="(sqlite:///|rediss?://).+",
            noun="ledger",
            example="sqlite:///PATH or redis[s]://HOST:PORT/DB",
            secret=True,
        ),
    )
    as_json: bool = flag(False, Flag("Print one JSON object instead of text.", name="json"))


def expire_parser() -> FlagParser:
    """The parser of the command's flags."""
    return FlagParser(
        prog="groundrows expire",
        description="Remove what Google Search found from old answers, in a run's rows and ledgers.",
        epilog=EXAMPLE,
        flags=flags_of(ExpireOptions),
    )


def parse_expire(argv: Sequence[str]) -> ExpireOptions:
    """Check the flags.

    Raises:
        UsageError: One sentence about the first thing that is wrong.
    """
    options = ExpireOptions(**values_of(flags_of(ExpireOptions), expire_parser().parse_args(list(argv))))
    if options.older_than is None:
        raise UsageError("Nothing says from which age answers expire: give --older_than, such as 30d.")
    return options
