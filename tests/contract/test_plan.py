"""`groundrows plan` over the whole API: answers to be checked, and what tells two requests apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from groundrows.pipeline.cli import main
from groundrows.pipeline.run.survey import Surveyor
from groundrows.schemas.question import RecordSettings
from groundrows.schemas.record import Record
from groundrows.transforms.generate.ledger.memory import MemoryLedger
from groundrows.transforms.generate.settings import CallSettings


def test_a_plan_counts_answers_to_be_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = tmp_path / "answers.jsonl"
    records = [
        {"answer": "Tin melts.", "facts": ["abc"]},
        {"answer": ""},
        {"answer": "So.", "question": "Why?"},
    ]
    archive.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert main(["plan", "--service=emulator", "--mode=check", f"--input={archive}", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert (plan["records"], plan["questions"], plan["calls"], plan["invalid"]) == (3, 1, 1, 2)
    assert plan["characters"] == len("Tin melts.") + len("abc")
    assert {reason["code"] for reason in plan["invalid_by_code"]} == {"BLANK_ANSWER", "NO_FACTS"}


@pytest.mark.parametrize(
    ("differing", "calls"),
    [
        ([{"turns": ["Why?", "How?"]}, {"turns": ["Why?", "How?"]}], 2),
        (
            [
                {"turns": ["Why?", "How?"]},
                {"turns": ["Why?", {"text": "How?", "system_instruction": "Rhyme."}]},
            ],
            3,
        ),
        ([{"question": "Why?", "user_context": {"languageCode": code}} for code in ("fr", "fr")], 1),
        ([{"question": "Why?", "user_context": {"languageCode": code}} for code in ("fr", "it")], 2),
    ],
)
def test_requests_are_shared_only_when_all_of_them_is_equal(
    differing: list[dict[str, Any]], calls: int
) -> None:
    settings = CallSettings("", False, "projects/p/locations/global", "v1", "plan", share_identical=True)
    surveyor = Surveyor(RecordSettings(transport="rest"), settings, MemoryLedger(), MemoryLedger(), None)
    surveyor.read(
        Record(json.dumps({"id": number, **fields}).encode(), f"a:{number}")
        for number, fields in enumerate(differing)
    )
    assert (surveyor.found.questions, surveyor.found.calls) == (2, calls)
