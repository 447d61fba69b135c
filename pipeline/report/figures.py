"""Computes the report's figures from the tables of one run.

Every function reads the tables of the current schema, which `SET schema` chooses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

Db = duckdb.DuckDBPyConnection

# The host of Google Search's redirecting links. Such a link does not show the site that it leads to.
REDIRECT = "vertexaisearch.cloud.google.com"
TOP_SOURCES = 15
SHARE_BINS = 20
LATENCY_BINS = 32
# The latency axis spans at least a factor of two.
LEAST_DECADES = math.log10(2)
MOST_CLAIMS = 12
# The spans of time that a plot may be divided into, in seconds, and the largest number of them.
STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400, 604_800)
MOST_STEPS = 96


@dataclass(frozen=True, slots=True)
class Bin:
    """The number of values from `low` up to, but not including, `high`. The last bin includes `high`."""

    low: float
    high: float
    count: int


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over all answers.

    Attributes:
        answers: Number of rows in the answers table: one for each candidate of each turn.
        questions: Number of distinct questions.
        runs: Number of distinct runs that wrote answers or failures.
        claims: Number of claims.
        supported: Number of claims that cite a support chunk.
        chunks: Number of support chunks.
        failures: Number of rows in the failures table.
        scored: Number of answers with a grounding score.
        score: The median grounding score, or None.
        coverage: The median support coverage, or None.
        warned: Number of answers with warnings.
        from_ledger: Number of answers that came from the ledger.
        streamed: Number of answers that were streamed.
        first_part_ms: The median time until their first part arrived, in milliseconds, or None.
        turns: Number of distinct turns of questions.
        without_source: Number of answers for which the service named no source.
    """

    answers: int
    questions: int
    runs: int
    claims: int
    supported: int
    chunks: int
    failures: int
    scored: int
    score: float | None
    coverage: float | None
    warned: int
    from_ledger: int
    streamed: int
    first_part_ms: float | None
    turns: int
    without_source: int

    @property
    def unsupported_share(self) -> float | None:
        """The share of claims without support; None when there are no claims."""
        return None if not self.claims else 1 - self.supported / self.claims


def totals(db: Db) -> Totals:
    """Compute the totals."""
    row = _row(
        db,
        """
        SELECT count(*), count(DISTINCT question_key),
          (SELECT count(DISTINCT run_id) FROM
            (SELECT run_id FROM answers UNION ALL SELECT run_id FROM failures)),
          coalesce(sum(claims), 0)::BIGINT, coalesce(sum(supported), 0)::BIGINT,
          coalesce(sum(chunks), 0)::BIGINT, (SELECT count(*) FROM failures),
          count(score), median(score), median(coverage), count(*) FILTER (warnings > 0),
          count(*) FILTER (from_ledger), count(first_part_ms), median(first_part_ms),
          count(DISTINCT (question_key, turn_index)), count(*) FILTER (chunks = 0)
        FROM answers
        """,
    )
    return Totals(*row)


@dataclass(frozen=True, slots=True)
class Repeated:
    """Answers with the same text to different questions. Empty answers are not among them.

    Attributes:
        answers: Number of answers that share their text.
        texts: Number of texts that they share.
        top: The most frequent texts, each as the key of one answer and the number of answers.
    """

    answers: int
    texts: int
    top: list[tuple[int, int]]


MOST_REPEATED = 3


def repeated(db: Db) -> Repeated:
    """Find the answers whose text is also the answer to another question."""
    rows = db.execute(
        """
        SELECT key, number, sum(number) OVER ()::BIGINT, count(*) OVER () FROM (
          SELECT min(key) AS key, count(*) AS number FROM answers WHERE length > 0
          GROUP BY text HAVING count(DISTINCT question_key) > 1
        ) ORDER BY number DESC, key LIMIT ?
        """,
        [MOST_REPEATED],
    ).fetchall()
    answers, texts = rows[0][2:] if rows else (0, 0)
    return Repeated(answers, texts, [(key, number) for key, number, _, _ in rows])


