import gc
import json
import math
import os
import re
import shutil
import subprocess
import sys
import webbrowser
from contextlib import closing
from datetime import timedelta
from io import BytesIO
from pathlib import Path

import fastavro
import pytest

from groundrows.pipeline.commands.report import report
from groundrows.pipeline.query.run import opened
from groundrows.schemas.errors import UsageError
from groundrows.schemas.tables import TABLES
from tests.support.cloud import cloud_storage
from tests.support.made import NOON, answer, failure
from tests.support.report_runs import check, chunk, marked_answer, run_json, support, write_run
from tests.support.tools import files_below, is_one_sentence

ROWS = [*marked_answer("q", "It is so.", [("It is", True)], grounding_score=0.5), failure(question_id="f")]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working directory."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def fails(*flags):
    with pytest.raises(UsageError) as raised:
        report([str(flag) for flag in flags])
    said = str(raised.value)
    assert is_one_sentence(said), said
    return said


def test_the_page_is_written_where_one_is(here, tmp_path, capsys):
    directory = write_run(tmp_path / "run", ROWS, calls=4)
    before = files_below(directory)
    assert report([str(directory)]) == 0
    assert files_below(directory) == before
    assert list(files_below(here)) == ["report.html"]
    assert capsys.readouterr().out.startswith("report.html: ")


def test_a_page_that_is_there_is_replaced(here, tmp_path):
    (here / "report.html").write_text("old")
    assert report([str(write_run(tmp_path / "run", ROWS, calls=4))]) == 0
    assert "old" not in (here / "report.html").read_text()[:10]
    assert os.listdir(here) == ["report.html"]


def test_the_figures_of_run_json_are_told(here, tmp_path):
    summary = {
        "records_read": 1_201,
        "answered": 1_100,
        "failed": 99,
        "duplicates": 2,
        "already_answered": 0,
        "calls": 1_234,
        "retries": 56,
        "rate_used": 0.425,
        "checks": {"checked": 5, "failed": 1, "skipped": 2, "calls": 777, "retries": 0},
    }
    directory = write_run(tmp_path / "run", ROWS, **summary)
    assert report([str(directory), "--price_per_1000_requests=2.5"]) == 0
    text = (here / "report.html").read_text()
    for said in (
        "1,201",
        "1,100",
        "1,234",
        "56",
        "42.5 %",
        "3.08",
        "777",
        "1 min 1 s",
        "The count law holds",
    ):
        assert said in text
    assert "NOT" not in text


def test_a_law_that_is_broken_is_told(here, tmp_path):
    assert report([str(write_run(tmp_path / "run", ROWS, balanced=False))]) == 0
    assert "does NOT hold" in (here / "report.html").read_text()


def test_a_failure_comes_with_its_record_and_command(here, tmp_path):
    directory = write_run(
        tmp_path / "run",
        [failure(record=b'{"id": "\xff"}'), failure(failure_id="r", stage="read", code="CUT")],
        calls=1,
    )
    assert report([str(directory)]) == 0
    text = (here / "report.html").read_text()
    assert "{&#34;id&#34;: &#34;\ufffd&#34;}" in text
    assert f"<span>--failures={directory}</span> <span>--codes=UNAVAILABLE</span>" in text
    assert "--codes=CUT" not in text  # what was not read is no record
    assert "There are no answers." in text


def test_a_run_that_was_stopped_is_reported_as_such(here, tmp_path):
    directory = write_run(tmp_path / "run", ROWS)
    (directory / ".run.json").write_text(json.dumps({"run_id": "run"}))
    assert report([str(directory)]) == 0
    text = (here / "report.html").read_text()
    assert "This run was stopped" in text
    assert "count law" not in text
    assert "groundrows replay" not in text


def test_rows_without_any_run_json_are_reported(here, tmp_path):
    assert report([str(write_run(tmp_path / "run", ROWS))]) == 0
    assert "There is no run.json here" in (here / "report.html").read_text()


def test_the_head_of_a_page_begins_with_what_is_known(here, tmp_path):
    assert report([str(write_run(tmp_path / "run", ROWS))]) == 0
    head = (here / "report.html").read_text().partition("<nav")[0]
    assert '<p class="quiet">run <bdi>run</bdi> · page made' in head


