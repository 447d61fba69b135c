"""Checks that are missing are made by a later run into the same output, and no answer is paid for twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from groundrows.pipeline.emulator.process import running_emulator
from tests.support.runs import calls, rows, summary, write_lines
from tests.support.tools import Groundrows

METALS = ("tin", "iron", "gold", "lead", "zinc", "silver", "copper", "nickel")
FACTS = [
    {"fact_text": f"{metal.capitalize()} melts at {231 + number} degrees."}
    for number, metal in enumerate(METALS)
]


@pytest.fixture
def groundrows(capsys: pytest.CaptureFixture[str]) -> Groundrows:
    return Groundrows(capsys, "--service=emulator", "--quiet")


def archive(folder: Path, count: int = 60) -> Path:
    """Questions with facts, every third of them a conversation, and a broken record."""
    records: list[Any] = []
    for number in range(count):
        metal = METALS[number % len(METALS)]
        turns = [f"When does {metal} melt, {number}?", f"Does {metal} melt at {number} degrees?"]
        records.append({"id": f"q{number}", "turns": turns[: 1 + (number % 3 == 0)], "facts": FACTS})
    return write_lines(folder / "questions.jsonl", [*records, b"no JSON"])


def law_holds(said: dict[str, Any]) -> bool:
    outcomes = said["answered"] + said["failed"] + said["duplicates"] + said["already_answered"]
    failures = said["failed"] + said["checks"]["failed"]
    return said["balanced"] and said["records_read"] == outcomes and said["rows"]["failures"] == failures


def to_be_checked(output: Path) -> set[str]:
    """The answers that there is something to check of."""
    quoting = {row["answer_id"] for row in rows(output, "support_chunks") if row["chunk_text"].strip()}
    return {row["answer_id"] for row in rows(output, "answers") if row["answer_text"].strip()} & quoting


def checked(output: Path) -> Counter[str]:
    """How often each answer was checked: the first row of a check bears its request."""
    return Counter(row["answer_id"] for row in rows(output, "grounding_checks") if row["request_json"])


def answered(output: Path) -> Counter[str]:
    return Counter(row["answer_id"] for row in rows(output, "answers"))


def paid(log: Path, method: str) -> Counter[tuple[str, int]]:
    """The calls of a method that were answered, by what they asked."""
    return Counter(
        (call["prompt"], call["turn"])
        for call in calls(log)
        if call["method"].startswith(method) and call["code"] == "OK"
    )


@pytest.mark.parametrize("checks_from_the_start", [True, False])
def test_replayed_until_nothing_is_open(
    groundrows: Groundrows, tmp_path: Path, checks_from_the_start: bool
) -> None:
    log, output = tmp_path / "calls.jsonl", tmp_path / "out"
    faults = ("--port=0", "--faults=unavailable:0.3", "--seed=5", f"--call_log={log}")
    with running_emulator(*faults) as emulator:
        always = (f"--endpoint={emulator.address}", f"--output={output}")
        once = (*always, "--max_attempts=1", "--max_failure_share=1")
        first = ("--check_grounding",) if checks_from_the_start else ()
        groundrows("run", *once, f"--input={archive(tmp_path)}", *first)
        stages = Counter(row["stage"] for row in rows(output, "failures"))
        assert stages["generate"] > 10
        assert (stages["check"] > 5) is checks_from_the_start
        again = (*once, "--append", "--check_grounding")
        replayed = []
        if not checks_from_the_start:
            # A replay goes by the failures, and those that were never made are none.
            groundrows("run", *again, f"--input={archive(tmp_path)}")
            said = summary(output)
            assert law_holds(said)
            assert said["already_answered"] > 20
            assert said["checks"]["checked"] > 20
        for _ in range(20):
            before = summary(output)["run_id"]
            groundrows("replay", *again, f"--failures={output}", "--only_retryable")
            said = summary(output)
            assert law_holds(said)
            assert set(checked(output).values()) == {1}
            # A replay that finds nothing leaves the last run's summary where it is.
            replayed.append(said["replay"]["replayed"] if said["run_id"] != before else 0)
            if not replayed[-1]:
                break
        assert len(replayed) > 3
        assert replayed == sorted(replayed, reverse=True)
        assert replayed[-1] == 0
        before = len(calls(log))
        groundrows("run", *again, f"--input={archive(tmp_path)}")
        said = summary(output)
        assert law_holds(said)
        assert (said["already_answered"], said["checks"]["calls"]) == (60, 0)
        assert len(calls(log)) == before
    assert len(answered(output)) == 80
    assert set(answered(output).values()) == {1}
    assert to_be_checked(output) == set(checked(output))
    assert len(checked(output)) > 60
    assert set(paid(log, "Generate").values()) == {1}
    assert len(paid(log, "Generate")) == 80
    assert sum(paid(log, "Check").values()) == len(checked(output))


def test_an_output_made_without_checks_gets_them(
    groundrows: Groundrows, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log, output = tmp_path / "calls.jsonl", tmp_path / "out"
    with running_emulator("--port=0", f"--call_log={log}") as emulator:
        flags = (
            f"--endpoint={emulator.address}",
            f"--input={archive(tmp_path)}",
            f"--output={output}",
        )
        groundrows("run", *flags)
        before = answered(output)
        assert not checked(output)
        # Without the ledger there is nothing to check, and nothing is paid for again.
        groundrows("run", *flags, "--append", "--check_grounding", "--ledger=none")
        missing = len(to_be_checked(output))
        assert [said[: said.index("in the output")] for said in caplog.messages] == [f"{missing} answer(s) "]
        caplog.clear()
        assert not checked(output)
        assert (summary(output)["checks"]["calls"], law_holds(summary(output))) == (0, True)

        groundrows("run", *flags, "--append", "--check_grounding")
        assert caplog.messages == []
        figures = summary(output)
        assert law_holds(figures)
        assert (figures["already_answered"], figures["failed"], figures["calls"]) == (60, 1, 0)
        assert figures["checks"]["checked"] == figures["checks"]["calls"] == missing > 60
        assert checked(output) == dict.fromkeys(to_be_checked(output), 1)

        groundrows("run", *flags, "--append", "--check_grounding")
        assert summary(output)["checks"]["calls"] == 0
        assert checked(output) == dict.fromkeys(to_be_checked(output), 1)
    assert answered(output) == before
    assert set(paid(log, "Generate").values()) == {1}


def test_failed_checks_of_answers_that_came_as_records_are_made_good(
    groundrows: Groundrows, tmp_path: Path
) -> None:
    # A run of checks alone takes no --append, so each replay writes into a directory of its own.
    records = [
        {"id": f"a{number}", "answer": f"Tin melts, {number}.", "facts": FACTS} for number in range(30)
    ]
    source = write_lines(tmp_path / "answers.jsonl", records)
    with running_emulator("--port=0", "--faults=unavailable:0.4", "--seed=3") as emulator:
        flags = (
            f"--endpoint={emulator.address}",
            "--mode=check",
            "--max_attempts=1",
            "--max_failure_share=1",
        )
        outputs = [tmp_path / "out0"]
        groundrows("run", *flags, f"--input={source}", f"--output={outputs[0]}")
        while len(outputs) < 20:
            failures = ",".join(map(str, outputs))
            outputs.append(tmp_path / f"out{len(outputs)}")
            groundrows("replay", *flags, f"--failures={failures}", f"--output={outputs[-1]}")
            if not summary(outputs[-1])["replay"]["replayed"]:
                break
    assert summary(outputs[-1])["replay"]["left_out"]["answered_since"] > 5
    made: Counter[str] = sum((checked(output) for output in outputs), Counter())
    assert len(made) == 30
    assert set(made.values()) == {1}
