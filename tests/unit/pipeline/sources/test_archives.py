import bz2
import csv
import gzip
import io
import json
import os
from collections.abc import Callable
from pathlib import Path

import apache_beam as beam
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from apache_beam.metrics import MetricsFilter
from apache_beam.testing.util import assert_that, equal_to

from groundrows.pipeline.sources.archives import (
    Archive,
    ReadArchives,
    ReadSettings,
    find_archives,
    note_on,
    read_archive,
)
from groundrows.schemas.errors import RecordError
from groundrows.schemas.outcome import Failure
from groundrows.schemas.question import RecordSettings, parse_question
from groundrows.schemas.record import Record
from tests.support.runs import SAMPLES

ROWS = [
    {"question": "Où est la gare?", "id": "1"},
    {"question": 'A comma, a "quote"\nand a line break', "id": "2"},
    {"question": "東京は?", "id": "3", "facts": ["one", "two"], "metadata": {"a": {"b": [1, 2]}}},
]


def as_csv() -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, ["question", "id", "facts", "metadata"])
    writer.writeheader()
    for row in ROWS:
        writer.writerow({k: v if isinstance(v, str) else json.dumps(v) for k, v in row.items()})
    return out.getvalue().encode()


def as_avro() -> bytes:
    inner = {"type": "map", "values": {"type": "array", "items": "int"}}
    fields = [
        {"name": "question", "type": "string"},
        {"name": "id", "type": "string"},
        {"name": "facts", "type": ["null", {"type": "array", "items": "string"}]},
        {"name": "metadata", "type": ["null", {"type": "map", "values": inner}]},
    ]
    out = io.BytesIO()
    fastavro.writer(out, {"type": "record", "name": "Row", "fields": fields}, ROWS)
    return out.getvalue()


def as_parquet() -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([ROWS[-1], *ROWS]).slice(1), out)
    return out.getvalue()


FORMATS: dict[str, Callable[[], bytes]] = {
    "jsonl": lambda: "".join(
        json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in ROWS
    ).encode(),
    "csv": as_csv,
    "avro": as_avro,
    "parquet": as_parquet,
}
CODECS: dict[str, Callable[[bytes], bytes]] = {
    "": lambda data: data,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": zstandard.compress,
}


def archive_of(path: Path, data: bytes) -> Archive:
    path.write_bytes(data)
    (archive,) = find_archives([str(path)])
    return archive


def names(archives: list[Archive]) -> list[str]:
    return [Path(archive.path).name for archive in archives]


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("codec", CODECS)
def test_every_format_in_every_codec_holds_the_same_records(tmp_path: Path, ending: str, codec: str) -> None:
    archive = archive_of(tmp_path / f"a.{ending}{codec}", CODECS[codec](FORMATS[ending]()))
    items = list(read_archive(archive))
    expected = [json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() for row in ROWS]
    assert [item.body for item in items if isinstance(item, Record)] == expected
    # In CSV the second row spans two lines.
    numbers = [2, 3, 5] if ending == "csv" else [1, 2, 3]
    assert [item.origin for item in items] == [f"{archive.path}:{number}" for number in numbers]


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("codec", [".gz", ".bz2", ".zst"])
def test_members_are_read_as_one(tmp_path: Path, ending: str, codec: str) -> None:
    data = FORMATS[ending]()
    parts = CODECS[codec](data[:150]) + CODECS[codec](data[150:])
    items = list(read_archive(archive_of(tmp_path / f"a.{ending}{codec}", parts)))
    assert items == list(read_archive(archive_of(tmp_path / f"a.{ending}{codec}", CODECS[codec](data))))
    assert len(items) == 3


@pytest.mark.parametrize("codec", [".gz", ".bz2", ".zst"])
@pytest.mark.parametrize("ending", FORMATS)
def test_a_cut_at_any_byte_leaves_the_records_before_it_and_one_failure(
    tmp_path: Path, ending: str, codec: str
) -> None:
    path = tmp_path / f"a.{ending}{codec}"
    data = CODECS[codec](FORMATS[ending]())
    whole = list(read_archive(archive_of(path, data)))
    for size in range(0, len(data), 1 if codec == ".gz" else 7):
        *records, failure = read_archive(archive_of(path, data[:size]))
        assert records == whole[: len(records)]
        assert isinstance(failure, Failure)
        assert (failure.stage, failure.code, failure.origin) == ("read", "UNREADABLE_FILE", str(path))
        assert f"{path} could not be read" in failure.message
        assert f"after {size} compressed bytes" in failure.message
        assert (f"past {path}:" in failure.message) == bool(records)