def test_one_is_no_plural(here, tmp_path):
    later = NOON + timedelta(hours=1)
    rows = [
        *marked_answer("q", "It is so.", [("It is", True)], grounding_score=0.5),
        check(),
        failure(failure_id="1", question_id="f"),
        failure(failure_id="2", question_id="g", attempts=1),
        answer(answer_id="g", question_id="q", run_id="run", turn_index=1),
    ]
    directory = write_run(tmp_path / "run", rows, records_read=1)
    assert report([str(directory)]) == 0
    text = (here / "report.html").read_text()
    for said in ("to 1 question<", "of 1 check<", "</b> record read", "after 1 call:", "1 claim, 0.5 per"):
        assert said in text, said
    write_run(tmp_path / "since", [*rows, answer(question_id="f", run_id="later", answered_at=later)])
    assert report([str(tmp_path / "since")]) == 0
    assert "1 has been answered since." in (here / "report.html").read_text()


def test_what_can_not_go_well_is_not_offered(here, tmp_path):
    later = NOON + timedelta(hours=1)
    rows = [
        failure(failure_id="1", code="HOPELESS", retryable=False),
        failure(failure_id="2", code="DONE", question_id="x"),
        failure(failure_id="3", code="MIXED", question_id="y"),
        failure(failure_id="4", code="MIXED", question_id="z", retryable=False),
        failure(failure_id="5", code="PARTLY_DONE", question_id="x"),
        failure(failure_id="6", code="PARTLY_DONE", question_id="z", retryable=False),
        answer(question_id="x", run_id="later", answered_at=later),
    ]
    assert report([str(write_run(tmp_path / "run", rows, calls=1))]) == 0
    text = (here / "report.html").read_text()
    assert re.findall(r"--codes=(\w+)</span> <span>(--\w+)", text) == [("MIXED", "--only_retryable")]


def test_checks_without_fault_are_said_to_be(here, tmp_path):
    assert report([str(write_run(tmp_path / "run", [check(support_score=1.0)], calls=1))]) == 0
    text = (here / "report.html").read_text()
    assert "None: no check has a score below 1." in text
    assert "There are no answers" not in text


def test_none_shown_is_not_none_at_fault(here, tmp_path):
    assert report([str(write_run(tmp_path / "run", ROWS, calls=1)), "--answers=0"]) == 0
    text = (here / "report.html").read_text()
    assert "1 answer; none is shown" in text
    assert "None: every answer" not in text


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_figures_that_are_none_cost_no_report(here, tmp_path, value):
    figures = {"grounding_score": value, "support_coverage": value, "latency_ms": value}
    rows = [
        answer(**figures, first_part_ms=value, warnings=("Odd.",), claim_count=1),
        support(support_score=value),
        chunk(),
        check(support_score=value, claim_score=value, latency_ms=value),
    ]
    directory = write_run(tmp_path / "run", rows, calls=1)
    assert report([str(directory), str(directory)]) == 0
    checks = write_run(tmp_path / "checks", [check(support_score=0.5, claim_score=value, latency_ms=value)])
    assert report([str(checks)]) == 0


