"""The flags of `groundrows sql`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from groundrows.pipeline.options.checks import values_of
from groundrows.pipeline.options.flag import Flag, flag, flags_of
from groundrows.pipeline.options.parser import FlagParser

EXAMPLE = """\
example:
  groundrows sql --bigquery_dataset=my-project.rows | bq query --use_legacy_sql=false
"""


@dataclass(frozen=True, slots=True)
class SqlOptions:
    """The values of the flags. `bigquery_dataset` is None for table names without a dataset."""

    bigquery_dataset: str | None = flag(
        None,
        Flag(
            "The dataset of the tables. Without it, table names have no dataset, as in DuckDB.",
            metavar="PROJECT.DATASET",
        ),
    )


def sql_parser() -> FlagParser:
    """The parser of the command's flags."""
    return FlagParser(
        prog="groundrows sql",
        description="Print the SQL statements that create the views: every row once, answers with their\n"
        "claims, unsupported claims, sources, thresholds, failures.",
        epilog=EXAMPLE,
        flags=flags_of(SqlOptions),
    )


def parse_sql(argv: Sequence[str]) -> SqlOptions:
    """Check the flags.

    Raises:
        UsageError: A flag does not exist or lacks its value.
    """
    return SqlOptions(**values_of(flags_of(SqlOptions), sql_parser().parse_args(list(argv))))
