"""Parquet files of rows: the same rows as in Avro, in types that other readers take as they are meant."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from io import BytesIO
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groundrows.pipeline.options.flag import flags_of
from groundrows.pipeline.options.rows import RowOptions
from groundrows.pipeline.storage.row_files import RowFile, columns_of, read_rows
from groundrows.pipeline.storage.row_formats import parquet
from groundrows.pipeline.storage.row_formats.known import FORMATS
from groundrows.pipeline.storage.row_formats.names import NAMES
from groundrows.pipeline.storage.row_formats.parquet import Parquet, arrow_schema
from groundrows.schemas.rows import (
    Citation,
    CitedChunk,
    Image,
    ImageFile,
    Retrieval,
    Row,
    SafetyRating,
    Video,
)
from groundrows.schemas.tables import TABLES
from tests.support.read_back import read_back
from tests.support.table_rows import answer, check, chunk, claim, failure

ELSEWHERE = timezone(timedelta(hours=5, minutes=30))
FULL: list[Row] = [
    answer(
        answer_text="Zinn schmilzt bei 232 °C. 🙂",
        grounding_score=0.5,
        search_sdk_blob=b"\x00\xff",
        retrieval=(Retrieval("GOOGLE_SEARCH", None, 0.25), Retrieval("7", "v1", None)),
        images=(Image(ImageFile("https://a.test/i", 1, None), None, None), Image(None, None, None)),
        videos=(Video("x"), Video(None)),
        web_search_queries=("a", ""),
        asked_at=datetime(2026, 2, 28, 23, 59, 59, 999_999, ELSEWHERE),
        answered_at=datetime(1970, 1, 1, tzinfo=UTC),
        uris_expire_at=datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC),
        total_tokens=1 << 40,
        safety_ratings=(SafetyRating("c", None, 0.5, None, None, True),),
        citations=(Citation(1, None, "u", None, None),),
        reference_answers=("232",),
        reference_exact=False,
        reference_f1=1.0,
    ),
    answer(),
    chunk(source_metadata={"author": "A. Smith", "": ""}, index_in_stream=3),
    chunk(),
    claim(claim_start=1, support_score=0.0),
    check(citations=(CitedChunk(0, "t", None, "u", None, None, {"k": "v"}, None),)),
    failure(record=b"\xff{", history=("once", "twice"), retryable=True),
]


def written(path: Path, table: str, *rows: Row) -> str:
    file = RowFile(str(path), table)
    for row in rows:
        file.write(row)
    file.close()
    return str(path)


@pytest.mark.parametrize("table", TABLES)
def test_rows_are_those_that_avro_gives(table: str, tmp_path: Path) -> None:
    rows = [row for row in FULL if table == row.TABLE]
    assert rows
    path = written(tmp_path / "rows.parquet", table, *rows)
    assert list(read_rows(path)) == [read_back(row) for row in rows]


def test_types_are_what_avro_says_they_mean() -> None:
    types = {field.name: field for field in arrow_schema(TABLES["answers"].schema)}
    assert types["answered_at"].type == pa.timestamp("us", tz="UTC")
    assert (types["turn_index"].type, types["total_tokens"].type) == (pa.int32(), pa.int64())
    assert (types["question_id"].nullable, types["role"].nullable) == (False, True)
    assert types["warnings"].type == pa.list_(pa.field("element", pa.string(), nullable=False))
    assert types["retrieval"].type.value_type.field("prediction") == pa.field("prediction", pa.float64())
    chunks = arrow_schema(TABLES["support_chunks"].schema)
    assert chunks.field("source_metadata").type.key_type == pa.string()


def test_another_reader_takes_times_maps_and_lists_as_they_are_meant(tmp_path: Path) -> None:
    moment = datetime(2026, 2, 28, 23, 30, tzinfo=ELSEWHERE)
    path = written(tmp_path / "a.parquet", "answers", answer(asked_at=moment, warnings=("w", "x")))
    with duckdb.connect() as db:
        kinds = dict(db.execute(f"SELECT column_name, column_type FROM (DESCRIBE FROM '{path}')").fetchall())
        assert kinds["asked_at"] == "TIMESTAMP WITH TIME ZONE"
        assert kinds["warnings"] == "VARCHAR[]"
        assert kinds["citations"].startswith("STRUCT(text_start INTEGER, text_end INTEGER")
        found = db.execute(f"SELECT epoch_us(asked_at), warnings FROM '{path}'").fetchall()
        assert found == [(int(moment.timestamp()) * 1_000_000, ["w", "x"])]
        path = written(tmp_path / "c.parquet", "support_chunks", chunk(source_metadata={"k": "v"}))
        assert db.execute(f"SELECT source_metadata['k'] FROM '{path}'").fetchall() == [("v",)]


def test_files_without_a_row_have_the_columns(tmp_path: Path) -> None:
    path = written(tmp_path / "rows.parquet", "answers")
    assert pq.read_schema(path).names == [field["name"] for field in TABLES["answers"].schema["fields"]]
    assert list(read_rows(path)) == []


def test_rows_are_let_go_group_by_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "BATCH_BYTES", 10_000)
    monkeypatch.setattr(parquet, "GROUP_BYTES", 40_000)
    rows = [answer(answer_id=str(number), answer_text="x" * 4_000) for number in range(100)]
    path = written(tmp_path / "rows.parquet", "answers", *rows)
    file = pq.ParquetFile(path)
    sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    assert sum(sizes) == 100
    assert max(sizes) <= 15
    assert [row["answer_id"] for row in read_rows(path, columns_of("answers", "answer_id"))] == [
        str(number) for number in range(100)
    ]


def test_a_file_that_breaks_off_is_not_whole(tmp_path: Path) -> None:
    path = Path(written(tmp_path / "rows.parquet", "answers", *[answer(answer_text="So. " * 999)] * 9))
    Parquet().check_whole(str(path))
    data = path.read_bytes()
    for size in (0, 3, len(data) // 2, len(data) - 9, len(data) - 1):
        path.write_bytes(data[:size])
        with pytest.raises(ValueError, match=r"."):
            Parquet().check_whole(str(path))


def test_columns_that_a_file_lacks_have_their_default(tmp_path: Path) -> None:
    old: dict[str, Any] = {
        "fields": [{"name": "question_id", "type": "string"}, {"name": "more", "type": "long"}]
    }
    path = tmp_path / "old.parquet"
    with path.open("wb") as file:
        writer = Parquet().writer(file, old)
        writer.write_values({"question_id": "q", "more": 1})
        writer.close()
    columns = columns_of("answers", "question_id", "role", "retrieval_queries")
    assert list(read_rows(str(path), columns)) == [
        {"question_id": "q", "role": None, "retrieval_queries": []}
    ]
    with pytest.raises(ValueError, match="it has no column turn_index"):
        list(read_rows(str(path), columns_of("answers", "turn_index")))


class Pipe(BytesIO):
    """A stream that can't go back, as a network's may be."""

    def seekable(self) -> bool:
        return False


def test_a_stream_that_can_not_seek_is_read(tmp_path: Path) -> None:
    path = Path(written(tmp_path / "rows.parquet", "answers", answer(question_id="q")))
    (row,) = Parquet().read(Pipe(path.read_bytes()), columns_of("answers", "question_id"))
    assert row == {"question_id": "q"}


def test_the_flag_names_every_format() -> None:
    (flag,) = [each for each in flags_of(RowOptions) if each.name == "row_format"]
    assert flag.choices == NAMES
    assert set(NAMES) == {*FORMATS}
