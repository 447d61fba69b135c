"""Verdicts come with the rows."""

import json
from contextlib import closing
from datetime import timedelta

import pytest

from groundrows.pipeline.browse.verdicts import Judged, Verdicts
from groundrows.pipeline.commands.export import export
from tests.support.made import NOON, answer
from tests.support.report_runs import write_run

LATER = NOON + timedelta(seconds=1.5)


@pytest.fixture
def run(tmp_path):
    rows = [answer(answer_id=name, answered_at=LATER) for name in "zmabc"]
    return write_run(tmp_path / "run", [*rows, answer(answer_id="a", answered_at=NOON)])


def exported(run, *flags):
    file = run.parent / "rows.jsonl"
    assert export([str(run), f"--output={file}", *flags]) == 0
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_without_a_verdict_the_rows_are_as_they_are(run):
    assert "verdict" not in exported(run)[0]


@pytest.mark.parametrize("flags", [[], ["--flat"]])
def test_verdicts_stand_beside_their_answers(run, flags):
    with closing(Verdicts(str(run))) as verdicts:
        at = int(LATER.timestamp() * 1_000_000)
        first = verdicts.give(Judged("run", "a", at), "right", "", 0)
        verdicts.give(Judged("run", "a", at), "wrong", "=1+1", first.version)
        verdicts.give(Judged("run", "c", at), "", "a note alone", 0)
        verdicts.give(Judged("run", "gone", at), "right", "", 0)
    rows = exported(run, *flags)
    assert [row["answer_id"] for row in rows] == [*"zmabc", "a"]
    said = [(row["verdict"], row["verdict_note"]) for row in rows]
    assert said == [
        (None, None),
        (None, None),
        ("wrong", "=1+1"),
        (None, None),
        (None, "a note alone"),
        (None, None),
    ]
    assert rows[2]["judged_at"] > "2026"
    assert [row["answer_id"] for row in exported(run, *flags, "--where=verdict = 'wrong'")] == ["a"]
