"""BigQuery's tables follow from the Avro schemas."""

from __future__ import annotations

import copy
import json
from typing import Any

import fastavro
import pytest
from apache_beam.io.gcp.bigquery_avro_tools import get_record_schema_from_dict_table_schema

from groundrows.schemas.errors import ShapeError
from groundrows.schemas.rows import CitedChunk, Image, ImageFile, Retrieval
from groundrows.schemas.tables import TABLES
from groundrows.schemas.warehouse import (
    Column,
    check_layout,
    columns,
    json_row,
    merged,
    row_dict,
    row_id,
    table_layout,
    table_schema,
)
from tests.support.table_rows import NOON, answer, check, chunk, claim, failure, later

TIME = {"type": "long", "logicalType": "timestamp-micros"}
PART = {"type": "record", "name": "Part", "fields": [{"name": "x", "type": "string", "doc": "An x."}]}


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        ("string", {"type": "STRING", "mode": "REQUIRED"}),
        (["null", "string"], {"type": "STRING", "mode": "NULLABLE"}),
        (["string", "null"], {"type": "STRING", "mode": "NULLABLE"}),
        ("bytes", {"type": "BYTES", "mode": "REQUIRED"}),
        ("boolean", {"type": "BOOLEAN", "mode": "REQUIRED"}),
        ("int", {"type": "INTEGER", "mode": "REQUIRED"}),
        ("long", {"type": "INTEGER", "mode": "REQUIRED"}),
        ("double", {"type": "FLOAT", "mode": "REQUIRED"}),
        (TIME, {"type": "TIMESTAMP", "mode": "REQUIRED"}),
        (["null", TIME], {"type": "TIMESTAMP", "mode": "NULLABLE"}),
        ({"type": "array", "items": "string"}, {"type": "STRING", "mode": "REPEATED"}),
        ({"type": "array", "items": TIME}, {"type": "TIMESTAMP", "mode": "REPEATED"}),
        (
            {"type": "array", "items": PART},
            {
                "type": "RECORD",
                "mode": "REPEATED",
                "fields": [{"name": "x", "type": "STRING", "mode": "REQUIRED", "description": "An x."}],
            },
        ),
        (
            {"type": "map", "values": "string"},
            {
                "type": "RECORD",
                "mode": "REPEATED",
                "fields": [
                    {"name": "key", "type": "STRING", "mode": "REQUIRED"},
                    {"name": "value", "type": "STRING", "mode": "REQUIRED"},
                ],
            },
        ),
    ],
)
def test_each_type(kind: Any, column: dict[str, Any]) -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "c", "type": kind, "doc": "What it is."}]}
    assert columns(fastavro.parse_schema(schema)) == [{"name": "c", "description": "What it is.", **column}]


@pytest.mark.parametrize(
    "kind",
    [
        ["null", "string", "int"],
        ["string", "int"],
        ["null", {"type": "array", "items": "string"}],
        {"type": "long", "logicalType": "time-micros"},
        {"type": "array", "items": {"type": "array", "items": "string"}},
        {"type": "fixed", "size": 4, "name": "f"},
    ],
)
def test_a_type_without_a_column(kind: Any) -> None:
    with pytest.raises(ValueError, match="c is"):
        columns({"fields": [{"name": "c", "type": kind}]})


def flat(fields: list[Column], within: str = "") -> list[Column]:
    return [
        one
        for field in fields
        for one in (
            {**field, "name": within + field["name"]},
            *flat(field.get("fields", []), f"{within}{field['name']}."),
        )
    ]


@pytest.mark.parametrize("table", TABLES)
def test_tables_are_within_bigquery_s_limits(table: str) -> None:
    found = flat(table_schema(table)["fields"])
    assert len({column["name"].lower() for column in found}) == len(found)
    for column in found:
        assert len(column["name"].split(".")[-1]) <= 300
        assert len(column.get("description", "")) <= 1024
    json.dumps(found)


TIMES = {
    "answers": "answered_at",
    "support_chunks": "answered_at",
    "claim_supports": "answered_at",
    "grounding_checks": "checked_at",
    "failures": "failed_at",
}


@pytest.mark.parametrize("table", TABLES)
def test_layout(table: str) -> None:
    layout, by_name = (
        table_layout(table),
        {column["name"]: column for column in table_schema(table)["fields"]},
    )
    expected = TIMES.get(table, TABLES[table].time_column)
    assert layout["timePartitioning"] == {"type": "DAY", "field": expected}
    assert (by_name[expected]["type"], by_name[expected]["mode"]) == ("TIMESTAMP", "REQUIRED")
    assert by_name[layout["clustering"]["fields"][0]]["type"] == "STRING"


FULL = [
    answer(
        search_sdk_blob=b"\x00\xff",
        web_search_queries=("a", "b"),
        retrieval=(Retrieval("GOOGLE_SEARCH", None, 0.5),),
        images=(Image(ImageFile("u", 1, None), None, None), Image(None, None, None)),
        uris_expire_at=NOON,
    ),
    answer(),
    chunk(source_metadata={"k": "v", "": "w"}),
    chunk(),
    claim(),
    check(citations=(CitedChunk(0, "t", "0", None, None, None, {"k": "v"}, None),)),
    failure(record=b"\xff", history=("h",)),
]


