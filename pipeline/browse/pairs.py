"""Two runs side by side: which entries answer the same question, and how they differ."""

from __future__ import annotations

import duckdb

# A difference of scores that two decimals show.
TELLING = 0.005
STANDINGS = {
    "changed": "another text",
    "better": "better score",
    "worse": "worse score",
    "newly_failing": "newly failing",
    "newly_answered": "newly answered",
    "only_here": "only in this run",
    "same": "same text",
}


def pair(db: duckdb.DuckDBPyConnection) -> None:
    """Make the table `pairs` of the entries of `this`, with those of `other` that are about the same.

    Where a run has several answers to one question, which `--append` makes possible, its latest counts. A
    failure that was answered since does not count.
    """
    for name in ("this", "other"):
        db.execute(
            f"""
            CREATE TEMP TABLE latest_{name} AS
            SELECT question_id, turn, candidate, max_by(no, (moment, no)) AS no,
              max_by(text, (moment, no)) AS text,
              max_by(score, (moment, no)) AS score
            FROM {name}.entries WHERE kind = 'answer' GROUP BY ALL
            """
        )
        db.execute(
            f"""
            CREATE TEMP TABLE failed_{name} AS
            SELECT question_id, turn, max_by(no, (moment, no)) AS no FROM {name}.entries
            ANTI JOIN latest_{name} USING (question_id, turn) WHERE kind = 'failure' GROUP BY ALL
            """
        )
    db.execute(
        f"""
        CREATE TABLE pairs AS
        SELECT here.no, there.no AS other, here.text != there.text AS changed, here.text = there.text AS same,
          coalesce(here.score - there.score >= {TELLING}, false) AS better,
          coalesce(here.score - there.score <= -{TELLING}, false) AS worse,
          false AS newly_failing, false AS newly_answered, false AS only_here
        FROM latest_this AS here JOIN latest_other AS there USING (question_id, turn, candidate)
        UNION ALL BY NAME
        SELECT here.no, there.no AS other, false AS changed, false AS same, false AS better, false AS worse,
          false AS newly_failing, there.no IS NOT NULL AS newly_answered, there.no IS NULL AS only_here
        FROM latest_this AS here ANTI JOIN latest_other USING (question_id, turn, candidate)
        LEFT JOIN failed_other AS there USING (question_id, turn)
        UNION ALL BY NAME
        SELECT here.no, min(there.no) AS other, false AS changed, false AS same, false AS better,
          false AS worse, count(there.no) > 0 AS newly_failing, false AS newly_answered, false AS only_here
        FROM failed_this AS here LEFT JOIN latest_other AS there USING (question_id, turn) GROUP BY here.no
        """
    )
    for name in ("this", "other"):
        db.execute(f"DROP TABLE latest_{name}")
        db.execute(f"DROP TABLE failed_{name}")
