from __future__ import annotations

import dataclasses
import math
import pickle
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from groundrows.schemas.errors import RowError
from groundrows.schemas.rows import (
    AnswerRow,
    CitedChunk,
    ClaimSupportRow,
    FailureRow,
    GroundingCheckRow,
    Image,
    ImageFile,
    Retrieval,
    Row,
    SupportChunkRow,
    Video,
    Website,
    encode,
)
from groundrows.schemas.tables import TABLES
from tests.support.read_back import as_read, read_back
from tests.support.table_rows import row_of

NOON = datetime(2025, 3, 1, 12, tzinfo=UTC)

ANSWER = AnswerRow(
    run_id="run",
    question_id="q1",
    turn_index=0,
    answer_id="a1",
    candidate_index=0,
    question="Где река?",
    answer_text="Здесь 🙂",
    role="model",
    grounding_score=0.5,
    support_coverage=1.0,
    claim_count=1,
    supported_claim_count=1,
    chunk_count=1,
    web_search_queries=("river", "реки"),
    search_suggestions_html="<p>",
    search_sdk_blob=b"\x00\xff",
    retrieval=(Retrieval("GOOGLE_SEARCH", "V1_INDEPENDENT", 0.25),),
    images=(Image(ImageFile("u", 3, 4), None, Website("w", None, "s")),),
    videos=(Video("v"),),
    model_id=None,
    api_version="v1",
    streamed=False,
    attempts=1,
    latency_ms=12.5,
    first_part_ms=3.5,
    asked_at=NOON,
    answered_at=NOON,
    from_ledger=False,
    uris_expire_at=None,
    warnings=(),
    metadata=None,
    request_json="{}",
    response_json=None,
)
CHUNK = SupportChunkRow(
    run_id="run",
    question_id="q1",
    turn_index=0,
    answer_id="a1",
    candidate_index=0,
    answered_at=NOON,
    chunk_index=0,
    chunk_text="",
    source=None,
    uri=None,
    title=None,
    domain=None,
    document_id=None,
    page_identifier=None,
    source_metadata={"author": "é"},
    index_in_stream=None,
    uris_expire_at=NOON,
)
CLAIM = ClaimSupportRow("run", "q1", 0, "a1", 0, NOON, 0, "Здесь", 0, 5, None, None, None, None, None)
CHECK = GroundingCheckRow(
    run_id="run",
    question_id="q1",
    turn_index=0,
    answer_id="a1",
    candidate_index=0,
    check_id="c1",
    claim_index=0,
    claim_text="Здесь",
    claim_start=0,
    claim_end=5,
    grounding_check_required=True,
    claim_score=0.75,
    support_score=0.5,
    citation_threshold=0.6,
    citations=(CitedChunk(1, "Река здесь.", "1", "u", "t", "d", {"author": "é"}, "f"),),
    cited_chunk_count=1,
    answer_text="Здесь 🙂",
    api_version="v1",
    attempts=1,
    latency_ms=12.5,
    asked_at=NOON,
    checked_at=NOON,
    from_ledger=False,
    warnings=(),
    metadata=None,
    request_json="{}",
    response_json=None,
)
FAILURE = FailureRow(
    "run",
    "q1",
    0,
    "f1",
    "parse",
    "INVALID_JSON",
    "It is no JSON.",
    False,
    0,
    "a.jsonl:1",
    b"\xff{",
    NOON,
    None,
    1,
    ("2026-11-29T20:00:00Z parse INVALID_JSON after 0 attempts",),
)
BY_HAND: dict[str, Row] = {row.TABLE: row for row in (ANSWER, CHUNK, CLAIM, CHECK, FAILURE)}
ROWS: list[Row] = [BY_HAND.get(name) or row_of(table.row) for name, table in TABLES.items()]


@pytest.mark.parametrize("row", ROWS, ids=TABLES)
def test_a_row_has_the_fields_of_its_schema_in_their_order(row: Row) -> None:
    names = [field.name for field in dataclasses.fields(row)]
    assert names == [field["name"] for field in TABLES[row.TABLE].schema["fields"]]