@pytest.mark.parametrize("row", FULL, ids=lambda row: row.TABLE)
def test_rows_have_the_shape_of_their_columns(row: Any) -> None:
    # Beam writes the files that are loaded with the schema that it makes of the columns; strictly, so that
    # a field too many or too few is found.
    schema = fastavro.parse_schema(get_record_schema_from_dict_table_schema("r", table_schema(row.TABLE)))
    found = row_dict(row)
    assert fastavro.validate(found, schema, strict=True)
    json.dumps(json_row(row))


def test_values() -> None:
    found = row_dict(FULL[0])
    assert found["search_sdk_blob"] == b"\x00\xff"
    assert found["images"] == [
        {"image": {"uri": "u", "width": 1, "height": None}, "thumbnail": None, "source": None},
        {"image": None, "thumbnail": None, "source": None},
    ]
    assert found["answered_at"] is NOON
    said = json_row(FULL[0])
    assert said["search_sdk_blob"] == "AP8="
    assert said["answered_at"] == "2025-03-01T12:00:00+00:00"
    assert said["retrieval"] == [{"source": "GOOGLE_SEARCH", "version": None, "prediction": 0.5}]
    assert row_dict(FULL[2])["source_metadata"] == [{"key": "k", "value": "v"}, {"key": "", "value": "w"}]
    (cited,) = row_dict(FULL[5])["citations"]
    assert cited["source_metadata"] == [{"key": "k", "value": "v"}]


def test_every_table_has_a_key_of_its_columns() -> None:
    for table in TABLES.values():
        assert table.key
        assert set(table.key) <= {field["name"] for field in table.schema["fields"]}


def test_row_ids() -> None:
    def of(row: Any) -> str:
        return row_id(row.TABLE, json_row(row))

    assert of(answer(answer_id="a", run_id="r")) == of(answer(answer_id="a", run_id="s", from_ledger=True))
    assert of(answer(answer_id="a")) != of(answer(answer_id="b"))
    first = {"answer_id": "a", "answered_at": NOON, "claim_index": 1}
    assert of(claim(**first, chunk_index=0)) != of(claim(**first, chunk_index=1)) != of(claim(**first))
    for make in (chunk, claim):
        assert of(make(answer_id="a", run_id="r")) == of(make(answer_id="a", run_id="s"))
        assert of(make(answer_id="a", answered_at=NOON)) != of(make(answer_id="a", answered_at=later(1)))


# -- tables that exist -------------------------------------------------------------------------------------


def table() -> list[Column]:
    return copy.deepcopy(table_schema("answers")["fields"])


def named(fields: list[Column], name: str) -> Column:
    return next(field for field in fields if field["name"] == name)


def test_a_table_as_it_should_be_stays() -> None:
    assert merged(table(), table()) == table()


def test_columns_that_are_new_go_to_the_end_and_others_stay() -> None:
    mine = {"name": "mine", "type": "STRING"}
    there = [mine, *(field for field in table() if field["name"] not in ("role", "warnings"))]
    image = named(named(there, "images")["fields"], "image")
    (width,) = [field for field in image["fields"] if field["name"] == "width"]
    image["fields"].remove(width)
    found = merged(there, table())
    assert found[0] == mine
    assert [field["name"] for field in found[-2:]] == ["role", "warnings"]
    assert named(named(found, "images")["fields"], "image")["fields"][-1] == width
    assert sorted(field["name"] for field in found) == sorted(["mine", *(field["name"] for field in table())])


def test_what_was_relaxed_or_is_spelled_otherwise_stays() -> None:
    there = table()
    named(there, "question")["mode"] = "NULLABLE"
    named(there, "attempts")["type"] = "INT64"
    named(there, "grounding_score")["type"] = "FLOAT64"
    named(there, "streamed")["type"] = "BOOL"
    named(there, "images")["type"] = "STRUCT"
    named(there, "run_id")["name"] = "Run_Id"
    assert merged(there, table()) == there


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda there: named(there, "attempts").update(type="STRING"), "attempts is STRING"),
        (lambda there: named(there, "warnings").update(mode="NULLABLE"), "warnings is NULLABLE"),
        (lambda there: named(there, "role").update(mode="REQUIRED"), "role is REQUIRED"),
        (
            lambda there: named(there, "role").pop("mode") and named(there, "role").update(type="BYTES"),
            "role is BYTES",
        ),
        (lambda there: there.remove(named(there, "question")), "question is missing"),
        (
            lambda there: named(named(there, "retrieval")["fields"], "prediction").update(type="STRING"),
            "retrieval.prediction is STRING",
        ),
    ],
)
def test_a_table_that_can_t_take_our_rows(change: Any, why: str) -> None:
    there = table()
    change(there)
    with pytest.raises(ShapeError, match=f"its column {why}"):
        merged(there, table())


def test_layouts_that_exist() -> None:
    ours = table_layout("answers")
    expiring = {**ours["timePartitioning"], "expirationMs": "1"}
    check_layout({**ours, "timePartitioning": expiring}, ours)
    for wrong in (
        {},
        {"clustering": ours["clustering"]},
        {"timePartitioning": ours["timePartitioning"]},
        {**ours, "timePartitioning": {"type": "HOUR", "field": "answered_at"}},
        {**ours, "clustering": {"fields": ["run_id"]}},
    ):
        with pytest.raises(ShapeError):
            check_layout(wrong, ours)
