"""What `groundrows expire` does to a directory: rows made up, and a ledger in it."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fastavro
import pytest

from groundrows.pipeline.commands.expire import for_people, told
from groundrows.pipeline.expire import directory as expiring
from groundrows.pipeline.expire.directory import expire
from groundrows.pipeline.storage.indexes import IN_USE, room_of
from groundrows.pipeline.storage.output import locked
from groundrows.pipeline.storage.row_files import RowFile, read_rows
from groundrows.pipeline.storage.row_formats.known import FORMATS
from groundrows.schemas.errors import UsageError
from groundrows.schemas.rows import CitedChunk, Image, ImageFile, Row
from groundrows.schemas.tables import TABLES
from groundrows.transforms.generate.ledger.base import Entry
from groundrows.transforms.generate.ledger.packing import pack
from groundrows.transforms.generate.ledger.sqlite import SqliteLedger
from tests.support.made import answer, chunk, failure, grounding_check
from tests.support.table_rows import claim

OLD = datetime(2026, 1, 1, 12, tzinfo=UTC)
YOUNG = OLD + timedelta(days=40)
BEFORE = OLD + timedelta(days=30)
LINK = "https://found.example/page"
SECRETS = ("found.example", "Found title", "Found passage", "suggested", "blob-of-search")
GEMINI = json.dumps(
    {
        "candidates": [
            {
                "content": {"parts": [{"text": "Because."}]},
                "groundingMetadata": {
                    "searchEntryPoint": {"renderedContent": "suggested"},
                    "groundingChunks": [{"web": {"uri": LINK, "title": "Found title"}}],
                },
            }
        ]
    }
)


def rows_at(moment: datetime, name: str) -> list[Row]:
    """An answer of each kind: by either service's search, by both kinds of source, by the user's own store."""
    expires = moment + timedelta(days=30)
    place: dict[str, Any] = {"answered_at": moment}

    def one(kind: str) -> dict[str, Any]:
        return {**place, "question_id": f"{kind}-{name}", "answer_id": f"{kind}-{name}"}

    image = Image(ImageFile(LINK, None, None), None, None)
    found = {"uri": LINK, "title": "Found title", "domain": "found.example"}
    mine = {"uri": "gs://b/mine.pdf", "title": "Mine", "chunk_text": "My passage."}
    cited = CitedChunk(0, "Found passage", "0", LINK, "Found title", None, {"uri": LINK}, "Found passage")
    facts = json.dumps({"answerCandidate": "Because.", "facts": [{"factText": "Found passage"}]})
    return [
        answer(
            **one("old-api"),
            search_suggestions_html="suggested",
            search_sdk_blob=b"blob-of-search",
            images=(image,),
            uris_expire_at=expires,
        ),
        chunk(**one("old-api"), **found, chunk_text="Found passage", uris_expire_at=expires),
        claim(**one("old-api"), chunk_index=0, chunk_uri=LINK, chunk_title="Found title"),
        grounding_check(
            question_id=f"old-api-{name}",
            answer_id=f"old-api-{name}",
            checked_at=moment,
            citations=(cited,),
            request_json=facts,
        ),
        answer(**one("gemini"), service="gemini", search_suggestions_html="suggested", response_json=GEMINI),
        chunk(**one("gemini"), **found, chunk_text="", kind="web", source_metadata={"k": LINK}),
        chunk(**one("gemini"), **mine, chunk_index=1, kind="retrieved"),
        claim(**one("gemini"), chunk_index=0, chunk_uri=LINK, chunk_title="Found title"),
        claim(**one("gemini"), chunk_index=1, chunk_uri="gs://b/mine.pdf", chunk_title="Mine"),
        claim(**one("gemini"), claim_index=1, chunk_index=None),
        answer(**one("own"), response_json='{"candidates":[]}'),
        chunk(**one("own"), **mine),
        claim(**one("own"), chunk_index=0, chunk_uri="gs://b/mine.pdf", chunk_title="Mine"),
    ]


def entry(name: str, moment: datetime, response: bytes = GEMINI.encode()) -> Entry:
    key = name.encode().ljust(16, b"-")
    return Entry(key, name, 0, "gemini", response, 1, 1.0, moment, moment)


@pytest.fixture(params=FORMATS)
def run(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Two runs' files in a directory: one old, one with an old and a young answer of each kind."""
    path = tmp_path / "out"
    both = {"first": rows_at(OLD, "a"), "second": [*rows_at(OLD, "b"), *rows_at(YOUNG, "c")]}
    for file, rows in both.items():
        rows.append(failure(record=b'{"question": "found.example?"}'))
        for table in TABLES:
            mine = [row for row in rows if table == row.TABLE]
            (path / table).mkdir(parents=True, exist_ok=True)
            written = RowFile(str(path / table / f"{file}{FORMATS[request.param].suffix}"), table)
            for row in mine:
                written.write(row)
            written.close()
    with closing(SqliteLedger(str(path / ".groundrows" / "ledger.sqlite"))) as ledger:
        ledger.put_many([entry("gemini-a", OLD), entry("gemini-c", YOUNG), entry("odd", OLD, b"\xff\xff")])
    return path


