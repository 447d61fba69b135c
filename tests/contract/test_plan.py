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


def test_a_plan_tells_tokens_searches_and_cost_by_the_prices_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive, prices = tmp_path / "a.jsonl", tmp_path / "prices.json"
    search = [{"google_search_source": {}}]
    records = [{"id": str(n), "question": "x" * 400, "grounding_sources": search} for n in range(9)]
    records.append({"id": "pro", "question": "x" * 400, "generation_spec": {"model_id": "pro"}})
    archive.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    prices.write_text(
        '{"currency": "USD", "models": {"flash": {"prompt": 1000, "answer": 10000, "search": 1}}}'
    )
    flags = [
        *("--service=gemini", "--endpoint=emulator", "--model=flash", f"--input={archive}", "--ledger=none"),
        *(f"--prices={prices}", "--expected_answer_tokens=400", "--json"),
    ]
    assert main(["plan", *flags, "--tokens_per_minute=500"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert (plan["expected_usage"]["total"], plan["expected_usage"]["searches"]) == (10 * 500, 9)
    assert (plan["limited_by"], plan["seconds"]) == ("token_rate", 600)
    assert plan["cost"] == 9 * (0.1 + 4 + 1)
    assert plan["cost_by_prices"]["by_model"] == {"flash": plan["cost"]}
    assert plan["cost_by_prices"]["questions_without_price"] == {"pro": 1}
    # The budget that ends first decides.
    assert main(["plan", *flags, "--max_tokens=2500", "--max_searches=8"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert (plan["calls_within_budget"], plan["budget_flag"]) == (5, "max_tokens")
    assert main(["plan", *flags[:-1], "--price_per_1000_requests=2"]) == 2
    assert "--prices" in capsys.readouterr().err
