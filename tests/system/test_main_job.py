"""The main job: an archive in, rows out, the same again every time."""

import bz2
import csv
import gzip
import json
from pathlib import Path

import fastavro
import pyarrow
import pyarrow.parquet
import pytest
import zstandard

from tests.support.bad_records import BAD_RECORDS
from tests.support.runs import comparable, google_search, rows, run, summary, write_lines

SUBJECTS = (
    "the Danube",
    "penicillin",
    "Mount Kilimanjaro",
    "Lake Baikal",
    "the violin",
    "Jupiter",
    "the Moon",
)
ASKING = (
    "What is known about",
    "Who discovered",
    "When was the first account of",
    "Where is",
    "How large is",
)


def questions(count: int) -> list[dict[str, object]]:
    return [
        {
            "id": f"q{number}",
            "question": f"{ASKING[number % len(ASKING)]} {SUBJECTS[number % len(SUBJECTS)]}, part {number}?",
            "answer": [f"expected {number}"],
        }
        for number in range(count)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("main_job")


def test_two_runs_give_the_same_rows(folder):
    source = write_lines(folder / "questions.jsonl", questions(400))
    for name in ("first", "second"):
        run(
            "--service=emulator",
            f"--input={source}",
            f"--request_defaults={google_search(folder)}",
            f"--output={folder / name}",
        )
        said = summary(folder / name)
        assert said["balanced"]
        assert (said["records_read"], said["answered"], said["failed"]) == (400, 400, 0)
        assert said["calls"] == 400
        assert said["rows"] == {table: len(rows(folder / name, table)) for table in said["rows"]}
    first = comparable(folder / "first")
    assert first == comparable(folder / "second")
    assert first["claim_supports"], "nothing was grounded, so nothing was compared"
    answer = rows(folder / "first", "answers")[0]
    assert json.loads(answer["metadata"])["answer"] == [f"expected {answer['question_id'][1:]}"]


def test_bad_records_cost_a_row_each_and_never_the_run(folder):
    good = [json.dumps(record).encode() for record in questions(1000)]
    bad = [body for _, body, _ in BAD_RECORDS if b"\n" not in body and body.strip()]
    assert len(bad) >= 40
    mixed = []
    for number, body in enumerate(good):
        mixed.append(body)
        if number % (len(good) // len(bad)) == 0 and number // (len(good) // len(bad)) < len(bad):
            mixed.append(bad[number // (len(good) // len(bad))])
    source = write_lines(folder / "mixed.jsonl", mixed)
    output = folder / "mixed"
    run("--service=emulator", f"--input={source}", f"--output={output}", "--max_in_flight=128")
    said = summary(output)
    assert said["balanced"]
    assert (said["answered"], said["failed"]) == (1000, len(bad))
    assert {row["question_id"] for row in rows(output, "answers")} == {f"q{number}" for number in range(1000)}
    failures = rows(output, "failures")
    assert sorted(row["record"] for row in failures) == sorted(bad)
    expected = {body: code for _, body, code in BAD_RECORDS}
    for row in failures:
        assert row["code"] == expected[row["record"]], row["message"]
        assert row["message"]
        assert mixed[int(row["origin"].rpartition(":")[2]) - 1] == row["record"]


def _jsonl(path: Path, records: list[dict[str, str]]) -> None:
    write_lines(path, records)


def _csv(path: Path, records: list[dict[str, str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(records[0]))
        writer.writeheader()
        writer.writerows(records)


def _avro(path: Path, records: list[dict[str, str]]) -> None:
    fields = [{"name": name, "type": "string"} for name in records[0]]
    with path.open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "question", "fields": fields}, records)


def _parquet(path: Path, records: list[dict[str, str]]) -> None:
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(records), path)


CODECS = {
    "": lambda data: data,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}


def test_every_format_and_codec_gives_the_same_answers(folder):
    records = [
        {
            "id": f"q{number}",
            "question": f'Which sea does river {number} reach,\nand "where"?',
            "topic": "rivers",
        }
        for number in range(25)
    ]
    sources = folder / "formats"
    sources.mkdir()
    outputs = []
    for ending, write in ((".jsonl", _jsonl), (".csv", _csv), (".avro", _avro), (".parquet", _parquet)):
        plain = sources / f"questions{ending}"
        write(plain, records)
        for codec, compress in CODECS.items():
            packed = sources / f"{ending[1:]}{codec.replace('.', '-')}" / f"questions{ending}{codec}"
            packed.parent.mkdir()
            packed.write_bytes(compress(plain.read_bytes()))
            outputs.append((packed, folder / f"out-{ending[1:]}{codec}"))
    compared = []
    # One process asks them all: what is compared is what they hold, not how a process starts.
    from groundrows.pipeline.cli import main

    for source, output in outputs:
        flags = ["--service=emulator", f"--input={source}", f"--output={output}", "--quiet"]
        assert main(["run", *flags]) == 0
        compared.append(comparable(output)["answers"])
        assert summary(output)["answered"] == len(records)
    assert all(answers == compared[0] for answers in compared[1:])


def test_a_table_of_another_separator_and_encoding_is_read_as_the_flags_say(tmp_path: Path) -> None:
    table = tmp_path / "mine.csv"
    table.write_bytes("Id;Question\n1;Wo fließt die Donau?\n2;Where does tin melt?\n".encode("cp1252"))
    done = run("--service=emulator", f"--input={table}", f"--output={tmp_path / 'out'}", "--encoding=cp1252")
    assert f"{table} is read with semicolons between its cells" in done.stderr
    found = {row["question_id"]: row["question"] for row in rows(tmp_path / "out", "answers")}
    assert found == {"1": "Wo fließt die Donau?", "2": "Where does tin melt?"}
