"""The views give the same in BigQuery and in DuckDB: each row once, and the figures worked out by hand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date
from pathlib import Path
from typing import Any, Protocol

import duckdb
import pytest
from polars_avro import scan_avro

from groundrows.pipeline.sinks.views import views
from groundrows.pipeline.sinks.warehouse import prepare_tables
from groundrows.pipeline.storage.row_files import RowFile
from groundrows.schemas.rows import Retrieval, Row
from groundrows.schemas.tables import TABLES
from groundrows.schemas.warehouse import json_row
from tests.support.cloud import BigQuery, big_query
from tests.support.table_rows import NOON, answer, check, chunk, claim, failure, later


class Engine(Protocol):
    """Where the views are tried."""

    def holding(self, rows: Iterable[Row]) -> Any: ...


class InBigQuery:
    """The views in BigQuery, over tables as the pipeline makes them."""

    def __init__(self, server: BigQuery) -> None:
        self._server = server
        self._dataset = server.new_dataset()
        self._filled: set[str] = set()
        prepare_tables(self._dataset)
        for statement in views(self._dataset).values():
            server.query(statement)

    def holding(self, rows: Iterable[Row]) -> Any:
        for table in self._filled:
            self._server.query(f"TRUNCATE TABLE `{self._dataset}.{table}`")
        self._filled = {row.TABLE for row in rows}
        for table in self._filled:
            found = [json_row(row) for row in rows if table == row.TABLE]
            assert self._server.client.insert_rows_json(f"{self._dataset}.{table}", found) == []
        return self._view

    def _view(self, name: str, columns: str = "*") -> list[tuple[Any, ...]]:
        found = self._server.query(f"SELECT {columns} FROM `{self._dataset}.{name}`")
        return [tuple(row.values()) for row in found]


class InDuckDB:
    """The views in DuckDB, over the files that the pipeline writes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def holding(self, rows: Iterable[Row]) -> Any:
        connection = duckdb.connect()
        connection.execute("SET TimeZone = 'UTC'")
        for table in TABLES:
            path = str(self._folder / f"{table}.avro")
            file = RowFile(path, table)
            for row in rows:
                if table == row.TABLE:
                    file.write(row)
            file.close()
            connection.register("frame", scan_avro([path]).collect())
            connection.execute(f"CREATE TABLE {table} AS SELECT * FROM frame")
        for statement in views(None).values():
            connection.execute(statement)

        def view(name: str, columns: str = "*") -> list[tuple[Any, ...]]:
            return connection.execute(f"SELECT {columns} FROM {name}").fetchall()

        return view


@pytest.fixture(scope="module")
def in_bigquery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InBigQuery]:
    with big_query(tmp_path_factory.mktemp("objects")) as server:
        yield InBigQuery(server)


