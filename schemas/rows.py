"""The rows of the four tables, and the check every row passes before it may reach a file.

A sink stops the whole job at a value that does not fit (or, worse, drops or reshapes it without a word), so
each row is checked against its `.avsc` first. fastavro's own `validate` is not used: it lets lone surrogates
and naive datetimes through, and takes fourteen times as long.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from schemas.tables import SCHEMAS

INT_RANGE = range(-(2**31), 2**31)
LONG_RANGE = range(-(2**63), 2**63)


class RowError(ValueError):
    """A row does not fit its table. The message names table and field, and never holds the row's content.

    Attributes:
        table: The table's name.
        field: The field's name, with its place inside it where it is nested: `images[0].image.width`.
        problem: What does not fit, as the rest of a sentence that starts with the field.
    """

    def __init__(self, table: str, field: str, problem: str) -> None:
        super().__init__(table, field, problem)
        self.table = table
        self.field = field
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.table}.{self.field} {self.problem}"


@dataclass(frozen=True, slots=True)
class Retrieval:
    """What one retrieval was grounded on; documented in `answers.avsc`."""

    source: str
    version: str | None
    prediction: float | None


@dataclass(frozen=True, slots=True)
class ImageFile:
    """An image or its thumbnail; width and height in pixels."""

    uri: str | None
    width: int | None
    height: int | None


@dataclass(frozen=True, slots=True)
class Website:
    """The page an image is from."""

    uri: str | None
    title: str | None
    site_display_name: str | None


@dataclass(frozen=True, slots=True)
class Image:
    """An image returned with an answer."""

    image: ImageFile | None
    thumbnail: ImageFile | None
    source: Website | None


@dataclass(frozen=True, slots=True)
class Video:
    """A video returned with an answer."""

    youtube_external_id: str | None


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """A row per candidate; the fields are documented in `answers.avsc`."""

    TABLE: ClassVar[str] = "answers"

    run_id: str
    question_id: str
    turn_index: int
    answer_id: str
    candidate_index: int
    question: str
    answer_text: str
    role: str | None
    grounding_score: float | None
    support_coverage: float | None
    claim_count: int
    supported_claim_count: int
    chunk_count: int
    web_search_queries: tuple[str, ...]
    search_suggestions_html: str | None
    search_sdk_blob: bytes | None
    retrieval: tuple[Retrieval, ...]
    images: tuple[Image, ...]
    videos: tuple[Video, ...]
    model_id: str | None
    api_version: str
    streamed: bool
    attempts: int
    latency_ms: float
    asked_at: datetime
    answered_at: datetime
    from_ledger: bool
    uris_expire_at: datetime | None
    warnings: tuple[str, ...]
    metadata: str | None
    request_json: str
    response_json: str | None


@dataclass(frozen=True, slots=True)
class SupportChunkRow:
    """A row per support chunk; the fields are documented in `support_chunks.avsc`."""

    TABLE: ClassVar[str] = "support_chunks"

    run_id: str
    question_id: str
    turn_index: int
    answer_id: str
    candidate_index: int
    chunk_index: int
    chunk_text: str
    source: str | None
    uri: str | None
    title: str | None
    domain: str | None
    document_id: str | None
    page_identifier: str | None
    source_metadata: dict[str, str]
    index_in_stream: int | None
    uris_expire_at: datetime | None


@dataclass(frozen=True, slots=True)
class ClaimSupportRow:
    """A row per claim and cited chunk; the fields are documented in `claim_supports.avsc`."""

    TABLE: ClassVar[str] = "claim_supports"

    run_id: str
    question_id: str
    turn_index: int
    answer_id: str
    candidate_index: int
    claim_index: int
    claim_text: str
    claim_start: int | None
    claim_end: int | None
    support_score: float | None
    chunk_index: int | None
    chunk_uri: str | None
    chunk_title: str | None
    chunk_source: str | None


@dataclass(frozen=True, slots=True)
class FailureRow:
    """A row per question or record without an answer; the fields are documented in `failures.avsc`."""

    TABLE: ClassVar[str] = "failures"

    run_id: str
    question_id: str
    turn_index: int
    failure_id: str
    stage: str
    code: str
    message: str
    retryable: bool
    attempts: int
    origin: str
    record: bytes
    failed_at: datetime
    metadata: str | None
    generation: int
    history: tuple[str, ...]


Row = AnswerRow | SupportChunkRow | ClaimSupportRow | FailureRow


def to_avro(row: Row) -> dict[str, Any]:
    """Return `row` as the dict a writer takes, having checked every value against the table's schema.

    Arrays become lists, nested records dicts; datetimes stay (aware) datetimes. A double may be NaN. A plain
    value in a nullable field becomes a pair of its type's name and itself, which is how fastavro is told the
    branch of a union.

    Raises:
        RowError: A value does not fit: None where the schema has no null, another type (a bool is no int, a
            str no array), an int out of range, a lone surrogate, a datetime without a time zone, or a record
            with a field missing or too many.
    """
    known = _ROWS.get(type(row))
    if known is None:
        raise RowError(
            getattr(row, "TABLE", "row"), "*", f"is a {type(row).__name__}, which is not a row of any table"
        )
    table, fields = known
    values: dict[str, Any] = {}
    name = "*"
    try:
        for name, check in fields:
            values[name] = check(getattr(row, name))
    except _MisfitError as misfit:
        raise RowError(table, f"{name}{misfit.path}", misfit.problem) from None
    except AttributeError:
        raise RowError(table, name, "is missing") from None
    return values


class _MisfitError(Exception):
    """A value does not fit, at `path` below the field."""

    def __init__(self, problem: str, path: str = "") -> None:
        self.problem = problem
        self.path = path


_Check = Callable[[Any], Any]


def _wanted(what: str, value: object) -> _MisfitError:
    return _MisfitError(f"must be {what}, not {'null' if value is None else type(value).__name__}")


def _string(value: Any) -> str:
    if type(value) is not str:
        raise _wanted("a string", value)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise _MisfitError(f"has a lone surrogate at character {error.start}") from None
    return value


def _bytes(value: Any) -> bytes:
    if type(value) is not bytes:
        raise _wanted("bytes", value)
    return value


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise _wanted("true or false", value)
    return value


def _integer(bounds: range) -> _Check:
    def check(value: Any) -> int:
        if type(value) is not int:
            raise _wanted("an integer", value)
        if value not in bounds:
            raise _MisfitError(f"must lie from {bounds.start} to {bounds.stop - 1}")
        return value

    return check


def _double(value: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is not int:
        raise _wanted("a number", value)
    try:
        return float(value)
    except OverflowError:
        raise _MisfitError("is too large for a double") from None


def _timestamp(value: Any) -> datetime:
    if not isinstance(value, datetime):
        raise _wanted("a datetime", value)
    if value.utcoffset() is None:
        raise _MisfitError("has no time zone: make it an aware datetime")
    return value


def _nullable(kind: Any) -> _Check:
    check = _compiled(kind)
    if not isinstance(kind, str) or kind not in _PLAIN:
        return lambda value: None if value is None else check(value)
    # A writer told which branch a value is of does not try them in turn: a third off a row of claims.
    return lambda value: None if value is None else (kind, check(value))


def _array(check_item: _Check) -> _Check:
    def check(value: Any) -> list[Any]:
        if type(value) is not tuple and type(value) is not list:
            raise _wanted("an array", value)
        items: list[Any] = []
        try:
            for item in value:
                items.append(check_item(item))  # noqa: PERF401 - len(items) says where it stood
        except _MisfitError as misfit:
            raise _MisfitError(misfit.problem, f"[{len(items)}]{misfit.path}") from None
        return items

    return check


def _map(check_value: _Check) -> _Check:
    def check(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise _wanted("a map", value)
        try:
            return {_string(key): check_value(item) for key, item in value.items()}
        except _MisfitError as misfit:
            raise _MisfitError(misfit.problem, f"{{}}{misfit.path}") from None

    return check


def _record(kind: type, fields: list[tuple[str, _Check]]) -> _Check:
    def check(value: Any) -> dict[str, Any]:
        if type(value) is not kind:
            raise _wanted(f"a record of {kind.__name__}", value)
        values: dict[str, Any] = {}
        name = ""
        try:
            for name, check_field in fields:
                values[name] = check_field(getattr(value, name))
        except _MisfitError as misfit:
            raise _MisfitError(misfit.problem, f".{name}{misfit.path}") from None
        except AttributeError:
            raise _MisfitError("is missing", f".{name}") from None
        return values

    return check


_PLAIN: dict[str, _Check] = {
    "string": _string,
    "bytes": _bytes,
    "boolean": _boolean,
    "int": _integer(INT_RANGE),
    "long": _integer(LONG_RANGE),
    "double": _double,
}
_RECORDS: dict[str, type] = {
    "groundrows.Retrieval": Retrieval,
    "groundrows.Image": Image,
    "groundrows.ImageFile": ImageFile,
    "groundrows.Thumbnail": ImageFile,
    "groundrows.Website": Website,
    "groundrows.Video": Video,
}


def _compiled(schema: Any) -> _Check:
    """Return the check for one Avro type: built once, as asking the schema about each value is slow."""
    if isinstance(schema, list):
        _, kind = schema  # every union is null and one type
        return _nullable(kind)
    if isinstance(schema, str):
        return _PLAIN[schema]
    match schema["type"]:
        case "array":
            return _array(_compiled(schema["items"]))
        case "map":
            return _map(_compiled(schema["values"]))
        case "record":
            return _record(_RECORDS[schema["name"]], _compiled_fields(schema))
        case "long" if schema.get("logicalType") == "timestamp-micros":
            return _timestamp
        case plain:
            return _PLAIN[plain]


def _compiled_fields(schema: dict[str, Any]) -> list[tuple[str, _Check]]:
    return [(field["name"], _compiled(field["type"])) for field in schema["fields"]]


_ROWS: dict[type, tuple[str, list[tuple[str, _Check]]]] = {
    row: (row.TABLE, _compiled_fields(SCHEMAS[row.TABLE]))
    for row in (AnswerRow, SupportChunkRow, ClaimSupportRow, FailureRow)
}
