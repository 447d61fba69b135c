"""The same questions by every way there is to ask them, and conversations under faults."""

import json
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

import pytest

from groundrows.pipeline.emulator.process import running_emulator
from tests.support.runs import OF_A_RUN, calls, comparable, rows, run, summary, write_lines

METALS = ("tin", "lead", "zinc", "iron", "gold")
FACTS = {
    "tin": ["Tin melts at 232 degrees. 🙂 It is soft.", "Tin is mined in Bolivia and Malaysia."],
    "lead": ["Lead melts at 327 degrees.", "Lead is dense. Lead is toxic to people."],
    "zinc": ["Zinc melts at 420 degrees.", "Zinc protects steel from rust. 亜鉛は鉄を守る。"],
    "iron": ["Iron melts at 1538 degrees.", "Iron rusts in damp air."],
    # More than one candidate tells.
    "gold": [
        f"Gold melts {when}." for when in ("at 1064 degrees", "before iron", "after tin", "in a furnace")
    ],
}
GOOGLE = {"google_search_source": {}}
DYNAMIC = {"google_search_source": {"dynamic_retrieval_config": {"predictor": {"threshold": 0.5}}}}
SEARCH = {
    "search_source": {
        "serving_config": "projects/p/locations/global/collections/c/engines/e/servingConfigs/s",
        "max_result_count": 5,
    }
}
# What only one way of asking says: when parts came, and the scores that a stream leaves out.
OF_A_WAY = ("streamed", "first_part_ms", "grounding_score", "support_score", "claim_score")


def question(number: int) -> dict[str, Any]:
    metal = METALS[number % len(METALS)]
    record: dict[str, Any] = {
        "id": f"q{number}",
        "question": f"When does {metal} melt, and what is known of it? ({number})",
    }
    kind = number % 5
    if kind == 0:
        record["facts"] = FACTS[metal]
    elif kind == 1:
        record["facts"] = [{"fact_text": text, "attributes": {"source": metal}} for text in FACTS[metal]]
        record["grounding_sources"] = [SEARCH]
    elif kind == 2:
        record["grounding_sources"] = [GOOGLE]
        record["question"] = f"Who painted The Starry Night? ({number})"
    elif kind == 3:
        record["grounding_sources"] = [DYNAMIC]
        record["question"] = f"Where does the Danube end? ({number})"
    else:
        # Short, so that more than one sentence fits as well, and the second candidate tells another one.
        del record["question"]
        record["turns"] = [f"When does {metal} melt?", f"And where is it found? ({number})"]
        record["facts"] = FACTS[metal]
        record["system_instruction"] = "Be brief."
    return record


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("whole_api")


@pytest.fixture(scope="module")
def emulator():
    with running_emulator("--port=0", "--rest_port=0", "--candidates=2") as process:
        yield process


@pytest.fixture(scope="module")
def archive(folder) -> Path:
    return write_lines(folder / "questions.jsonl", map(question, range(500)))


@pytest.fixture(scope="module")
def asked(folder, emulator, archive):
    """Asks the archive in a way; the run's directory."""
    made: dict[tuple[str, ...], Path] = {}

    def ask(*flags: str) -> Path:
        if flags not in made:
            output = folder / f"run{len(made)}"
            address = emulator.rest_address if "--transport=rest" in flags else emulator.address
            run(
                "--service=emulator",
                f"--endpoint={address}",
                f"--input={archive}",
                f"--output={output}",
                "--check_grounding",
                "--keep_response",
                *flags,
            )
            figures = summary(output)
            assert figures["balanced"]
            assert (figures["records_read"], figures["answered"]) == (500, 500)
            made[flags] = output
        return made[flags]

    return ask


def rows_as_asked(output: Path, *also_without: str) -> dict[str, list[str]]:
    return comparable(output, without={*OF_A_RUN, "checked_at", "first_part_ms", *also_without})


def test_there_is_something_to_compare(asked):
    output = asked()
    counts = summary(output)["rows"]
    assert counts["answers"] == 2 * 600  # every fifth question has two turns, every turn two candidates
    assert counts["support_chunks"] > 300
    assert counts["claim_supports"] > 300
    assert counts["grounding_checks"] > 300
    assert any(row["grounding_score"] is not None for row in rows(output, "answers"))
    assert {row["streamed"] for row in rows(output, "answers")} == {False}
    for table in ("answers", "support_chunks", "claim_supports", "grounding_checks"):
        assert {row["candidate_index"] for row in rows(output, table)} == {0, 1}


def test_a_history_holds_candidate_0_by_whichever_way_it_came(asked):
    for flags in ((), ("--stream_answers",), ("--transport=rest",), ("--transport=rest", "--stream_answers")):
        said = defaultdict(dict)
        histories = {}
        for row in rows(asked(*flags), "answers"):
            if row["turn_index"] == 0:
                said[row["question_id"]][row["candidate_index"]] = row["answer_text"]
            else:
                _, model, _ = json.loads(row["request_json"])["contents"]
                histories[row["question_id"]] = "".join(part["text"] for part in model["parts"])
        assert len(histories) == 100
        assert all(said[question_id][0] == text for question_id, text in histories.items())
        assert any(said[question_id].get(1, text) != text for question_id, text in histories.items())


