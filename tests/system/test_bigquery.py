"""Rows in BigQuery: as they were, in tables that are laid out, and none lost without a word."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any
from unittest.mock import patch

import apache_beam as beam
import pytest
from apache_beam.io.gcp import bigquery_file_loads
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing import test_stream
from apache_beam.testing.util import assert_that, equal_to
from google.cloud import bigquery

from groundrows.pipeline.sinks.warehouse import RefusedRow, WriteToWarehouse, prepare_tables
from groundrows.schemas.errors import RefusedError, UsageError
from groundrows.schemas.rows import CitedChunk, Image, ImageFile, Retrieval, Row
from groundrows.schemas.tables import TABLES
from groundrows.schemas.warehouse import row_dict, table_layout, table_schema
from groundrows.transforms.counters import REFUSED_ROWS
from tests.support.cloud import BigQuery, CloudStorage, big_query, cloud_storage
from tests.support.table_rows import NOON, answer, check, chunk, claim, failure, later
from tests.support.tools import is_one_sentence

SECRET = "what nobody may read in a log"


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CloudStorage]:
    with cloud_storage(tmp_path_factory.mktemp("objects")) as running:
        yield running


@pytest.fixture(scope="module")
def server(storage: CloudStorage) -> Iterator[BigQuery]:
    with big_query(storage.root) as running:
        yield running


@pytest.fixture(autouse=True)
def _quick_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """A load job here is done at once; Beam would look after ten seconds."""
    monkeypatch.setattr(bigquery_file_loads, "_SLEEP_DURATION_BETWEEN_POLLS", 0.1)


GROUPS: list[tuple[Row, ...]] = [
    (
        answer(
            answer_id="a",
            question='なぜ? "quoted"\n🙂',
            grounding_score=0.25,
            web_search_queries=("one", "two"),
            search_sdk_blob=b"\x00\xff\n",
            retrieval=(Retrieval("GOOGLE_SEARCH", "V1_INDEPENDENT", 0.5), Retrieval("9", None, None)),
            images=(Image(ImageFile("https://i.example/1", 640, 480), None, None),),
            asked_at=later(-0.001),
            uris_expire_at=later(720),
        ),
        chunk(answer_id="a", chunk_index=0, source_metadata={"title": "T", "author": "ü"}),
        chunk(answer_id="a", chunk_index=1, uri="https://u.example"),
        claim(answer_id="a", claim_text="c", claim_start=0, claim_end=2**31 - 1),
    ),
    (failure(failure_id="f", record=b"\xfe not UTF-8", history=("earlier", "later")),),
    (
        check(
            check_id="k",
            claim_index=0,
            citations=(CitedChunk(0, "text", "0", None, None, None, {"k": "v"}, None),),
        ),
    ),
    (),
]


def write(dataset: str, groups: Iterable[Iterable[Row]], **settings: Any) -> Any:
    """A batch job that writes the groups; its result."""
    pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([]))
    pipeline | beam.Create(list(groups)) | WriteToWarehouse(dataset, **settings)
    result = pipeline.run()
    result.wait_until_finish()
    return result


def held(server: BigQuery, dataset: str, table: str) -> list[dict[str, Any]]:
    return server.query(f"SELECT * FROM `{dataset}.{table}`")


def by_repr(rows: Iterable[dict[str, Any]]) -> list[str]:
    return sorted(repr(row) for row in rows)


@pytest.mark.parametrize("insert", [False, True], ids=["loaded", "inserted"])
def test_rows_arrive_as_they_were(server: BigQuery, storage: CloudStorage, insert: bool) -> None:
    dataset = server.new_dataset()
    settings = {"temp_location": storage.url("loads"), "insert": insert}
    # The first run makes the tables, the second adds to one of them.
    write(dataset, GROUPS, **settings)
    write(dataset, [(answer(answer_id="b", run_id="second"),)], **settings, tables=["answers"])
    expected = {
        table: [row_dict(row) for group in GROUPS for row in group if table == row.TABLE] for table in TABLES
    }
    expected["answers"].append(row_dict(answer(answer_id="b", run_id="second")))
    for table in TABLES:
        assert by_repr(held(server, dataset, table)) == by_repr(expected[table])
        made = server.client.get_table(f"{dataset}.{table}").to_api_repr()
        assert made["schema"]["fields"] == table_schema(table)["fields"]
        if insert:
            assert {name: made[name] for name in table_layout(table)} == table_layout(table)
    if not insert:
        check_loads(server, storage, dataset)


def check_loads(server: BigQuery, storage: CloudStorage, dataset: str) -> None:
    """What the load jobs asked for; the stand-in lays no table out that a load makes."""
    asked = {}
    for job in server.client.list_jobs():
        load = job.to_api_repr()["configuration"].get("load", {})
        if load.get("destinationTable", {}).get("datasetId") == dataset.split(".")[1]:
            asked[load["destinationTable"]["tableId"]] = load
    assert sorted(asked) == sorted(TABLES)
    for table, load in asked.items():
        assert {name: load[name] for name in table_layout(table)} == table_layout(table)
        assert load["schemaUpdateOptions"] == ["ALLOW_FIELD_ADDITION"]
        assert load["writeDisposition"] == "WRITE_APPEND"
        assert load["createDisposition"] == "CREATE_IF_NEEDED"
        assert (load["sourceFormat"], load["useAvroLogicalTypes"]) == ("AVRO", True)
        assert all(uri.startswith(storage.url("loads", "")) for uri in load["sourceUris"])


# -- tables that are there already -------------------------------------------------------------------------


def older_table(server: BigQuery, dataset: str, table: str, **changes: Any) -> None:
    """A table as some earlier version may have made it."""
    project, name = dataset.split(".")
    made = {
        "tableReference": {"projectId": project, "datasetId": name, "tableId": table},
        "schema": table_schema(table),
        **table_layout(table),
        **changes,
    }
    server.client.create_table(bigquery.Table.from_api_repr(made))


def without(table: str, column: str) -> dict[str, Any]:
    return {"fields": [field for field in table_schema(table)["fields"] if field["name"] != column]}


def test_preparing_makes_tables_and_adds_columns(server: BigQuery) -> None:
    dataset = server.new_dataset()
    schema = without("failures", "metadata")
    schema["fields"].append({"name": "mine", "type": "STRING", "mode": "NULLABLE"})
    older_table(server, dataset, "failures", schema=schema)
    for _ in range(2):
        prepare_tables(dataset)
        for table in TABLES:
            fields = [field.name for field in server.client.get_table(f"{dataset}.{table}").schema]
            ours = [field["name"] for field in table_schema(table)["fields"]]
            if table == "failures":
                ours = [name for name in ours if name != "metadata"] + ["mine", "metadata"]
            assert fields == ours


def retyped(table: str, column: str, kind: str) -> dict[str, Any]:
    return {
        "fields": [{**f, "type": kind} if f["name"] == column else f for f in table_schema(table)["fields"]]
    }


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"schema": retyped("answers", "attempts", "STRING")}, "attempts is STRING and should be INTEGER"),
        ({"schema": without("answers", "question")}, "question is missing"),
        ({"timePartitioning": {"type": "DAY", "field": "asked_at"}}, "partition for each day of answered_at"),
        ({"clustering": {"fields": ["run_id"]}}, "clustered by question_id"),
    ],
)
def test_somebody_else_s_table_is_refused(server: BigQuery, changes: dict[str, Any], why: str) -> None:
    dataset = server.new_dataset()
    older_table(server, dataset, "answers", **changes)
    with pytest.raises(UsageError, match=why) as raised:
        prepare_tables(dataset)
    assert is_one_sentence(str(raised.value)), str(raised.value)
    assert f"{dataset}.answers" in str(raised.value)


def test_a_dataset_that_is_not_there(server: BigQuery) -> None:
    with pytest.raises(UsageError, match=r"--bigquery_dataset=demo-project:nowhere can't be used") as raised:
        prepare_tables("demo-project:nowhere")
    assert is_one_sentence(str(raised.value)), str(raised.value)


# -- rows that are refused ---------------------------------------------------------------------------------


def test_a_load_that_fails_fails_the_job(server: BigQuery, storage: CloudStorage) -> None:
    dataset = server.new_dataset()
    older_table(server, dataset, "answers", schema=retyped("answers", "question", "INTEGER"))
    with pytest.raises(RuntimeError, match=r"BigQuery job .* failed"):
        write(dataset, [(answer(question=SECRET),)], temp_location=storage.url("loads"))
    assert held(server, dataset, "answers") == []


def test_a_row_that_is_refused_fails_a_batch(server: BigQuery, caplog: pytest.LogCaptureFixture) -> None:
    dataset = server.new_dataset()
    older_table(server, dataset, "answers", schema=retyped("answers", "question", "INTEGER"))
    with pytest.raises(RefusedError, match=r"refused a row of demo-project:\w+\.answers") as raised:
        write(dataset, [(answer(question=SECRET),), (failure(failure_id="f"),)], insert=True)
    assert SECRET not in str(raised.value) + caplog.text


def test_a_stream_goes_on_without_a_row_that_is_refused(
    server: BigQuery, caplog: pytest.LogCaptureFixture
) -> None:
    dataset = server.new_dataset()
    too_large = answer(answer_id="large", answer_text="x" * (10 << 20), question=SECRET)
    fits = answer(answer_id="fits")
    stream = (
        test_stream.TestStream()
        .add_elements([(fits, chunk(answer_id="fits")), (too_large,)])
        .advance_watermark_to_infinity()
    )
    with caplog.at_level(logging.ERROR):
        pipeline = beam.Pipeline("BundleBasedDirectRunner", options=PipelineOptions(["--streaming"]))
        refused = pipeline | stream | WriteToWarehouse(dataset)
        assert_that(
            refused, equal_to([RefusedRow("answers", f"large/{fits.answered_at.isoformat()}", ("tooLarge",))])
        )
        result = pipeline.run()
        result.wait_until_finish()
    assert [row["answer_id"] for row in held(server, dataset, "answers")] == ["fits"]
    assert len(held(server, dataset, "support_chunks")) == 1
    (counter,) = result.metrics().query(beam.metrics.MetricsFilter().with_namespace(REFUSED_ROWS))["counters"]
    assert (counter.key.metric.name, counter.committed) == ("answers", 1)
    assert "BigQuery refused a row of" in caplog.text
    assert SECRET not in caplog.text


def test_a_row_delivered_again_bears_the_same_insert_id(server: BigQuery) -> None:
    dataset = server.new_dataset()
    prepare_tables(dataset)
    ids = []
    insert = bigquery.Client.insert_rows_json

    def noting(client: bigquery.Client, *arguments: Any, row_ids: list[str], **named: Any) -> Any:
        ids.extend(row_ids)
        return insert(client, *arguments, row_ids=row_ids, **named)

    with patch.object(bigquery.Client, "insert_rows_json", noting):
        for run_id, again, answered_at in (("r", False, NOON), ("s", True, NOON), ("s", False, later(1))):
            row = answer(answer_id="a", run_id=run_id, from_ledger=again, answered_at=answered_at)
            write(dataset, [(row,)], insert=True)
    assert ids[0] == ids[1] != ids[2]
