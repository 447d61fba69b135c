"""`groundrows sql`: prints the SQL statements that create the views over a run's tables."""

from __future__ import annotations

from collections.abc import Sequence

from groundrows.pipeline.options.sql import parse_sql
from groundrows.pipeline.sinks.views import views


def sql(argv: Sequence[str]) -> int:
    """Run the command; returns the exit code.

    Raises:
        UsageError: The dataset's name is not valid.
    """
    print("\n".join(views(parse_sql(argv).bigquery_dataset).values()), end="")
    return 0