def contents(path: Path) -> dict[str, list[dict[str, Any]]]:
    files = row_files_of(path)
    return {str(file.relative_to(path).with_suffix("")): list(read_rows(str(file))) for file in files}


def row_files_of(path: Path) -> list[Path]:
    return sorted(file for table in TABLES for file in (path / table).iterdir())


def ledger_of(path: Path) -> dict[str, Entry]:
    with closing(SqliteLedger(str(path / ".groundrows" / "ledger.sqlite"))) as ledger:
        return {each.question_id: each for each in ledger.entries()}


def test_what_the_search_found_goes_from_old_answers_and_everything_else_stays(run: Path) -> None:
    before = contents(run)
    removed = expire(str(run), BEFORE)
    after = contents(run)
    assert after.keys() == before.keys()
    changed: set[str] = set()
    for file, rows in after.items():
        assert len(rows) == len(before[file])
        for old, new in zip(before[file], rows, strict=True):
            is_young = YOUNG in (old.get("answered_at"), old.get("checked_at"))
            if is_young or old.get("answer_id", "own").startswith("own") or "failures" in file:
                assert new == old
            else:
                assert not [mark for mark in SECRETS if mark in repr(new)]
                changed |= {name for name in old if old[name] != new[name]}
    assert changed == {
        *("search_suggestions_html", "search_sdk_blob", "images", "response_json", "request_json"),
        *("chunk_text", "uri", "title", "domain", "source_metadata", "chunk_uri", "chunk_title", "citations"),
    }
    claims = [row for row in after["claim_supports/first"] if row["answer_id"] == "gemini-a"]
    assert [row["chunk_uri"] for row in claims] == [None, "gs://b/mine.pdf", None]
    said = {table: dict(counted) for table, counted in removed.tables.items()}
    assert said == {
        "answers": {"rows": 4, "search_suggestions": 4, "links": 2, "responses": 2},
        "support_chunks": {"rows": 4, "links": 4, "chunk_texts": 2},
        "claim_supports": {"rows": 4, "links": 4},
        "grounding_checks": {"rows": 2, "links": 2, "chunk_texts": 2, "responses": 2},
    }
    [ledger] = removed.ledgers
    assert (ledger.responses, ledger.unreadable) == (1, 1)
    entries = ledger_of(run)
    assert b"found.example" not in entries["gemini-a"].response
    assert entries["gemini-c"] == entry("gemini-c", YOUNG)


def test_no_old_text_is_left_in_the_bytes_of_the_ledger(run: Path) -> None:
    path = run / ".groundrows" / "ledger.sqlite"

    def stored() -> bytes:
        return b"".join(file.read_bytes() for file in path.parent.glob("ledger.sqlite*"))

    packed = pack(GEMINI.encode())
    assert stored().count(packed) == 2
    expire(str(run), BEFORE)
    assert stored().count(packed) == 1  # the young one


def test_a_second_time_there_is_nothing_to_remove_and_no_file_is_touched(run: Path) -> None:
    expire(str(run), BEFORE)
    stamps = {file: file.stat().st_mtime_ns for file in row_files_of(run)}
    removed = expire(str(run), BEFORE)
    assert not any(removed.tables.values())
    assert [each.responses for each in removed.ledgers] == [0]
    assert {file: file.stat().st_mtime_ns for file in row_files_of(run)} == stamps
    assert not list((run / ".groundrows").glob("half*"))


class _Killed(BaseException):
    pass