def last_run(db: Db) -> str | None:
    """Return the ID of the run that wrote the latest row."""
    found = db.execute(
        """
        SELECT run_id FROM
          (SELECT run_id, answered AS moment FROM answers UNION ALL SELECT run_id, failed FROM failures)
        GROUP BY run_id ORDER BY max(moment) DESC LIMIT 1
        """
    ).fetchone()
    return found[0] if found else None


def shares(db: Db, column: str, table: str = "answers") -> list[Bin]:
    """Count the values of a column, from 0 to 1, in bins of equal width; empty when it has no values."""
    width = 1 / SHARE_BINS
    # A 32-bit float of 0.35 is slightly less as a 64-bit float. It belongs to the bin that begins at 0.35.
    rows = db.execute(
        f"SELECT greatest(least(floor({column} * {SHARE_BINS} + 1e-6), {SHARE_BINS - 1}), 0)::INT AS bin, "
        f"count(*) FROM {table} WHERE {column} IS NOT NULL GROUP BY bin"
    ).fetchall()
    counts = dict(rows)
    if not counts:
        return []
    return [Bin(each * width, (each + 1) * width, counts.get(each, 0)) for each in range(SHARE_BINS)]


def claim_scores(db: Db) -> list[Bin]:
    """Count the claims' support scores in bins. Each claim counts once."""
    return shares(
        db,
        "score",
        "(SELECT key, claim_index, any_value(support_score) AS score FROM claim_supports GROUP BY ALL)",
    )


def claims_per_answer(db: Db) -> list[tuple[str, int]]:
    """Count the answers with no claim, with one, with two, and so on. The last count is for all with more."""
    rows = db.execute(f"SELECT least(claims, {MOST_CLAIMS}), count(*) FROM answers GROUP BY 1").fetchall()
    counts = dict(rows)
    last = max(counts, default=-1)
    names = [str(each) if each < MOST_CLAIMS else f"{MOST_CLAIMS}+" for each in range(last + 1)]
    return [(name, counts.get(each, 0)) for each, name in enumerate(names)]


UNSUPPORTED = ("none", "up to ¼", "up to ½", "up to ¾", "more", "all")


def unsupported_shares(db: Db) -> list[tuple[str, int]]:
    """Count the answers with claims by their share of unsupported claims; empty when no answer has claims."""
    rows = db.execute(
        """
        SELECT CASE WHEN supported >= claims THEN 0 WHEN supported = 0 THEN 5
          ELSE least(ceil((claims - supported) * 4 / claims), 4)::INT END AS share, count(*)
        FROM answers WHERE claims > 0 GROUP BY share
        """
    ).fetchall()
    counts = dict(rows)
    return [(name, counts.get(each, 0)) for each, name in enumerate(UNSUPPORTED)] if counts else []


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds of the calls that returned an answer: percentiles by name, and bins.

    Answers from the ledger are left out, because this run did not call for them.
    """

    calls: int
    percentiles: dict[str, float]
    bins: list[Bin]


# A call has one row for each candidate, so only the first counts. Another run called for ledger answers.
CALLED = "candidate_index = 0 AND NOT from_ledger AND latency IS NOT NULL"


def latency(db: Db) -> Latency | None:
    """Return how long the calls took; None when the run made none."""
    count, low, high, quantiles = _row(
        db,
        f"""
        SELECT count(*), min(latency), max(latency), quantile_cont(latency, [0.5, 0.9, 0.95, 0.99])
        FROM answers WHERE {CALLED}
        """,
    )
    if not count:
        return None
    named = dict(zip(("p50", "p90", "p95", "p99"), quantiles, strict=True))
    percentiles = {"min": low, **named, "max": high}
    return Latency(count, percentiles, _latency_bins(db, max(low, 0.01), max(high, 0.01)))


def _latency_bins(db: Db, low: float, high: float) -> list[Bin]:
    """Count latencies in bins of equal width on a logarithmic scale, as slow calls may take very long."""
    first, span = math.log10(low), math.log10(high / low)
    if span < LEAST_DECADES:
        first, span = first - (LEAST_DECADES - span) / 2, LEAST_DECADES
    width = span / LATENCY_BINS
    rows = db.execute(
        f"""
        SELECT greatest(least(floor(place), {LATENCY_BINS - 1}), 0)::INT AS bin, count(*)
        FROM (
          SELECT (log10(greatest(latency, 0.01)) - {first!r}) / {width!r} AS place FROM answers WHERE {CALLED}
        ) GROUP BY bin
        """
    ).fetchall()
    counts = dict(rows)
    edges = [10 ** (first + each * width) for each in range(LATENCY_BINS + 1)]
    return [Bin(edges[each], edges[each + 1], counts.get(each, 0)) for each in range(LATENCY_BINS)]


@dataclass(frozen=True, slots=True)
class Moment:
    """A span of time: its begin (seconds since the epoch), calls per minute, latency in milliseconds."""

    begin: float
    per_minute: float
    p50: float | None
    p95: float | None


@dataclass(frozen=True, slots=True)
class Timeline:
    """A run's calls over time, divided into spans of `step` seconds."""

    step: int
    moments: list[Moment]