def test_complete_lines_before_a_cut_are_records(tmp_path: Path) -> None:
    lines = [b'{"question":"%d"}' % (i * i * 7919) for i in range(20_000)]
    data = gzip.compress(b"\n".join(lines) + b"\n")
    *records, failure = read_archive(archive_of(tmp_path / "a.jsonl.gz", data[: len(data) // 2]))
    assert len(records) > 8_000
    assert [record.body for record in records if isinstance(record, Record)] == lines[: len(records)]
    assert isinstance(failure, Failure)
    assert f"past {tmp_path / 'a.jsonl.gz'}:{len(records)}: " in failure.message


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.json", b'[{"question": "a"}', "breaks off within record 1"),
        ("a.csv", b"id,id\n1,2\n", "twice"),
        ("a.jsonl", gzip.compress(b"{}\n", mtime=0), "name it .gz"),
        ("a.jsonl.gz", b"{}\n", "gzip data is corrupt"),
        ("a.avro", b"{}\n", "avro"),
        ("a.avro", as_avro()[:-20], "breaks off"),
        ("a.parquet", b"{}\n", "arquet"),
        ("a.parquet.zst", zstandard.compress(b"{}\n"), "arquet"),
    ],
)
def test_a_file_that_is_not_what_its_name_says_is_one_failure(
    tmp_path: Path, name: str, data: bytes, reason: str
) -> None:
    (failure,) = [
        item for item in read_archive(archive_of(tmp_path / name, data)) if isinstance(item, Failure)
    ]
    assert (failure.stage, failure.code, failure.origin) == ("read", "UNREADABLE_FILE", str(tmp_path / name))
    assert reason in failure.message
    assert failure.message.endswith(".")
    assert "\n" not in failure.message
    assert len(failure.question_id) == 32


def test_a_file_that_has_gone_is_one_failure(tmp_path: Path) -> None:
    archive = archive_of(tmp_path / "a.jsonl", b"{}\n")
    Path(archive.path).unlink()
    (failure,) = read_archive(archive)
    assert isinstance(failure, Failure)
    assert failure.code == "UNREADABLE_FILE"
    assert "No such file" in failure.message


def test_a_name_that_is_not_utf8_gives_an_origin_that_is(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/caf\xe9.jsonl"
    Path(os.fsdecode(path)).write_bytes(b"{}\n")
    (record,) = read_archive(find_archives([f"{tmp_path}/*.jsonl"])[0])
    assert record == Record(b"{}", f"{tmp_path}/caf\\udce9.jsonl:1")


def test_archives_are_found_once_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("b.csv.GZ", "a.jsonl", "c.NDJSON", "deep/d.parquet.zst"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    (tmp_path / "z.jsonl").symlink_to(tmp_path / "a.jsonl")
    monkeypatch.chdir(tmp_path)
    found = find_archives([f"{tmp_path}/**", "a.*", "./a.jsonl", f"{tmp_path}/b.csv.GZ", "c*"])
    assert sorted(names(found)) == ["a.jsonl", "b.csv.GZ", "c.NDJSON", "d.parquet.zst"]
    assert [archive.path for archive in found] == sorted(archive.path for archive in found)
    assert found == find_archives(["c*", f"{tmp_path}/b.csv.GZ", "./a.jsonl", "a.*", f"{tmp_path}/**"])
    by_name = {Path(archive.path).name: (archive.format, archive.codec) for archive in found}
    assert by_name == {
        "a.jsonl": ("jsonlines", "none"),
        "b.csv.GZ": ("csv", "gzip"),
        "c.NDJSON": ("jsonlines", "none"),
        "d.parquet.zst": ("parquet", "zstd"),
    }


def test_a_star_stops_at_a_slash(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b.csv").touch()
    (tmp_path / "a.csv").touch()
    assert names(find_archives([f"{tmp_path}/*.csv"])) == ["a.csv"]
    assert names(find_archives([f"{tmp_path}/**.csv"])) == ["a.csv", "b.csv"]


def test_a_name_with_brackets_stands_for_itself(tmp_path: Path) -> None:
    (tmp_path / "a[1].csv").touch()
    assert names(find_archives([f"{tmp_path}/a[1].csv"])) == ["a[1].csv"]


@pytest.mark.parametrize("pattern", ["*.csv", "a.csv", "./a.csv", "?.csv", "../*/a.csv"])
def test_relative_patterns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (here / "a.csv").touch()
    monkeypatch.chdir(here)
    (archive,) = find_archives([pattern])
    assert Path(archive.path).resolve() == here / "a.csv"
    if "/" not in pattern:
        assert archive.path == "a.csv"


@pytest.mark.parametrize("name", ["a.txt", "a", "a.gz", "a.jsonl.xz", "a.zst.csvx", "gz"])
def test_an_unknown_ending_names_the_known_ones(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(
        ValueError, match=r"\.jsonl, \.ndjson, \.json, \.csv, \.tsv, \.avro, \.parquet.*\.gz, \.bz2, \.zst"
    ) as raised:
        find_archives([str(tmp_path / name)])
    assert str(tmp_path / name) in str(raised.value)


@pytest.mark.parametrize("pattern", ["none.jsonl", "none*.jsonl", "none/**", ""])
def test_a_pattern_that_matches_nothing_is_named(tmp_path: Path, pattern: str) -> None:
    (tmp_path / "a.jsonl").touch()
    missing = f"{tmp_path}/{pattern}" if pattern else ""
    with pytest.raises(ValueError, match="matches no file") as raised:
        find_archives([str(tmp_path / "a.jsonl"), missing])
    assert repr(missing) in str(raised.value)


def test_a_scheme_that_is_not_served_is_one_sentence() -> None:
    with pytest.raises(ValueError, match=r"ftp://host/a\.csv") as raised:
        find_archives(["ftp://host/a.csv"])
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("spread", [False, True])
def test_read_archives_in_a_pipeline(tmp_path: Path, spread: bool) -> None:
    archives = [
        archive_of(tmp_path / "a.jsonl", b'{"question":"a"}\n\n{"question":"b"}\n'),
        archive_of(tmp_path / "b.csv", b"question,id\nc,1\nragged\nd,2\n"),
        archive_of(tmp_path / "c.parquet", b"not parquet"),
    ]
    running = beam.Pipeline("FnApiRunner")
    read = running | ReadArchives(archives, spread)
    origins = beam.Map(lambda item: item.origin)
    assert_that(
        read.records | "Origins of records" >> origins,
        equal_to([f"{tmp_path}/{rest}" for rest in ("a.jsonl:1", "a.jsonl:3", "b.csv:2", "b.csv:4")]),
        "records",
    )
    assert_that(
        read.failures | "Origins of failures" >> origins,
        equal_to([f"{tmp_path}/b.csv:3", f"{tmp_path}/c.parquet"]),
        "failures",
    )
    result = running.run()
    result.wait_until_finish()
    (counter,) = result.metrics().query(MetricsFilter().with_name("records_read"))["counters"]
    assert (counter.key.metric.namespace, counter.committed) == ("groundrows", 6)


def test_the_sample_archive_is_read_whole() -> None:
    samples = SAMPLES
    items = list(read_archive(find_archives([f"{samples}/*.jsonl"])[0]))
    records = [json.loads(item.body) for item in items if isinstance(item, Record)]
    assert len(records) == len(items)
    assert {"question", "turns", "facts", "metadata"} <= {name for record in records for name in record}


def bodies(path: Path, **settings: object) -> list[object]:
    (archive,) = find_archives([str(path)], ReadSettings(**settings))  # type: ignore[arg-type]
    items = list(read_archive(archive))
    assert all(isinstance(item, Record) for item in items), items
    return [json.loads(item.body) for item in items if isinstance(item, Record)]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig"])
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.json", "a.csv.gz"])
def test_text_that_begins_with_a_byte_order_mark_is_read(tmp_path: Path, encoding: str, name: str) -> None:
    record = {"id": "1", "question": "Où? 東京 😀"}
    text = "id,question\r\n1,Où? 東京 😀\r\n" if ".csv" in name else json.dumps(record, ensure_ascii=False)
    mark = "" if encoding in ("utf-16", "utf-32", "utf-8-sig") else "\ufeff"
    data = (mark + text).encode(encoding)
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    assert bodies(tmp_path / name) == [record]


def test_an_encoding_is_named_and_a_record_that_is_not_in_it_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("id,question\n1,Où?\n2,Who?\n".encode("cp1252"))
    assert bodies(tmp_path / "a.csv", encoding="cp1252")[0] == {"id": "1", "question": "Où?"}
    (archive,) = find_archives([str(tmp_path / "a.csv")])
    first, second = read_archive(archive)
    assert isinstance(first, Record)
    assert isinstance(second, Record)
    with pytest.raises(RecordError, match=r"INVALID_UTF8.*--encoding"):
        parse_question(first, RecordSettings())
    assert parse_question(second, RecordSettings()).turns == ("Who?",)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.csv", b"id;question\n1;Who, me?\n2;a;b\n"),
        ("a.csv", b"sep=;\r\nid;question\r\n1;Who, me?\r\n"),
        ("a.csv", b"id\tquestion\n1\tWho, me?\n"),
        ("a.tsv", b"id\tquestion\n1\tWho, me?\n"),
        ("a.csv", b"id|question\n1|Who, me?\n"),
        ("a.csv", b"id;question\r1;Who, me?\r\r"),
    ],
)
def test_tables_are_read_whatever_stands_between_their_cells(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    first, *_ = read_archive(find_archives([str(tmp_path / name)])[0])
    assert isinstance(first, Record)
    assert json.loads(first.body) == {"id": "1", "question": "Who, me?"}


def test_a_delimiter_is_forced_and_another_than_the_comma_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"id;question,x\n1;Who,y\n")
    assert bodies(path, csv_delimiter=";") == [{"id": "1", "question,x": "Who,y"}]
    assert bodies(path, csv_delimiter=",") == [{"id;question": "1;Who", "x": "y"}]
    path.write_bytes(b"id;question\n1;Who\n")
    assert (note_on(find_archives([str(path)])[0]) or "").startswith(
        f"{path} is read with semicolons between"
    )
    assert note_on(find_archives([str(path)], ReadSettings(csv_delimiter=";"))[0]) is None
    path.write_bytes(b"question\nWhy; and how, then?\n")
    assert note_on(find_archives([str(path)])[0]) is None


def test_a_file_without_a_record_is_told(tmp_path: Path) -> None:
    for name, data in (("a.csv", b"id,question\n,\n"), ("b.jsonl", b"\n"), ("c.json", b"[ ]")):
        (tmp_path / name).write_bytes(data)
        archive = find_archives([str(tmp_path / name)])[0]
        assert note_on(archive) == f"{tmp_path / name} holds no record."


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.json", "a.avro", "a.parquet"])
def test_a_pointer_of_git_lfs_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    (failure,) = read_archive(find_archives([str(tmp_path / name)])[0])
    assert isinstance(failure, Failure)
    assert (failure.code, "git lfs pull" in failure.message) == ("UNREADABLE_FILE", True)


def test_what_is_no_regular_file_is_refused_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(ValueError, match="no regular file; write what it gives to a file"):
        find_archives([str(tmp_path / "pipe.jsonl")])
    with pytest.raises(ValueError, match="matches no file"):
        find_archives([f"{tmp_path}/*.jsonl"])


def test_a_directory_is_refused_with_a_pattern_that_works(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").touch()
    with pytest.raises(ValueError, match="is a directory; name the files in it") as raised:
        find_archives([str(tmp_path)])
    (tmp_path / "b.csv").touch()
    pattern = str(raised.value).partition("--input='")[2].partition("'")[0]
    assert [archive.path for archive in find_archives([pattern])] == [str(tmp_path / "b.csv")]


def test_two_stars_stand_for_no_directory_too(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    paths = [tmp_path / name for name in ("a.jsonl", "deep/b.jsonl", "deep/er/c.jsonl")]
    for path in paths:
        path.touch()
    assert [archive.path for archive in find_archives([f"{tmp_path}/**/*.jsonl"])] == sorted(map(str, paths))


def test_a_comma_may_be_in_a_file_s_own_name(tmp_path: Path) -> None:
    for name in ("a,b.jsonl", "c.jsonl"):
        (tmp_path / name).touch()
    patterns = f"{tmp_path}/c.jsonl,{tmp_path}/a,b.jsonl".split(",")
    found = [archive.path for archive in find_archives(patterns)]
    assert found == [f"{tmp_path}/a,b.jsonl", f"{tmp_path}/c.jsonl"]


@pytest.mark.parametrize("name", ["a.avro", "a.parquet"])
def test_bytes_that_are_no_text_are_not_asked(tmp_path: Path, name: str) -> None:
    rows = [{"question": b"\xff\xfe\x00", "note": b"\xff"}, {"question": b"Who?", "note": b"\xff"}]
    if name == "a.parquet":
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / name)
    else:
        fields = [{"name": field, "type": "bytes"} for field in ("question", "note")]
        with (tmp_path / name).open("wb") as file:
            fastavro.writer(file, {"type": "record", "name": "Row", "fields": fields}, rows)
    binary, good = read_archive(find_archives([str(tmp_path / name)])[0])
    assert isinstance(binary, Record)
    assert isinstance(good, Record)
    with pytest.raises(RecordError, match="INVALID_UTF8"):
        parse_question(binary, RecordSettings())
    assert parse_question(good, RecordSettings()).metadata == '{"note":"/w=="}'