def test_stopped_anywhere_each_file_is_old_or_new_and_the_next_time_does_the_rest(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(run)
    moved: list[str] = []
    real = expiring.expire_file

    def stops_after(steps: int) -> Any:
        def expire_file(path: str, *rest: Any) -> Any:
            if len(moved) == steps:
                raise _Killed
            moved.append(path)
            return real(path, *rest)

        return expire_file

    seen: list[Mapping[str, Any]] = [before]
    for steps in range(1, 8):
        moved.clear()
        monkeypatch.setattr(expiring, "expire_file", stops_after(steps))
        with pytest.raises(_Killed):
            expire(str(run), BEFORE)
        seen.append(contents(run))
    monkeypatch.setattr(expiring, "expire_file", real)
    expire(str(run), BEFORE)
    after = contents(run)
    assert not [mark for mark in SECRETS if mark in repr([rows_old(after)])]
    for state in seen:
        assert all(rows in (before[file], after[file]) for file, rows in state.items())
    assert b"found.example" not in ledger_of(run)["gemini-a"].response


def rows_old(state: Mapping[str, list[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    for file, rows in state.items():
        if "failures" not in file:
            yield from (row for row in rows if OLD in (row.get("answered_at"), row.get("checked_at")))


def test_a_run_under_way_refuses_it_and_the_other_way_round(run: Path) -> None:
    before = contents(run)
    with locked(str(run)), pytest.raises(UsageError, match=r"A run is under way in .*: wait"):
        expire(str(run), BEFORE)
    assert contents(run) == before


def test_the_index_of_who_browsed_goes_and_who_browses_is_not_disturbed(run: Path) -> None:
    index = Path(room_of(str(run))) / "an-index"
    index.mkdir(parents=True)
    (index / "rows.duckdb").write_text("found.example")
    before = contents(run)
    with (index / IN_USE).open("wb") as mark:
        fcntl.flock(mark, fcntl.LOCK_SH)
        with pytest.raises(UsageError, match="end `groundrows browse` first"):
            expire(str(run), BEFORE)
        assert contents(run) == before
        assert index.is_dir()
    expire(str(run), BEFORE)
    assert not index.exists()


def test_a_ledger_elsewhere_loses_what_is_of_this_directory_alone(run: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared.sqlite"
    with closing(SqliteLedger(str(shared))) as ledger:
        ledger.put_many([entry("gemini-a", OLD), entry("another", OLD + timedelta(microseconds=1))])
    (run / "run.json").write_text(json.dumps({"flags": {"ledger": f"sqlite://{shared}"}}))
    removed = expire(str(run), BEFORE)
    assert {each.uri: each.responses for each in removed.ledgers} == {
        f"sqlite://{run}/.groundrows/ledger.sqlite": 1,
        f"sqlite://{shared}": 1,
    }
    with closing(SqliteLedger(str(shared))) as ledger:
        left = {each.question_id: each.response for each in ledger.entries()}
    assert b"found.example" in left["another"]
    assert b"found.example" not in left["gemini-a"]


def test_a_ledger_that_is_none_is_refused_before_anything_changes(run: Path) -> None:
    (run / ".groundrows" / "ledger.sqlite").write_text("a diary")
    before = contents(run)
    with pytest.raises(UsageError, match="can't be used"):
        expire(str(run), BEFORE)
    assert contents(run) == before


def test_rows_of_the_first_version_are_expired_too(tmp_path: Path) -> None:
    released = json.loads(
        (Path(__file__).parents[4] / "schemas/released/0.1.0/support_chunks.avsc").read_text()
    )
    names = {field["name"] for field in released["fields"]}
    row = {name: getattr(rows_at(OLD, "a")[1], name) for name in names}
    path = tmp_path / "support_chunks" / "first.avro"
    path.parent.mkdir()
    with path.open("wb") as file:
        fastavro.writer(file, released, [row])
    assert expire(str(tmp_path), BEFORE).tables["support_chunks"]["links"] == 1
    [left] = read_rows(str(path))
    assert (left["uri"], left["kind"], left["source"]) == (None, None, row["source"])


def test_rows_of_a_newer_version_are_refused(tmp_path: Path) -> None:
    schema = dict(TABLES["support_chunks"].schema)
    schema["fields"] = [*schema["fields"], {"name": "new_column", "type": "int"}]
    row = {name: getattr(rows_at(OLD, "a")[1], name) for name in rows_at(OLD, "a")[1].__slots__}
    path = tmp_path / "support_chunks" / "first.avro"
    path.parent.mkdir()
    with path.open("wb") as file:
        fastavro.writer(file, schema, [{**row, "new_column": 1}])
    before = path.read_bytes()
    with pytest.raises(UsageError, match="version of Groundrows that wrote it"):
        expire(str(tmp_path), BEFORE)
    assert path.read_bytes() == before
    assert not list((tmp_path / ".groundrows").glob("half*"))


def test_a_directory_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no directory"):
        expire(str(tmp_path / "nowhere"), BEFORE)
    assert not (tmp_path / "nowhere").exists()


def test_what_was_removed_is_said_by_table_and_ledger(run: Path) -> None:
    said = for_people(told(str(run), BEFORE, expire(str(run), BEFORE)))
    assert "answers of before 2026-01-31T12:00:00+00:00" in said
    assert "  support_chunks: 4 rows changed: 4 links, 2 chunk texts\n" in said
    assert "ledger.sqlite: 1 responses changed\n    1 old ones are left as they are" in said
