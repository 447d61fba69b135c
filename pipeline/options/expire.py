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

Links with their titles, search suggestions and passages go; the answers, their claims, queries and scores
stay, and so does all that came from your own stores and facts. The ledgers that the runs used are treated in
the same way: nothing in them is asked again. Run the command again if it was stopped. Copies that you made,
such as exports, reports and tables in BigQuery, are not touched.
"""

_UNITS = {"d": timedelta(days=1), "h": timedelta(hours=1)}


def _age(text: str) -> timedelta:
    return int(text[:-1]) * _UNITS[text[-1]]


@dataclass(frozen=True, slots=True)
class ExpireOptions:
    """What is to expire.

    Attributes:
        directory: The `--output` of runs, local or `gs://`, without a slash at its end.
        older_than: The age from which on answers expire.
        ledger: The URI of a ledger, with its password, or None.
        as_json: Whether to print JSON.
    """

    directory: str = run_directory()
    older_than: timedelta | None = flag(
        None,
        Flag(
            "Remove from answers that are older than this, by the time at which each was answered.",
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
            "The ledger of the run, if it needs a password: run.json, which names it, has none. Of a ledger "
            "outside of the directory only the answers of the directory expire.",
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
        raise UsageError("Nothing says from which age on answers expire: give --older_than, such as 30d.")
    return options