@pytest.mark.parametrize("flags", [["gs://x/y"], ["out", "gs://x/y"], ["out", "-o", "gs://x/y.html"]])
def test_without_credentials_nothing_is_looked_for_on_cloud_storage(here, tmp_path, monkeypatch, flags):
    for name in ("STORAGE_EMULATOR_HOST", "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    assert "No credentials for Google Cloud" in fails(*flags)


def test_stdout_is_for_the_result_alone(tmp_path):
    with closing(opened(str(tmp_path))) as db:
        assert db.execute("SELECT current_setting('enable_progress_bar')").fetchone() == (False,)


def test_rows_of_several_runs_are_said_to_be(here, tmp_path):
    rows = [*ROWS, answer(run_id="earlier", answer_id="old")]
    assert report([str(write_run(tmp_path / "run", rows, calls=4))]) == 0
    assert "2 runs wrote these rows" in (here / "report.html").read_text()


def test_two_runs_are_compared(here, tmp_path):
    earlier = write_run(
        tmp_path / "earlier", marked_answer("q", "It was so.", [("It was", True)], grounding_score=0.25)
    )
    directory = write_run(tmp_path / "run", ROWS, calls=4)
    assert report([str(directory), str(earlier)]) == 0
    text = (here / "report.html").read_text()
    assert "Compared with an earlier run" in text
    assert "score 0.25 → <b>0.50</b>" in text
    assert "It was so." in re.sub("</?(?:ins|del)>", "", text)
    assert "It <del>was</del> so." in text
    assert "It <ins>is</ins> so." in text
    assert "Asked before" not in text


def test_a_run_of_checks_is_reported(here, tmp_path):
    directory = write_run(tmp_path / "run", [check(answer_text="Because.", support_score=0.31)], calls=1)
    assert report([str(directory)]) == 0
    text = (here / "report.html").read_text()
    assert "Grounding checks" in text
    assert "check <b>0.31</b>" in text
    assert "Because." in text


def test_files_of_an_older_version_are_read(here, tmp_path):
    """Their tables lack a column, and one of the tables."""
    directory = write_run(tmp_path / "run", ROWS, calls=4)
    schema = json.loads(json.dumps(TABLES["answers"].schema))
    schema["fields"] = [each for each in schema["fields"] if each["name"] != "first_part_ms"]
    (path,) = (directory / "answers").iterdir()
    rows = list(fastavro.reader(BytesIO(path.read_bytes())))
    with path.open("wb") as file:
        fastavro.writer(file, schema, rows)
    assert report([str(directory)]) == 0
    assert "claim supported" in (here / "report.html").read_text()


def test_a_run_on_cloud_storage_is_reported_onto_cloud_storage(here, tmp_path):
    directory = write_run(tmp_path / "run", ROWS, calls=4_321)
    with cloud_storage(tmp_path / "objects") as storage:
        for name, data in files_below(directory).items():
            storage.put(f"out/{name}", data)
        assert report([storage.url("out/"), "-o", storage.url("pages", "report.html")]) == 0
        text = storage.get("pages/report.html").decode()
        assert "4,321" in text
        assert 'class="claim supported"' in text
        assert len(storage.names()) == len(files_below(directory)) + 1
        said = fails(storage.url("nothing"))
        assert "holds no rows" in said
        assert "can't be written" in fails(storage.url("out"), "-o", "gs://no-such-bucket-here/report.html")
        # A writer that failed tries once more when it is collected: for minutes, if nobody answered by then.
        gc.collect()


def test_what_is_wrong_is_said_in_a_sentence(here, tmp_path):
    assert "There is no directory" in fails(tmp_path / "nowhere")
    file = tmp_path / "file"
    file.write_text("")
    assert "is not a directory" in fails(file)
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "holds no rows" in fails(empty)
    (empty / ".run.json").write_text("{}")
    assert "run its command again to continue it" in fails(empty)
    (empty / "run.json").write_text(json.dumps(run_json()))
    assert "holds no rows" in fails(empty)
    run = write_run(tmp_path / "run", ROWS, calls=4)
    assert "There is no directory" in fails(run, tmp_path / "nowhere")
    assert "there is no directory" in fails(run, "-o", tmp_path / "no" / "report.html")
    (here / "folder.html").mkdir()
    assert "it is a directory" in fails(run, "-o", "folder.html")
    assert list(files_below(here)) == []


def test_files_that_are_broken_are_named(here, tmp_path):
    whole = write_run(tmp_path / "run", ROWS, calls=4)
    for table in ("answers", "support_chunks", "claim_supports", "failures"):
        for data in (b"", b"Obj\x01", None):
            directory = tmp_path / "broken"
            shutil.copytree(whole, directory)
            (path,) = (directory / table).iterdir()
            path.write_bytes(path.read_bytes()[:-20] if data is None else data)
            assert str(path) in fails(directory)
            shutil.rmtree(directory)
    (whole / "run.json").write_text("[]")
    assert "run.json" in fails(whole)
    for data in (b"{", b"\xff", b"[" * 100_000):
        (whole / "run.json").write_bytes(data)
        said = fails(whole)
        assert f"{whole}/run.json can't be read" in said
        assert "move it away" in said
    assert list(files_below(here)) == []


def test_nothing_is_left_behind(here, tmp_path, monkeypatch):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    run = write_run(tmp_path / "run", ROWS, calls=4)
    assert report([str(run)]) == 0
    fails(run, tmp_path / "nowhere")
    assert list(scratch.iterdir()) == []


def test_a_directory_with_an_odd_name(here, tmp_path):
    directory = Path(os.fsdecode(os.fsencode(tmp_path) + b"/it's [1] <b>\xff {x}"))
    write_run(directory, ROWS, calls=4)
    assert report([str(directory), "-o", "odd name's.html"]) == 0
    text = (here / "odd name's.html").read_text()
    assert "<b>\\" not in text
    assert "[1] &lt;b&gt;\\udcff {x}" in text


# Each takes longer to import than a small report takes in all.
LOADED = """
import sys
from groundrows.pipeline.cli import main
assert main(["report", sys.argv[1]]) == 0
print(*sorted({"apache_beam", "google.auth", "google.api_core", "grpc"} & set(sys.modules)))
"""


def test_a_report_of_a_local_directory_loads_no_beam(here, tmp_path):
    directory = write_run(tmp_path / "run", ROWS, calls=4)
    command = [sys.executable, "-c", LOADED, str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1:] == [""]


def test_another_question_is_shown_beside_the_old_one_whole(here, tmp_path):
    long = "Who keeps the light, " * 40
    old, new = f"{long} and since when?", f"{long} and for whom?"
    earlier = write_run(
        tmp_path / "earlier",
        [answer(question_id="q", question=old, answer_text="No."), answer(question_id="f", question=old)],
    )
    rows = [answer(question_id="q", question=new, answer_text="Yes."), failure(question_id="f")]
    assert report([str(write_run(tmp_path / "run", rows)), str(earlier)]) == 0
    text = (here / "report.html").read_text()
    assert f"<bdi>{old}</bdi>" in text  # among the newly failing
    assert "<del>since</del> <del>when</del>" in text
    assert "<ins>for</ins> <ins>whom</ins>" in text
    assert "another question" in text


def test_the_first_facts(here, tmp_path):
    nothing = "The sources hold nothing about that."
    rows = [
        answer(question_id="1", answer_id="1", answer_text=nothing, chunk_count=0),
        answer(question_id="2", answer_id="2", answer_text=nothing, chunk_count=0),
        answer(question_id="2", answer_id="3", turn_index=1, answer_text="<b>Else</b>", chunk_count=2),
        answer(
            question_id="2", answer_id="4", turn_index=1, candidate_index=1, answer_text="", chunk_count=1
        ),
    ]
    cost = {"total": 1.25, "currency": "EUR", "by_model": {}, "questions_without_price": {"m": 3}}
    assert report([str(write_run(tmp_path / "run", rows, failed=0, cost=cost))]) == 0
    text = " ".join((here / "report.html").read_text().split())
    for name, value, note in (
        ("answers", "4", "to 2 questions"),
        ("answers without any source", "2", "50 % of the answers"),
        ("identical answers", "2", "same text for different questions; one text 2 times"),
        ("cost", "1.2500 EUR", "of 1 run, by the prices given; without a price: 3 questions to m"),
    ):
        assert f'<dt>{name}</dt> <dd>{value}<span class="note">{note}</span></dd>' in text
    assert "2 questions have 3 turns with an answer here." in text
    assert f"<b>2</b> times: <bdi>{nothing}</bdi>" in text
    assert '<span class="term"><b>0</b> failed</span>' in text
    assert 'class="term failed"' not in text


def test_answers_are_compared_with_their_references(here, tmp_path):
    def told(number, text, supported, contained, f1):
        return answer(
            question_id=number,
            answer_id=number,
            question=f"Question {number}?",
            answer_text=text,
            supported_claim_count=supported,
            reference_answers=("Right <one>", "Other"),
            reference_exact=f1 == 1,
            reference_contained=contained,
            reference_f1=f1,
        )

    rows = [
        told("1", "Right one", 1, True, 1.0),
        told("2", "Supported nonsense", 2, False, 0.0),
        told("3", "It is the right one.", 0, True, 0.5),
        told("4", "Nonsense", 0, False, 0.0),
        answer(question_id="5", answer_id="5"),
    ]
    assert report([str(write_run(tmp_path / "run", rows, calls=4))]) == 0
    text = " ".join((here / "report.html").read_text().split())
    assert (
        '<dt>accuracy</dt> <dd>50 %<span class="note">contain a reference answer; 1 equal one</span>' in text
    )
    assert "<dt>supported and wrong</dt> <dd>1</dd>" in text
    assert "<dt>right and unsupported</dt> <dd>1</dd>" in text
    assert "<dt>mean F1</dt> <dd>0.38" in text
    assert "4 answers have a reference answer" in text
    place = text.index("<h3>Supported and wrong</h3>")
    assert place < text.index("Supported nonsense", place) < text.index("Right &lt;one&gt;", place)
    assert place < text.index("<h3>Right and unsupported</h3>") < text.index("It is the right one.")
    assert "&#39;--where=supported_claim_count &gt; 0 AND NOT reference_contained&#39;" in text


def test_without_references_accuracy_is_not_spoken_of(here, tmp_path):
    assert report([str(write_run(tmp_path / "run", ROWS, calls=4))]) == 0
    text = (here / "report.html").read_text()
    assert "accuracy" not in text
    assert 'id="references"' not in text


def test_a_browser_opens_the_page(here, tmp_path, monkeypatch, capsys):
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda uri: opened.append(uri) or len(opened) == 1)
    directory = str(write_run(tmp_path / "run", ROWS, calls=4))
    assert report([directory, "--open", "-o", "a page.html"]) == 0
    assert opened == [(here / "a page.html").as_uri()]
    assert capsys.readouterr().err == ""
    assert report([directory, "--open"]) == 0
    assert is_one_sentence(capsys.readouterr().err)
    assert "--open" in fails(directory, "--open", "-o", "gs://bucket/page.html")