def test_nested_records_have_the_fields_of_their_schemas_in_their_order() -> None:
    image: Any = Image(ImageFile("u", 1, 2), ImageFile("t", 3, 4), Website("w", "t", "s"))
    answer = dataclasses.replace(
        ANSWER, retrieval=(Retrieval("S", "V", 1.0),), images=(image,), videos=(Video("v"),)
    )
    nested: list[tuple[Row, str]] = [
        (answer, "retrieval"),
        (answer, "images"),
        (answer, "videos"),
        (CHECK, "citations"),
    ]
    checked = 0
    for row, name in nested:
        schemas = {field["name"]: field["type"] for field in TABLES[row.TABLE].schema["fields"]}
        pending = [(getattr(row, name)[0], schemas[name]["items"])]
        while pending:
            record, schema = pending.pop()
            assert [field.name for field in dataclasses.fields(record)] == [
                field["name"] for field in schema["fields"]
            ]
            checked += 1
            pending += [
                (getattr(record, field["name"]), field["type"][1])
                for field in schema["fields"]
                if isinstance(field["type"], list) and isinstance(field["type"][1], dict)
            ]
    assert checked == 7


def test_there_is_a_row_class_for_every_table() -> None:
    assert BY_HAND.keys() <= TABLES.keys()
    assert tuple(row.TABLE for row in ROWS) == tuple(TABLES)
    assert tuple(type(row) for row in ROWS) == tuple(table.row for table in TABLES.values())


@pytest.mark.parametrize("row", ROWS, ids=TABLES)
def test_a_row_reads_back_as_it_was_written(row: Row) -> None:
    assert read_back(row) == as_read(row)


def test_arrays_become_lists_and_nested_records_dicts() -> None:
    values = read_back(ANSWER)
    assert values["web_search_queries"] == ["river", "реки"]
    assert values["images"] == [
        {
            "image": {"uri": "u", "width": 3, "height": 4},
            "thumbnail": None,
            "source": {"uri": "w", "title": None, "site_display_name": "s"},
        }
    ]


@pytest.mark.parametrize(
    ("row", "field", "value", "problem"),
    [
        (ANSWER, "question", None, "must be a string, not null"),
        (ANSWER, "question", b"bytes", "must be a string, not bytes"),
        (ANSWER, "answer_text", "ab\ud83d", "lone surrogate at character 2"),
        (ANSWER, "role", "\udcff", "lone surrogate at character 0"),
        (ANSWER, "web_search_queries", "river", "must be an array, not str"),
        (ANSWER, "web_search_queries", None, "must be an array, not null"),
        (ANSWER, "search_sdk_blob", "text", "must be bytes, not str"),
        (ANSWER, "claim_count", True, "must be an integer, not bool"),
        (ANSWER, "claim_count", 1.0, "must be an integer, not float"),
        (ANSWER, "claim_count", 2**31, "must lie from -2147483648 to 2147483647"),
        (ANSWER, "claim_count", -(2**31) - 1, "must lie from -2147483648 to 2147483647"),
        (ANSWER, "streamed", 0, "must be true or false, not int"),
        (ANSWER, "latency_ms", True, "must be a number, not bool"),
        (ANSWER, "latency_ms", "12", "must be a number, not str"),
        (ANSWER, "latency_ms", 10**400, "too large for a double"),
        (ANSWER, "asked_at", datetime(2025, 3, 1), "has no time zone"),
        (ANSWER, "asked_at", 1_700_000_000_000_000, "must be a datetime, not int"),
        (ANSWER, "uris_expire_at", datetime(2025, 3, 1), "has no time zone"),
        (ANSWER, "images", ("u",), "must be a record of Image, not str"),
        (CHUNK, "source_metadata", [("a", "b")], "must be a map, not list"),
        (CLAIM, "claim_start", "0", "must be an integer, not str"),
        (CLAIM, "claim_end", True, "must be an integer, not bool"),
        (CLAIM, "turn_index", True, "must be an integer, not bool"),
        (CLAIM, "turn_index", -(2**31) - 1, "must lie from"),
        (CLAIM, "chunk_uri", b"u", "must be a string, not bytes"),
        (CHECK, "grounding_check_required", 1, "must be true or false, not int"),
        (CHECK, "citations", None, "must be an array, not null"),
        (CHECK, "citation_threshold", "0.6", "must be a number, not str"),
        (CLAIM, "claim_text", None, "must be a string, not null"),
        (FAILURE, "record", bytearray(b"{"), "must be bytes, not bytearray"),
        (FAILURE, "failed_at", None, "must be a datetime, not null"),
    ],
)
def test_a_value_that_does_not_fit_is_named_with_its_table_and_field(
    row: Row, field: str, value: Any, problem: str
) -> None:
    with pytest.raises(RowError) as caught:
        encode(dataclasses.replace(row, **{field: value}))
    assert caught.value.table == row.TABLE
    assert caught.value.field.split("[")[0] == field
    assert str(caught.value).startswith(f"{row.TABLE}.{field}")
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("row", "changes", "place"),
    [
        (ANSWER, {"web_search_queries": ("a", "\ud83d")}, "web_search_queries[1]"),
        (ANSWER, {"retrieval": (Retrieval("S", None, "high"),)}, "retrieval[0].prediction"),  # type: ignore[arg-type]
        (ANSWER, {"images": (Image(None, ImageFile("u", True, 1), None),)}, "images[0].thumbnail.width"),
        (CHUNK, {"source_metadata": {"a": None}}, "source_metadata{}"),
        (
            CHECK,
            {"citations": (CitedChunk("0", "", None, None, None, None, {}, None),)},  # type: ignore[arg-type]
            "citations[0].chunk_index",
        ),
        (CHUNK, {"source_metadata": {"\ud83d": "a"}}, "source_metadata{}"),
        (CHUNK, {"source_metadata": {1: "a"}}, "source_metadata{}"),
    ],
)
def test_a_value_deep_inside_is_named_with_its_place(row: Row, changes: dict[str, Any], place: str) -> None:
    with pytest.raises(RowError) as caught:
        encode(dataclasses.replace(row, **changes))
    assert caught.value.field == place