@pytest.fixture(params=["BigQuery", "DuckDB"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Engine:
    return request.getfixturevalue("in_bigquery") if request.param == "BigQuery" else InDuckDB(tmp_path)


def test_an_answer_delivered_again_is_one_answer(engine: Engine) -> None:
    view = engine.holding(
        [
            # The same response twice: asked by one run, taken from the ledger by the next.
            answer(answer_id="a", run_id="r2", from_ledger=True, answered_at=NOON),
            answer(answer_id="a", run_id="r1", from_ledger=False, answered_at=NOON),
            # The very same row twice.
            answer(answer_id="b", run_id="r1"),
            answer(answer_id="b", run_id="r1"),
            # Asked anew: the newest counts, whichever run it was.
            answer(answer_id="c", run_id="r1", answered_at=later(0), answer_text="old"),
            answer(answer_id="c", run_id="r0", answered_at=later(1), answer_text="new"),
        ]
    )
    assert sorted(view("answers_latest", "answer_id, run_id, answer_text")) == [
        ("a", "r1", ""),
        ("b", "r1", ""),
        ("c", "r0", "new"),
    ]


@pytest.mark.parametrize("newer_run", ["later", "same"])
def test_chunks_and_claims_are_those_of_the_newest_response(engine: Engine, newer_run: str) -> None:
    old, new = (
        {"answer_id": "a", "run_id": "same", "answered_at": later(0)},
        {"answer_id": "a", "run_id": newer_run, "answered_at": later(1)},
    )
    rows: list[Row] = [answer(**old), answer(**new)]
    for response, count in ((old, 3), (new, 2), (new, 2)):
        for index in range(count):
            text = f"{index} of {count}"
            rows.append(chunk(**response, chunk_index=index, chunk_text=text))
            rows.append(claim(**response, claim_index=0, claim_text=text, chunk_index=index))
        rows.append(claim(**response, claim_index=1, claim_text=f"of {count}", chunk_index=None))
    view = engine.holding(rows)
    found = view("support_chunks_latest", "run_id, chunk_text")
    assert sorted(found) == [(newer_run, "0 of 2"), (newer_run, "1 of 2")]
    found = view("claim_supports_latest", "run_id, claim_index, claim_text, COALESCE(chunk_index, -1)")
    assert sorted(found) == [
        (newer_run, 0, "0 of 2", 0),
        (newer_run, 0, "1 of 2", 1),
        (newer_run, 1, "of 2", -1),
    ]


def test_the_same_response_written_by_two_runs_has_its_chunks_once(engine: Engine) -> None:
    asked = {"answer_id": "a", "run_id": "r2", "answered_at": later(1)}
    again = {**asked, "run_id": "r1"}
    lost = {"answer_id": "b", "answered_at": later(1)}
    view = engine.holding(
        [
            answer(**asked),
            answer(**again, from_ledger=True),
            *(chunk(**run, chunk_index=0) for run in (asked, again)),
            *(claim(**run, claim_index=index) for run in (asked, again) for index in (0, 1)),
            # The answer's row of one run and the others of another are left, as after rows that were dropped
            # as delivered before.
            answer(**lost, run_id="r1"),
            chunk(**lost, run_id="r2", chunk_index=0),
            claim(**lost, run_id="r2", claim_index=0),
        ]
    )
    assert sorted(view("support_chunks_latest", "answer_id, run_id, chunk_index")) == [
        ("a", "r2", 0),
        ("b", "r2", 0),
    ]
    assert sorted(view("claim_supports_latest", "answer_id, run_id, claim_index")) == [
        ("a", "r2", 0),
        ("a", "r2", 1),
        ("b", "r2", 0),
    ]


def test_a_check_is_all_rows_of_its_newest_response(engine: Engine) -> None:
    view = engine.holding(
        [
            check(check_id="c", run_id="r1", claim_index=0, claim_text="old"),
            check(check_id="c", run_id="r1", claim_index=1, claim_text="old"),
            check(check_id="c", run_id="r1", claim_index=None, claim_text="old"),
            check(check_id="c", run_id="r2", claim_index=0, claim_text="new", checked_at=later(1)),
            check(check_id="c", run_id="r2", claim_index=0, claim_text="new", checked_at=later(1)),
            check(check_id="c", run_id="r2", claim_index=None, claim_text="new", checked_at=later(1)),
            check(check_id="d", run_id="r1", claim_index=0, claim_text="other"),
        ]
    )
    found = view("grounding_checks_latest", "check_id, COALESCE(claim_index, -1), claim_text")
    assert sorted(found) == [("c", -1, "new"), ("c", 0, "new"), ("d", 0, "other")]


def test_a_failure_is_open_until_its_turn_is_answered(engine: Engine) -> None:
    view = engine.holding(
        [
            failure(failure_id="f1", question_id="made good", turn_index=1),
            answer(answer_id="a1", question_id="made good", turn_index=1, answered_at=later(1)),
            failure(failure_id="f2", question_id="another turn", turn_index=1),
            answer(answer_id="a2", question_id="another turn", turn_index=0, answered_at=later(1)),
            failure(failure_id="f3", question_id="answered before", failed_at=later(2)),
            answer(answer_id="a3", question_id="answered before", answered_at=later(1)),
            # Twice the same, and another one since: one question is open.
            failure(failure_id="f4", question_id="again", failed_at=later(0)),
            failure(failure_id="f4", question_id="again", failed_at=later(1)),
            failure(failure_id="f5", question_id="again", failed_at=later(2), code="LATER"),
            # What could not be checked stays so, whatever is answered, until it is checked.
            failure(failure_id="f6", question_id="unchecked", stage="check"),
            failure(failure_id="f7", question_id="unchecked", stage="check"),
            answer(answer_id="a6", question_id="unchecked", answered_at=later(1)),
            failure(failure_id="f8", question_id="checked", stage="check"),
            check(check_id="c8", question_id="checked", checked_at=later(1)),
            check(check_id="c9", question_id="again", checked_at=later(9)),
        ]
    )
    assert sorted(view("failures_latest", "failure_id")) == [(f"f{number}",) for number in range(1, 9)]
    assert sorted(view("failures_open", "question_id, failure_id")) == [
        ("again", "f5"),
        ("another turn", "f2"),
        ("answered before", "f3"),
        ("unchecked", "f6"),
        ("unchecked", "f7"),
    ]


def test_failures_by_day(engine: Engine) -> None:
    view = engine.holding(
        [
            failure(failure_id="a", stage="generate", code="UNAVAILABLE", retryable=True),
            failure(failure_id="b", stage="generate", code="UNAVAILABLE", failed_at=later(11.9)),
            failure(failure_id="b", stage="generate", code="UNAVAILABLE", failed_at=later(11.9)),
            failure(failure_id="c", stage="generate", code="UNAVAILABLE", failed_at=later(12.1)),
            failure(failure_id="d", stage="parse", code="INVALID_JSON"),
        ]
    )
    first, second = date(2025, 3, 1), date(2025, 3, 2)
    assert view("failures_by_day", "day, stage, code, failures, retryable") == [
        (first, "generate", "UNAVAILABLE", 2, 1),
        (first, "parse", "INVALID_JSON", 1, 0),
        (second, "generate", "UNAVAILABLE", 1, 0),
    ]


CITED = [
    answer(answer_id="a", question="Q a"),
    answer(answer_id="b", question="Q b"),
    answer(answer_id="c", question="Q c"),
    chunk(answer_id="a", chunk_index=0, uri="u0", domain="one.example", title="One"),
    chunk(answer_id="a", chunk_index=1, uri="u1", domain="two.example"),
    chunk(answer_id="b", chunk_index=0, uri="u0", domain="one.example"),
    chunk(answer_id="b", chunk_index=1, uri="u9", document_id="doc"),
    chunk(answer_id="b", chunk_index=2, uri="u2", domain="never.example"),
    claim(answer_id="a", claim_index=0, claim_text="first", chunk_index=0, chunk_uri="u0", support_score=0.5),
    claim(answer_id="a", claim_index=0, claim_text="first", chunk_index=1, chunk_uri="u1", support_score=0.5),
    claim(
        answer_id="a", claim_index=1, claim_text="second", chunk_index=0, chunk_uri="u0", support_score=1.0
    ),
    claim(answer_id="b", claim_index=0, claim_text="third", chunk_index=0, chunk_uri="u0"),
    claim(answer_id="b", claim_index=0, claim_text="third", chunk_index=1, chunk_uri="u9"),
    claim(answer_id="b", claim_index=1, claim_text="bare", claim_start=7, claim_end=11),
]


def test_the_most_cited(engine: Engine) -> None:
    view = engine.holding([*CITED, *CITED])
    domains = view("cited_domains", "domain, citations, answers, mean_support_score")
    assert domains[0] == ("one.example", 3, 2, 0.75)
    # The engines put null in different places among equals.
    assert sorted(domains[1:], key=str) == [("two.example", 1, 1, 0.5), (None, 1, 1, None)]
    assert view("cited_documents", "document, title, citations, answers") == [
        ("u0", "One", 3, 2),
        ("doc", None, 1, 1),
        ("u1", None, 1, 1),
    ]


def test_answers_with_claims(engine: Engine) -> None:
    view = engine.holding([*CITED, *CITED])
    columns = "answer_id, question, claim_text, support_score, cited_chunks, chunk_uris"
    assert sorted(view("answers_with_claims", columns), key=str) == [
        ("a", "Q a", "first", 0.5, 2, "u0 u1"),
        ("a", "Q a", "second", 1.0, 1, "u0"),
        ("b", "Q b", "bare", None, 0, None),
        ("b", "Q b", "third", None, 2, "u0 u9"),
        ("c", "Q c", None, None, None, None),
    ]


def test_unsupported_claims(engine: Engine) -> None:
    view = engine.holding([*CITED, *CITED])
    columns = "answer_id, question, claim_index, claim_text, claim_start, claim_end"
    assert view("unsupported_claims", columns) == [("b", "Q b", 1, "bare", 7, 11)]


def test_what_each_retrieval_threshold_would_ground(engine: Engine) -> None:
    predictions = [0.0, 0.3, 0.3, 0.7, 1.0]
    asked: list[Row] = [
        answer(
            answer_id=f"a{number}",
            question_id=f"q{number}",
            retrieval=(Retrieval("GOOGLE_SEARCH", "V1_INDEPENDENT", prediction),),
        )
        for number, prediction in enumerate(predictions)
    ]
    # One without a prediction, one without retrieval, and a second candidate: no further prompts.
    others = [
        answer(answer_id="b", question_id="q8", retrieval=(Retrieval("INLINE_CONTENT", None, None),)),
        answer(answer_id="c", question_id="q9"),
        answer(answer_id="d", question_id="q0", retrieval=asked[0].retrieval),  # type: ignore[union-attr]
    ]
    view = engine.holding([*asked, *asked, *others])
    found = view("retrieval_thresholds", "threshold, prompts, grounded, grounded_share")
    tenths = [number / 10 for number in range(11)]
    grounded = [sum(prediction >= threshold for prediction in predictions) for threshold in tenths]
    assert grounded == [5, 4, 4, 4, 2, 2, 2, 2, 1, 1, 1]
    assert found == [
        (pytest.approx(threshold), 5, count, pytest.approx(count / 5))
        for threshold, count in zip(tenths, grounded, strict=True)
    ]


def test_views_of_empty_tables_are_empty(engine: Engine) -> None:
    view = engine.holding([])
    assert {name: view(name) for name in views(None)} == {name: [] for name in views(None)}