def timeline(db: Db, run_id: str | None) -> Timeline | None:
    """Return the calls of one run that returned an answer, by the time when they started; None without any.

    The first and the last span are seldom complete, so they show less than the real rate.
    """
    where = f"{CALLED} AND run_id = ?"
    first, last = _row(db, f"SELECT min(asked), max(asked) FROM answers WHERE {where}", [run_id])
    if first is None:
        return None
    step = step_of((last - first) / 1e6)
    rows = db.execute(
        f"""
        SELECT (asked // {step * 1_000_000})::BIGINT AS span, count(*), quantile_cont(latency, [0.5, 0.95])
        FROM answers WHERE {where} GROUP BY span
        """,
        [run_id],
    ).fetchall()
    found = {span: (count, quantiles) for span, count, quantiles in rows}
    moments = []
    for span in range(min(found), max(found) + 1):
        count, (p50, p95) = found.get(span, (0, (None, None)))
        moments.append(Moment(float(span * step), count * 60 / step, p50, p95))
    return Timeline(step, moments)


def step_of(seconds: float) -> int:
    """How long the spans are into which a plot cuts so much time, in whole seconds."""
    return next((step for step in STEPS if seconds / step <= MOST_STEPS), math.ceil(seconds / MOST_STEPS))


@dataclass(frozen=True, slots=True)
class Source:
    """A site or a document, the number of claims that cite it, and the number of answers that do."""

    name: str
    uri: str | None
    citations: int
    answers: int


@dataclass(frozen=True, slots=True)
class Sources:
    """The most cited sources, and the number of all sources."""

    count: int
    top: list[Source]


# All sources may be cited equally often. So only this many of them are sorted by name, which is slow.
_CANDIDATES = 1_000
_NAMED = f"""
    SELECT key, chunk_index, uri, title,
      CASE WHEN domain != '' THEN domain
        WHEN host != '' AND host != '{REDIRECT}' THEN host
        WHEN host = '{REDIRECT}' AND title != '' THEN title END AS site,
      CASE WHEN document_id != '' THEN document_id WHEN host = '{REDIRECT}' AND title != '' THEN title
        WHEN uri != '' THEN uri WHEN title != '' THEN title END AS document
    FROM (SELECT *, lower(regexp_extract(uri, '^https?://([^/?#:]+)', 1)) AS host FROM support_chunks)
"""
_CITED = "SELECT key, chunk_index FROM claim_supports WHERE chunk_index IS NOT NULL"


def sources(db: Db) -> tuple[Sources, Sources]:
    """Return the most cited sites and the most cited documents.

    A site is the chunk's `domain`, or else the URI's host. For a redirecting link of Google Search it is the
    title, which usually is the site's name. A document is `document_id`, or else the URI, or else the title.
    """
    return (
        _top(db, "site", "site, NULL"),
        _top(
            db,
            "document",
            "coalesce(nullif(title, ''), document), CASE WHEN document IS DISTINCT FROM title THEN uri END",
        ),
    )