def test_the_message_never_holds_the_content() -> None:
    with pytest.raises(RowError) as caught:
        encode(dataclasses.replace(ANSWER, question="my secret\ud83d"))
    assert "secret" not in str(caught.value)


@dataclasses.dataclass(frozen=True, slots=True)
class WiderVideo(Video):
    length: int = 0


@dataclasses.dataclass(slots=True)
class WiderClaim(ClaimSupportRow):
    extra: int = 0


def test_a_field_too_many_is_refused() -> None:
    with pytest.raises(RowError, match="claim_supports"):
        encode(WiderClaim(*dataclasses.astuple(CLAIM)))
    with pytest.raises(RowError, match=r"videos\[0\] must be a record of Video"):
        encode(dataclasses.replace(ANSWER, videos=(WiderVideo("v"),)))


def test_a_field_missing_is_refused() -> None:
    with pytest.raises(RowError, match=r"claim_supports.run_id is missing"):
        encode(object.__new__(ClaimSupportRow))
    with pytest.raises(RowError, match=r"videos\[0\].youtube_external_id is missing"):
        encode(dataclasses.replace(ANSWER, videos=(object.__new__(Video),)))


def test_what_is_no_row_is_refused() -> None:
    with pytest.raises(RowError, match="dict"):
        encode({"run_id": "run"})  # type: ignore[arg-type]


def test_a_double_may_be_nan_infinite_or_whole() -> None:
    for value in (math.nan, math.inf, -math.inf, 3):
        read = read_back(dataclasses.replace(ANSWER, latency_ms=value))["latency_ms"]
        assert read == value or (math.isnan(value) and math.isnan(read))


def test_a_moment_in_another_zone_is_the_same_moment() -> None:
    there = NOON.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert read_back(dataclasses.replace(ANSWER, asked_at=there))["asked_at"] == NOON


@pytest.mark.parametrize("size", [0, 1, 63, 64, 8191, 8192, 2_000_000])
@pytest.mark.parametrize("character", ["x", "é"])
def test_text_of_every_length_reads_back(size: int, character: str) -> None:
    row = dataclasses.replace(CLAIM, claim_text=character * size, chunk_uri=character * size)
    assert read_back(row) == as_read(row)


@pytest.mark.parametrize("number", [-(2**31), -65, -64, -1, 0, 63, 64, 8191, 8192, 2**31 - 1])
def test_whole_numbers_of_every_length_read_back(number: int) -> None:
    row = dataclasses.replace(CLAIM, turn_index=number, claim_start=number)
    assert read_back(row) == as_read(row)


@pytest.mark.parametrize("row", ROWS, ids=TABLES)
def test_a_row_travels_between_processes(row: Row) -> None:
    assert pickle.loads(pickle.dumps(row)) == row


@pytest.mark.parametrize("row", ROWS, ids=TABLES)
def test_a_row_takes_no_field_that_it_has_not(row: Row) -> None:
    with pytest.raises(AttributeError):
        row.anything = 1  # type: ignore[union-attr]


def test_a_row_error_survives_the_way_between_processes() -> None:
    error = pickle.loads(pickle.dumps(RowError("answers", "role", "must be a string")))
    assert (str(error), error.table, error.field) == ("answers.role must be a string", "answers", "role")
