"""The schemas keep to what BigQuery, the docs' tables and every Avro reader can take."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib import resources
from typing import Any

import pytest

from groundrows.schemas.tables import TABLES

PLAIN = {"string", "bytes", "boolean", "int", "long", "double"}
KEYS = ["run_id", "question_id", "turn_index"]
CONTRACT = {
    "answers": """answer_id candidate_index question answer_text role grounding_score support_coverage claim_count
        supported_claim_count chunk_count web_search_queries search_suggestions_html search_sdk_blob retrieval images
        model_id api_version streamed attempts latency_ms first_part_ms asked_at answered_at from_ledger uris_expire_at warnings
        metadata request_json response_json""",
    "support_chunks": """answer_id candidate_index answered_at chunk_index chunk_text source uri title domain
        document_id page_identifier source_metadata uris_expire_at""",
    "claim_supports": """answer_id candidate_index answered_at claim_index claim_text claim_start claim_end
        support_score chunk_index chunk_uri chunk_title chunk_source""",
    "grounding_checks": """answer_id candidate_index check_id claim_index claim_text claim_start claim_end
        grounding_check_required claim_score support_score citation_threshold citations cited_chunk_count answer_text
        api_version attempts latency_ms asked_at checked_at from_ledger warnings metadata request_json
        response_json""",
    "failures": """failure_id stage code message retryable attempts origin record failed_at metadata""",
}


def raw(table: str) -> dict[str, Any]:
    return json.loads(
        resources.files("groundrows.schemas").joinpath(f"{table}.avsc").read_text(encoding="utf-8")
    )


def records(schema: Any) -> Iterator[dict[str, Any]]:
    """Every record schema inside a schema, itself included."""
    if isinstance(schema, list):
        for branch in schema:
            yield from records(branch)
    elif isinstance(schema, dict):
        if schema["type"] == "record":
            yield schema
            for field in schema["fields"]:
                yield from records(field["type"])
        yield from records(schema.get("items"))
        yield from records(schema.get("values"))


def assert_loadable(type_: Any, where: str, *, in_array: bool = False) -> None:
    if isinstance(type_, list):
        assert not in_array, f"{where}: BigQuery has no arrays of nullable items"
        assert len(type_) == 2, f"{where}: only unions of null and one type"
        assert type_[0] == "null", f"{where}: null first, so that the default may be null"
        assert not isinstance(type_[1], dict) or type_[1]["type"] not in ("array", "map"), (
            f"{where}: no nullable arrays"
        )
        assert_loadable(type_[1], where)
    elif isinstance(type_, str):
        assert type_ in PLAIN, f"{where}: {type_}"
    elif type_["type"] == "array":
        assert not in_array, f"{where}: BigQuery has no arrays of arrays"
        assert_loadable(type_["items"], where, in_array=True)
    elif type_["type"] == "map":
        assert type_["values"] in PLAIN, where
    elif type_["type"] == "record":
        for field in type_["fields"]:
            assert_loadable(field["type"], f"{where}.{field['name']}")
    else:
        assert type_ == {"type": "long", "logicalType": "timestamp-micros"}, where


@pytest.mark.parametrize("table", TABLES)
def test_the_schema_is_named_after_its_table(table: str) -> None:
    assert TABLES[table].schema["name"] == f"groundrows.{table}"
    assert raw(table)["namespace"] == "groundrows"


@pytest.mark.parametrize("table", TABLES)
def test_every_row_carries_the_keys_and_the_fields_of_the_contract(table: str) -> None:
    names = [field["name"] for field in raw(table)["fields"]]
    assert names[:3] == KEYS
    promised = CONTRACT.get(table, "").split()
    assert [name for name in names if name in promised] == promised


def test_every_table_of_the_contract_is_there() -> None:
    assert CONTRACT.keys() <= TABLES.keys()


@pytest.mark.parametrize("table", TABLES)
def test_every_record_and_field_says_what_it_holds(table: str) -> None:
    for record in records(raw(table)):
        assert record["doc"].endswith(".")
        for field in record["fields"]:
            doc = field.get("doc", "")
            assert doc.endswith("."), f"{record['name']}.{field['name']}"
            assert len(doc) <= 1024, "BigQuery's limit for a column's description"


@pytest.mark.parametrize("table", TABLES)
def test_names_are_legal_in_avro_and_as_columns(table: str) -> None:
    seen = set()
    for record in records(raw(table)):
        assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", record["name"])
        assert record["name"] not in seen, "a name is defined once in a schema"
        seen.add(record["name"])
        names = [field["name"] for field in record["fields"]]
        assert len({name.lower() for name in names}) == len(names), "columns differ in more than case"
        for name in names:
            assert re.fullmatch(r"[a-z][a-z0-9_]{0,299}", name)


@pytest.mark.parametrize("table", TABLES)
def test_bigquery_can_load_every_type(table: str) -> None:
    assert_loadable(raw(table), table)


@pytest.mark.parametrize("table", TABLES)
def test_nullable_fields_default_to_null(table: str) -> None:
    for record in records(raw(table)):
        for field in record["fields"]:
            if isinstance(field["type"], list):
                assert field.get("default", "no default") is None, f"{record['name']}.{field['name']}"