def _top(db: Db, by: str, name_and_uri: str) -> Sources:
    # Hashes stand for the names while citations are counted, because the names are many and long. Grouping
    # by answer takes less memory than counting DISTINCT answers.
    db.execute(
        f"""
        CREATE OR REPLACE TEMP TABLE cited AS
        SELECT id, sum(citations)::BIGINT AS citations, count(*) AS answers FROM (
          SELECT hash({by}) AS id, key, count(*) AS citations
          FROM ({_NAMED}) JOIN ({_CITED}) USING (key, chunk_index) WHERE {by} IS NOT NULL GROUP BY ALL
        ) GROUP BY id
        """
    )
    count = _row(db, "SELECT count(*) FROM cited")[0]
    rows = db.execute(
        f"""
        SELECT {name_and_uri}, citations, answers FROM (
          SELECT {by}, any_value(title) AS title, any_value(uri) AS uri,
            any_value(citations) AS citations, any_value(answers) AS answers
          FROM ({_NAMED}) AS named
          JOIN (FROM cited ORDER BY citations DESC, id LIMIT {_CANDIDATES}) AS most ON hash({by}) = most.id
          GROUP BY {by}
        ) ORDER BY citations DESC, {by} LIMIT {TOP_SOURCES}
        """
    ).fetchall()
    db.execute("DROP TABLE cited")
    return Sources(count, [Source(*row) for row in rows])


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """The failures of one stage and code.

    Attributes:
        stage: The stage in which they failed.
        code: Their failure code.
        count: Number of failures.
        retryable: Number of failures that may succeed when asked again.
        answered_since: Number of failures that a later run answered (or checked, for failed checks).
        worth_asking: Number of failures that may succeed when asked again and have no answer yet.
        example: The key of one of their rows.
    """

    stage: str
    code: str
    count: int
    retryable: int
    answered_since: int
    worth_asking: int
    example: int


def failure_groups(db: Db) -> list[FailureGroup]:
    """Group the failures by stage and code, the most frequent group first."""
    rows = db.execute(
        """
        WITH good AS (
          SELECT question_key, turn_index, run_id, answered AS moment, false AS is_check FROM answers
          UNION ALL SELECT question_key, turn_index, run_id, checked, true FROM grounding_checks
        ), told AS (
          SELECT *, EXISTS (
            SELECT 1 FROM good WHERE good.question_key = failures.question_key
            AND good.turn_index = failures.turn_index AND good.run_id != failures.run_id
            AND good.moment > failures.failed AND good.is_check = (failures.stage = 'check')
          ) AS answered_since FROM failures
        )
        SELECT stage, code, count(*) AS number, count(*) FILTER (retryable),
          count(*) FILTER (answered_since), count(*) FILTER (retryable AND NOT answered_since),
          min_by(key, (failed, key))
        FROM told GROUP BY stage, code ORDER BY number DESC, stage, code
        """
    ).fetchall()
    return [FailureGroup(*row) for row in rows]


@dataclass(frozen=True, slots=True)
class Checks:
    """Grounding checks: their number, the number with a score, the median score, and scores in bins."""

    count: int
    scored: int
    median: float | None
    scores: list[Bin]
    claim_scores: list[Bin]


def checks(db: Db) -> Checks | None:
    """Return the figures of the grounding checks; None when nothing was checked."""
    each = "(SELECT check_key, any_value(score) AS score FROM grounding_checks GROUP BY check_key)"
    count, scored, middle = _row(db, f"SELECT count(*), count(score), median(score) FROM {each}")
    if not count:
        return None
    return Checks(
        count, scored, middle, shares(db, "score", each), shares(db, "claim_score", "grounding_checks")
    )


def _row(db: Db, sql: str, values: Sequence[Any] = ()) -> tuple[Any, ...]:
    """Return the only row of a query's result."""
    row = db.execute(sql, values).fetchone()
    assert row is not None
    return row
