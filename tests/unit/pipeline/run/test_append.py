"""Which turns the output of `--append` holds already."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import fastavro
import pytest

from groundrows.pipeline.run import append
from groundrows.pipeline.run.append import answered_turns, note_answered
from groundrows.pipeline.storage.output import Output
from groundrows.schemas.errors import UsageError
from groundrows.schemas.tables import TABLES
from groundrows.transforms.generate.calling.answered import AnsweredTurns, turn_name
from tests.support.made import answer, chunk, failure, grounding_check, write_rows
from tests.support.read_back import as_read
from tests.support.tools import is_one_sentence

TEXT = "Why?"  # what every answer made here was asked


def found(path: str | Path, *questions: str) -> dict[str, set[int]]:
    with closing(AnsweredTurns(str(path))) as turns:
        names = {turn_name(question, TEXT): question for question in questions}
        return {names[name]: set(which) for name, which in turns.of(list(names)).items()}


def output_with(directory: Path, *kept: Path) -> Output:
    return Output(str(directory), "run", tuple(str(path) for path in kept), datetime.now(UTC))


def test_turns_and_candidates_of_several_files(tmp_path: Path) -> None:
    directory = tmp_path / "out"
    rows = [
        answer(question_id="one"),
        answer(question_id="talk", turn_index=0),
        answer(question_id="talk", turn_index=1),
        answer(question_id="two", candidate_index=0),
        answer(question_id="two", candidate_index=1),
    ]
    # A conversation's turns may be rows of two runs; a question may have been answered twice.
    more = [answer(question_id="talk", turn_index=2), answer(question_id="one"), answer(question_id="東 '\"")]
    output = output_with(
        directory,
        write_rows(directory / "answers" / "a.avro", rows),
        write_rows(directory / "answers" / "b.avro", more),
    )
    path = note_answered(output)
    assert path is not None
    assert Path(path).parent == Path(output.private("staging"))
    assert found(path, "one", "talk", "two", "東 '\"", "another") == {
        "one": {0},
        "talk": {0, 1, 2},
        "two": {0},
        "東 '\"": {0},
    }


def test_a_failure_is_no_answer(tmp_path: Path) -> None:
    # Not even below a directory that has the answers' name.
    directory = tmp_path / "answers" / "out"
    failures = write_rows(directory / "failures" / "f.avro", [failure(question_id="q")], "failures")
    assert note_answered(output_with(directory, failures)) is None
    answers = write_rows(directory / "answers" / "a.avro", [answer(question_id="other")])
    path = note_answered(output_with(directory, failures, answers))
    assert path is not None
    assert found(path, "q", "other") == {"other": {0}}


def test_nothing_was_answered_before(tmp_path: Path) -> None:
    directory = tmp_path / "out"
    assert note_answered(output_with(directory)) is None
    assert not directory.exists()
    empty = write_rows(directory / "answers" / "answers-empty.avro", [])
    path = note_answered(output_with(directory, empty))
    assert path is not None
    assert found(path, "q") == {}


def test_files_that_are_not_kept_are_not_read(tmp_path: Path) -> None:
    directory = tmp_path / "out"
    kept = write_rows(directory / "answers" / "kept.avro", [answer(question_id="kept")])
    write_rows(directory / "answers" / "left.avro", [answer(question_id="left")])
    path = note_answered(output_with(directory, kept))
    assert path is not None
    assert found(path, "kept", "left") == {"kept": {0}}


@pytest.mark.parametrize("count", [9, 10, 11, 25])
def test_more_rows_than_are_noted_at_once(
    tmp_path: Path, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(append, "_BATCH", 10)
    file = write_rows(tmp_path / "a.avro", [answer(question_id=f"q{n}") for n in range(count)])
    with closing(answered_turns([str(file)], str(tmp_path / "turns.sqlite"))) as turns:
        assert len(turns.of([turn_name(f"q{n}", TEXT) for n in range(count + 5)])) == count


def test_three_columns_are_enough(tmp_path: Path) -> None:
    """Rows of a table whose other columns are unlike ours: of an older version, say."""
    fields = [
        {"name": "turn_index", "type": "int"},
        {"name": "other", "type": "bytes"},
        {"name": "question_id", "type": "string"},
        {"name": "question", "type": "string"},
    ]
    schema = {"type": "record", "name": "groundrows.answers", "fields": fields}
    with (tmp_path / "a.avro").open("wb") as file:
        fastavro.writer(
            file, schema, [{"question_id": "q", "turn_index": 4, "question": TEXT, "other": b"x"}]
        )
    with closing(answered_turns([str(tmp_path / "a.avro")], str(tmp_path / "turns"))) as turns:
        assert turns.of([turn_name("q", TEXT)]) == {turn_name("q", TEXT): {4}}


def test_only_three_columns_are_decoded(tmp_path: Path) -> None:
    # An answer's text that is no UTF-8 would fail if it were decoded into a string.
    good = as_read(answer(question_id="q", answer_text="WXYZ"))
    with (tmp_path / "a.avro").open("wb") as file:
        fastavro.writer(file, TABLES["answers"].schema, [good], codec="null")
    body = (tmp_path / "a.avro").read_bytes()
    assert body.count(b"WXYZ") == 1
    (tmp_path / "a.avro").write_bytes(body.replace(b"WXYZ", b"\xff\xff\xff\xff"))
    with (tmp_path / "a.avro").open("rb") as file, pytest.raises(UnicodeDecodeError):
        list(fastavro.reader(file))
    with closing(answered_turns([str(tmp_path / "a.avro")], str(tmp_path / "turns"))) as turns:
        assert turns.of([turn_name("q", TEXT)]) == {turn_name("q", TEXT): {0}}


@pytest.mark.parametrize("damage", [b"no Avro", b"", None])
def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path, damage: bytes | None) -> None:
    path = write_rows(tmp_path / "a.avro", [answer()] * 1000)
    path.write_bytes(path.read_bytes()[:-100] if damage is None else damage)
    with pytest.raises(UsageError) as raised:
        answered_turns([str(path)], str(tmp_path / "turns"))
    assert is_one_sentence(str(raised.value))
    assert str(path) in str(raised.value)


# -- what is yet to be checked ---------------------------------------------------------------------------


def unchecked(path: str | None, *questions: str) -> dict[tuple[str, int], set[str]]:
    assert path is not None
    with closing(AnsweredTurns(path)) as turns:
        names = {turn_name(question, TEXT): question for question in questions}
        found = turns.unchecked(list(names))
        return {(names[name], turn): set(which) for (name, turn), which in found.items()}


def test_answers_with_something_to_be_checked_against_and_no_check(tmp_path: Path) -> None:
    answers = [
        answer(question_id="one", answer_id="1"),
        answer(question_id="two", answer_id="2.0", candidate_index=0),
        answer(question_id="two", answer_id="2.1", candidate_index=1),
        answer(question_id="talk", answer_id="t0"),
        answer(question_id="talk", answer_id="t1", turn_index=1),
        answer(question_id="checked", answer_id="c"),
        answer(question_id="no chunk", answer_id="n"),
        answer(question_id="quotes nothing", answer_id="g"),
        answer(question_id="says nothing", answer_id="s", answer_text=" \n"),
    ]
    quoted = ["1", "2.0", "2.1", "2.1", "t0", "t1", "c", "s"]
    chunks = [*(chunk(answer_id=each) for each in quoted), chunk(answer_id="g", chunk_text=" ")]
    # A check has a row per claim; another run may have written it.
    checks = [grounding_check(answer_id=each) for each in ("c", "c", "2.0", "t0")]
    output = output_with(
        tmp_path,
        write_rows(tmp_path / "answers" / "a.avro", answers),
        write_rows(tmp_path / "support_chunks" / "a.avro", chunks, "support_chunks"),
        write_rows(tmp_path / "grounding_checks" / "a.avro", checks[:2], "grounding_checks"),
        write_rows(tmp_path / "grounding_checks" / "b.avro", checks[2:], "grounding_checks"),
    )
    names = {row.question_id for row in answers}
    path = note_answered(output, checks=True)
    assert unchecked(path, *names) == {("one", 0): {"1"}, ("two", 0): {"2.1"}, ("talk", 1): {"t1"}}
    assert path is not None
    assert set(found(path, *names)) == names
    # A run that makes no checks misses none.
    Path(path).unlink()
    assert unchecked(note_answered(output), *names) == {}


def test_chunks_that_cannot_be_read_are_one_sentence(tmp_path: Path) -> None:
    broken = write_rows(tmp_path / "support_chunks" / "a.avro", [], "support_chunks")
    broken.write_bytes(b"no Avro")
    output = output_with(tmp_path, write_rows(tmp_path / "answers" / "a.avro", [answer()]), broken)
    with pytest.raises(UsageError, match=r"support_chunks.a\.avro") as raised:
        note_answered(output, checks=True)
    assert is_one_sentence(str(raised.value))
