"""`groundrows sql`: the statements that make the views over a run's tables."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from groundrows.pipeline.options.flags import FlagParser, HelpFormatter
from groundrows.pipeline.sinks.views import views

EXAMPLE = """\
example:
  groundrows sql --bigquery_dataset=my-project.rows | bq query --use_legacy_sql=false
"""


def sql_parser() -> FlagParser:
    """The parser of the command's flags."""
    parser = FlagParser(
        prog="groundrows sql",
        description="Print the statements that make the views: every row once, answers with their claims,\n"
        "unsupported claims, sources, thresholds, failures.",
        epilog=EXAMPLE,
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--bigquery_dataset",
        metavar="PROJECT.DATASET",
        help="where the tables are; without it the names stand alone, as in DuckDB",
    )
    return parser


def sql(argv: Sequence[str]) -> int:
    """Run the command; returns the exit code.

    Raises:
        UsageError: The dataset's name is none.
    """
    flags: argparse.Namespace = sql_parser().parse_args(list(argv))
    print("\n".join(views(flags.bigquery_dataset).values()), end="")
    return 0
