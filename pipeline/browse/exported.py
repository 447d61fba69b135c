"""Verdicts beside the answers that they are on, for files of rows."""

from __future__ import annotations

import duckdb
import pyarrow as pa

from groundrows.pipeline.browse.verdicts import given


def join_verdicts(db: duckdb.DuckDBPyConnection, directory: str) -> None:
    """Add `verdict`, `verdict_note` and `judged_at` to the view `answers`, if a run's answers have verdicts.

    Raises:
        UsageError: The verdicts can't be read.
    """
    verdicts = given(directory)
    if not verdicts:
        return
    judged, said = zip(*verdicts, strict=True)
    table = pa.table(
        {
            "run_id": pa.array([each.run_id for each in judged], pa.string()),
            "answer_id": pa.array([each.answer_id for each in judged], pa.string()),
            "answered_at_us": pa.array([each.answered_at for each in judged], pa.int64()),
            "verdict": pa.array([each.verdict or None for each in said], pa.string()),
            "verdict_note": pa.array([each.note or None for each in said], pa.string()),
            "judged_at": pa.array([each.judged_at for each in said], pa.timestamp("us", "UTC")),
        }
    )
    db.register("given_verdicts", table)
    db.execute("CREATE TABLE verdicts AS SELECT * FROM given_verdicts")
    db.unregister("given_verdicts")
    db.execute("ALTER VIEW answers RENAME TO answers_alone")
    # A join keeps no order.
    db.execute(
        """
        CREATE VIEW answers AS
        SELECT a.* EXCLUDE (place), v.verdict, v.verdict_note, v.judged_at
        FROM (SELECT *, row_number() OVER () AS place FROM answers_alone) AS a LEFT JOIN verdicts AS v
        ON a.run_id = v.run_id AND a.answer_id = v.answer_id AND epoch_us(a.answered_at) = v.answered_at_us
        ORDER BY a.place
        """
    )