@pytest.mark.parametrize("flags", [(), ("--stream_answers",)], ids=["unary", "streamed"])
def test_grpc_and_rest_give_the_same_rows(asked, flags):
    assert rows_as_asked(asked(*flags)) == rows_as_asked(asked("--transport=rest", *flags))


@pytest.mark.parametrize("transport", [(), ("--transport=rest",)], ids=["grpc", "rest"])
def test_streamed_and_unary_answers_give_the_same_rows(asked, transport):
    def stripped(output: Path) -> dict[str, list[str]]:
        # A streamed claim has the white space behind it, and the responses themselves are in other words.
        without = {*OF_A_RUN, *OF_A_WAY, "checked_at", "response_json", "index_in_stream"}
        return {
            table: sorted(
                repr(
                    {
                        name: value.strip() if name == "claim_text" and value else value
                        for name, value in row.items()
                        if name not in without
                    }
                )
                for row in rows(output, table)
            )
            for table in summary(output)["rows"]
        }

    unary, streamed = asked(*transport), asked(*transport, "--stream_answers")
    assert stripped(unary) == stripped(streamed)
    answers = rows(streamed, "answers")
    assert {row["streamed"] for row in answers} == {True}
    assert all(0 <= row["first_part_ms"] <= row["latency_ms"] for row in answers)
    assert all(row["first_part_ms"] is None for row in rows(unary, "answers"))
    assert all(row["grounding_score"] is None for row in answers)


def test_v1alpha_gives_v1s_rows(asked):
    alpha = rows_as_asked(asked("--transport=rest", "--api_version=v1alpha"), "api_version", *IDS)
    assert alpha == rows_as_asked(asked("--transport=rest"), "api_version", *IDS)


# They are derived from the version too.
IDS = ("answer_id", "check_id")


def test_a_user_context_goes_out_over_rest_alone(folder):
    record = {
        "question": "Who painted The Starry Night?",
        "grounding_sources": [GOOGLE],
        "user_context": {"languageCode": "en", "latLng": {"latitude": 1.5, "longitude": 2.5}},
    }
    archive = write_lines(folder / "context.jsonl", [record])
    log = folder / "context.log"
    flags = ["--service=emulator", f"--input={archive}", f"--emulator_flags=--call_log={log}"]
    run(*flags, "--transport=rest", f"--output={folder / 'with'}")
    run(*flags, "--transport=rest", "--stream_answers", f"--output={folder / 'streamed'}")
    run(*flags, "--transport=rest", "--api_version=v1alpha", f"--output={folder / 'alpha'}")
    arrived = calls(log)
    assert len(arrived) == 3
    for call, output in zip(arrived, ("with", "streamed", "alpha"), strict=True):
        assert call["user_context"] == record["user_context"]
        (answer,) = rows(folder / output, "answers")
        assert json.loads(answer["request_json"])["userContext"] == record["user_context"]
    run(*flags, f"--output={folder / 'without'}", code=3)
    (failure,) = rows(folder / "without", "failures")
    assert (failure["code"], failure["stage"]) == ("NEEDS_REST", "validate")
    assert len(calls(log)) == 3


def conversations(count: int, seed: int) -> list[dict[str, object]]:
    draw = Random(seed)
    return [
        {
            "id": f"c{number}",
            "turns": [f"conversation {number} turn {turn} on tin" for turn in range(draw.randint(1, 6))],
            "facts": FACTS["tin"],
            "system_instruction": "Be brief.",
        }
        for number in range(count)
    ]


@pytest.mark.parametrize("flags", [(), ("--transport=rest", "--stream_answers")], ids=["grpc", "rest_stream"])
def test_conversations_under_faults(folder, flags):
    records = conversations(200, seed=len(flags))
    archive = write_lines(folder / f"conversations{len(flags)}.jsonl", records)
    output, log = folder / f"conversations{len(flags)}", folder / f"conversations{len(flags)}.log"
    faults = f"--faults=all:0.1 --seed=7 --call_log={log}"
    run(
        "--service=emulator",
        f"--input={archive}",
        f"--output={output}",
        f"--emulator_flags={faults}",
        "--deadline_seconds=1",
        *flags,
    )
    figures = summary(output)
    assert figures["balanced"]
    assert figures["answered"] + figures["failed"] == 200
    assert figures["retries"] > 20
    turns_answered = defaultdict(list)
    for row in rows(output, "answers"):
        if row["candidate_index"] == 0:
            turns_answered[row["question_id"]].append(row["turn_index"])
    failures = {row["question_id"]: row for row in rows(output, "failures")}
    assert 0 < len(failures) == figures["failed"]
    for record in records:
        answered = sorted(turns_answered[record["id"]])
        failure = failures.get(record["id"])
        # Every turn before the one that failed has its answer, and none after it has anything.
        reached = len(record["turns"]) if failure is None else failure["turn_index"]
        assert answered == list(range(reached))
    # A turn is never asked before the one before it was answered well, nor after the one behind it.
    reached = defaultdict(int)
    good = defaultdict(set)
    for call in calls(log):
        _, number, _, turn, *_ = call["prompt"].split()
        assert int(turn) == call["turn"] - 1
        assert int(turn) >= reached[number]
        assert all(earlier in good[number] for earlier in range(int(turn)))
        reached[number] = int(turn)
        if call["code"] == "OK":
            good[number].add(int(turn))
