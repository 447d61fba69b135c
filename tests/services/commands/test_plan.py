"""`groundrows plan` beside what a run with the same flags then does."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundrows.pipeline.emulator.process import running_emulator
from groundrows.pipeline.run.survey import Surveyor
from groundrows.schemas.discoveryengine.messages import request_class
from groundrows.schemas.discoveryengine.request import text_characters
from groundrows.schemas.question import RecordSettings
from groundrows.schemas.record import Record
from groundrows.transforms.generate.ledger.memory import MemoryLedger
from groundrows.transforms.generate.settings import CallSettings
from tests.support.bad_records import BAD_RECORDS
from tests.support.tools import Groundrows, files_below, is_one_sentence, prompts_of, run_json, write_lines

RECORDS: list[object] = [
    {"id": "tin", "question": "When does tin melt?"},
    {"id": "talk", "turns": ["Who was Ada Lovelace?", "When was she born?", "And where?"]},
    b"no JSON",
    {"id": "tin", "question": "When does tin melt?"},
    {"id": "tin too", "question": "When does tin melt?"},
    {"id": "tin", "question": "When does tin boil?"},
    {"qestion": "Why?"},
    b"no JSON either",
    {"id": "lead", "question": "When does lead melt?", "system_instruction": "Answer briefly."},
]


@pytest.fixture(scope="module")
def call_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plan") / "calls.jsonl"


@pytest.fixture(scope="module")
def address(call_log: Path) -> Iterator[str]:
    with running_emulator("--port=0", "--answers=canned", f"--call_log={call_log}") as emulator:
        yield emulator.address


@pytest.fixture
def groundrows(capsys: pytest.CaptureFixture[str], address: str) -> Groundrows:
    return Groundrows(capsys, "--service=emulator", f"--endpoint={address}")


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "archive.jsonl", RECORDS)


@pytest.mark.parametrize("more", [[], ["--share_identical"]], ids=["by id", "identical shared"])
def test_a_run_does_what_the_plan_said(
    groundrows: Groundrows, archive: Path, tmp_path: Path, more: list[str]
) -> None:
    flags = [f"--input={archive}", f"--output={tmp_path / 'out'}", *more]
    plan = groundrows("plan", *flags, "--json").json
    assert groundrows("run", *flags, "--quiet").code == 0
    ran = run_json(tmp_path / "out")
    assert (plan["records"], plan["questions"], plan["invalid"], plan["duplicates"]) == (9, 5, 3, 1)
    assert plan["turns"] == 7
    assert plan["calls"] == 7 - plan["turns_shared"] == (6 if more else 7)
    assert plan["records"] == ran["records_read"]
    assert plan["questions"] == ran["answered"]
    assert plan["invalid"] == ran["failed"]
    assert plan["duplicates"] == ran["duplicates"]
    assert plan["calls"] == ran["calls"]

    again = groundrows("plan", *flags, "--json").json
    assert (again["turns"], again["turns_in_ledger"], again["calls"]) == (7, 7, 0)
    assert (again["seconds"], again["limited_by"], again["largest_request"]) == (0, None, None)
    # Settings that change the request ask again.
    elsewhere = groundrows("plan", *flags, "--location=projects/other/locations/global", "--json").json
    assert (elsewhere["turns_in_ledger"], elsewhere["calls"]) == (0, plan["calls"])


def test_an_archive_that_grew_is_planned_as_append_will_ask_it(
    groundrows: Groundrows, archive: Path, tmp_path: Path
) -> None:
    flags = [f"--input={archive}", f"--output={tmp_path / 'out'}", "--ledger=none"]
    assert groundrows("run", *flags, "--quiet").code == 0
    write_lines(archive, [*RECORDS, {"id": "new", "turns": ["Why is the sky blue?", "And grass?"]}])
    plan = groundrows("plan", *flags, "--append", "--json").json
    assert groundrows("run", *flags, "--append", "--quiet").code == 0
    ran = run_json(tmp_path / "out")
    assert plan["already_answered"] == ran["already_answered"] == 5
    assert plan["duplicates"] == ran["duplicates"] == 1
    assert plan["calls"] == ran["calls"] == 2
    assert groundrows("plan", *flags, "--overwrite", "--json").json["already_answered"] == 0


def test_missing_checks_are_planned_as_append_will_make_them(
    groundrows: Groundrows, archive: Path, tmp_path: Path
) -> None:
    flags = [f"--input={archive}", f"--output={tmp_path / 'out'}"]
    assert groundrows("run", *flags, "--quiet").code == 0
    again = [*flags, "--append", "--check_grounding"]
    plan = groundrows("plan", *again, "--json").json
    assert groundrows("run", *again, "--quiet").code == 0
    made = run_json(tmp_path / "out")["checks"]["calls"]
    assert plan["checks"] == made > 0
    assert groundrows("plan", *again, "--json").json["checks"] == 0


def test_it_calls_nothing_and_leaves_nothing_behind(
    groundrows: Groundrows, archive: Path, tmp_path: Path, call_log: Path
) -> None:
    before = files_below(tmp_path), prompts_of(call_log)
    ledger = tmp_path / "ledgers" / "none.sqlite"
    assert groundrows("plan", f"--input={archive}", f"--ledger=sqlite://{ledger}").code == 0
    assert groundrows("plan", f"--input={archive}", f"--output={tmp_path / 'out'}").code == 0
    assert (files_below(tmp_path), prompts_of(call_log)) == before


def test_a_conversation_is_in_the_ledger_up_to_its_first_missing_turn(
    groundrows: Groundrows, tmp_path: Path
) -> None:
    turns = ["Who was Ada Lovelace?", "When was she born?", "And where?"]
    archive = write_lines(tmp_path / "talk.jsonl", [{"id": "talk", "turns": turns}])
    flags = [f"--input={archive}", f"--ledger=sqlite://{tmp_path / 'ledger.sqlite'}"]
    fresh = groundrows("plan", *flags, "--json").json
    assert (fresh["turns_in_ledger"], fresh["calls"]) == (0, 3)
    # Each request says everything before it again; the answers to come are not known.
    first, second, third = map(len, turns)
    assert fresh["characters"] == 3 * first + 2 * second + third

    assert groundrows("run", *flags, f"--output={tmp_path / 'out'}", "--max_requests=1", "--quiet").code == 3
    found = groundrows("plan", *flags, "--json").json
    assert (found["turns_in_ledger"], found["calls"]) == (1, 2)
    # The first answer is known by now, and goes out with both of the requests that are left.
    known = found["characters"] - (2 * first + 2 * second + third)
    assert known > 0
    assert known % 2 == 0
    assert found["largest_request"]["bytes"] > fresh["largest_request"]["bytes"]


def test_every_reason_comes_with_its_count_and_its_first_example(
    groundrows: Groundrows, tmp_path: Path
) -> None:
    by_code: dict[str, list[bytes]] = {}
    for _, body, code in BAD_RECORDS:
        if b"\n" not in body and body.strip(b" \t\r\n\xef\xbb\xbf"):
            by_code.setdefault(code, []).append(body)
    assert len(by_code) > 10
    lines = [body for bodies in by_code.values() for body in bodies]
    archive = write_lines(tmp_path / "bad.jsonl", lines)
    plan = groundrows("plan", f"--input={archive}", "--json").json
    assert plan["invalid"] == plan["records"] == len(lines)
    found = {reason["code"]: reason for reason in plan["invalid_by_code"]}
    assert {code: reason["count"] for code, reason in found.items()} == {
        code: len(bodies) for code, bodies in by_code.items()
    }
    for code, reason in found.items():
        line = int(reason["example"]["origin"].rpartition(":")[2])
        assert lines[line - 1] == by_code[code][0]
        assert reason["example"]["message"]
    counts = [reason["count"] for reason in plan["invalid_by_code"]]
    assert counts == sorted(counts, reverse=True)

    text = groundrows("plan", f"--input={archive}").out
    assert plan["invalid_by_code"][0]["code"] in text
    assert f"and {len(by_code) - 10} more reasons" in text


def test_an_archive_that_breaks_off_is_a_reason_too(groundrows: Groundrows, tmp_path: Path) -> None:
    archive = tmp_path / "archive.jsonl.gz"
    archive.write_bytes(b"this is no gzip")
    (reason,) = groundrows("plan", f"--input={archive}", "--json").json["invalid_by_code"]
    assert (reason["stage"], reason["code"], reason["count"]) == ("read", "UNREADABLE_FILE", 1)


@pytest.mark.parametrize(
    ("flags", "seconds", "limited_by"),
    [
        (["--requests_per_minute=30"], 200, "rate"),
        (["--max_in_flight=4", "--expected_latency_seconds=2"], 50, "in_flight"),
        (["--max_in_flight=4", "--expected_latency_seconds=2", "--requests_per_minute=30"], 200, "rate"),
        (["--expected_latency_seconds=7"], 7 * 100 / 64, "in_flight"),
        (["--max_in_flight=1000", "--expected_latency_seconds=7"], 7, "latency"),
        (["--requests_per_minute=30", "--max_requests=10"], 20, "rate"),
    ],
)
def test_time_is_that_of_whatever_is_slowest(
    groundrows: Groundrows, tmp_path: Path, flags: list[str], seconds: float, limited_by: str
) -> None:
    archive = write_lines(tmp_path / "a.jsonl", [{"question": f"What is {n}?"} for n in range(100)])
    plan = groundrows("plan", f"--input={archive}", *flags, "--json").json
    assert plan["seconds"] == pytest.approx(seconds, abs=0.001)
    assert plan["limited_by"] == limited_by
    assert "time: at least" in groundrows("plan", f"--input={archive}", *flags).out


REAL = ["--service=discoveryengine", "--location=projects/p/locations/global"]
OWN = ["--service=emulator", "--max_in_flight=4"]


@pytest.mark.parametrize(
    ("flags", "seconds", "latency_from", "said"),
    [
        ([*OWN], 0, "emulator", "because the emulator answers at once"),
        (
            [*OWN, "--emulator_flags=--latency=0.5"],
            12.5,
            "emulator",
            "0.5 s per call, from the emulator's flags",
        ),
        # exp(sigma² / 2) of a log-normal latency, with sigma = ln(9) / 2.326
        (
            [*OWN, "--emulator_flags=--latency=lognormal:1,9"],
            39.06,
            "emulator",
            "1.56 s per call, from the emul",
        ),
        (
            [*OWN, "--emulator_flags=--latency=0.5", "--expected_latency_seconds=5"],
            125,
            "given",
            "5 s per call (--expected_latency_seconds)",
        ),
        (
            ["--service=emulator", "--endpoint=127.0.0.1:1", "--max_in_flight=4"],
            125,
            "assumed",
            "5 s per call, an assumption that --expected_latency_seconds changes",
        ),
        (
            [*REAL, "--requests_per_minute=60000", "--max_in_flight=4"],
            125,
            "assumed",
            "5 s per call, an assumption",
        ),
    ],
)
def test_how_long_a_call_takes_and_how_that_is_known(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    flags: list[str],
    seconds: float,
    latency_from: str,
    said: str,
) -> None:
    groundrows = Groundrows(capsys, *flags)
    archive = write_lines(tmp_path / "a.jsonl", [{"question": f"What is {n}?"} for n in range(100)])
    plan = groundrows("plan", f"--input={archive}", "--json").json
    assert plan["seconds"] == pytest.approx(seconds, abs=0.01)
    assert plan["latency_from"] == latency_from
    assert (plan["limited_by"] is None) is (seconds == 0)
    assert said in groundrows("plan", f"--input={archive}").out


def test_an_emulator_that_would_not_start_is_no_base_of_a_plan(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    archive = write_lines(tmp_path / "a.jsonl", [{"question": "Why?"}])
    for flag in ("--latency=soon", "--nosuch=1"):
        result = Groundrows(capsys, "--service=emulator")(
            "plan", f"--input={archive}", f"--emulator_flags={flag}"
        )
        assert result.code == 2
        assert flag.split("=")[0] in result.err
        assert is_one_sentence(result.err)


@pytest.mark.parametrize("part", [["--limit=5"], ["--sample=4", "--seed=3"]], ids=" ".join)
def test_a_part_is_planned_as_it_is_then_asked(
    groundrows: Groundrows, archive: Path, tmp_path: Path, part: list[str]
) -> None:
    flags = [f"--input={archive}", f"--output={tmp_path / 'out'}", *part]
    plan = groundrows("plan", *flags, "--json").json
    assert groundrows("run", *flags, "--quiet").code == 0
    ran = run_json(tmp_path / "out")
    assert plan["records"] == ran["records_read"] == int(part[0].partition("=")[2])
    assert (plan["questions"], plan["invalid"]) == (ran["answered"], ran["failed"])
    assert (plan["duplicates"], plan["calls"]) == (ran["duplicates"], ran["calls"])
    whole = [flag for flag in flags if flag not in part]
    rest = groundrows("plan", *whole, "--append", "--json").json
    assert groundrows("run", *whole, "--append", "--quiet").code == 0
    grown = run_json(tmp_path / "out")
    assert grown["records_read"] == 9
    assert grown["already_answered"] == ran["answered"]
    assert rest["calls"] == grown["calls"]
    assert grown["directory"]["answered"] == 5


def test_cost_is_of_the_calls_that_the_budget_allows(groundrows: Groundrows, tmp_path: Path) -> None:
    archive = write_lines(tmp_path / "a.jsonl", [{"question": "x" * 40, "id": n} for n in range(100)])
    flags = [f"--input={archive}", "--price_per_1000_requests=35", "--price_per_million_tokens=200"]
    plan = groundrows("plan", *flags, "--json").json
    assert (plan["characters"], plan["estimated_tokens"]) == (4000, 1000)
    assert plan["cost"] == pytest.approx(3.5 + 0.2)
    halved = groundrows("plan", *flags, "--max_requests=50", "--json").json
    assert (halved["calls"], halved["calls_within_budget"]) == (100, 50)
    assert halved["cost"] == pytest.approx(plan["cost"] / 2)
    free = groundrows("plan", f"--input={archive}", "--price_per_1000_requests=0", "--json").json
    assert free["cost"] == 0
    assert groundrows("plan", f"--input={archive}", "--json").json["cost"] is None
    text = groundrows("plan", *flags).out
    assert "characters / 4" in text
    assert "requests only" in text


def checked_archive(folder: Path, count: int = 60) -> Path:
    records = [
        {"id": n, "turns": [f"When does tin melt, {n}?", "And lead?"][: 1 + n % 2], "facts": ["Tin melts."]}
        for n in range(count)
    ]
    return write_lines(folder / "checked.jsonl", records)


def test_a_run_checks_no_more_than_the_plan_said(
    groundrows: Groundrows, tmp_path: Path, call_log: Path
) -> None:
    flags = [f"--input={checked_archive(tmp_path)}", f"--output={tmp_path / 'out'}"]
    assert groundrows("plan", *flags, "--json").json["checks"] == 0
    checking = [*flags, "--check_grounding"]
    fresh = groundrows("plan", *checking, "--json").json
    assert (fresh["calls"], fresh["checks"]) == (90, 90)
    # The canned answer is of one candidate, and it quotes its sources: all of it can be checked.
    assert groundrows("run", *flags, "--max_requests=40", "--quiet").code == 0
    halfway = groundrows("plan", *checking, "--json").json
    assert (halfway["calls"], halfway["checks"]) == (50, 90)
    before = len(prompts_of(call_log))
    assert groundrows("run", *checking, "--overwrite", "--quiet").code == 0
    assert len(prompts_of(call_log)) - before == halfway["calls"] + halfway["checks"]
    again = groundrows("plan", *checking, "--overwrite", "--json").json
    assert (again["calls"], again["checks"], again["limited_by"], again["seconds"]) == (0, 0, None, 0)
    # Another threshold is another check, of answers that are there.
    other = groundrows("plan", *checking, "--overwrite", "--citation_threshold=0.9", "--json").json
    assert (other["calls"], other["checks"], other["checks_within_budget"]) == (0, 90, 90)
    text = groundrows("plan", *checking, "--overwrite", "--citation_threshold=0.9").out
    assert "checks: up to 90 more calls" in text
    assert "time: at least" in text


def test_equal_answers_are_checked_once_where_equal_requests_are_shared(
    groundrows: Groundrows, tmp_path: Path, call_log: Path
) -> None:
    archive = write_lines(tmp_path / "a.jsonl", [{"id": n, "question": "Why?"} for n in range(5)])
    flags = [f"--input={archive}", f"--output={tmp_path / 'out'}", "--share_identical"]
    plan = groundrows("plan", *flags, "--check_grounding", "--json").json
    assert (plan["calls"], plan["turns_shared"], plan["checks"]) == (1, 4, 1)
    assert groundrows("run", *flags, "--quiet").code == 0
    stored = groundrows("plan", *flags, "--overwrite", "--check_grounding", "--json").json
    assert (stored["calls"], stored["checks"]) == (0, 1)
    before = len(prompts_of(call_log))
    assert groundrows("run", *flags, "--overwrite", "--check_grounding", "--quiet").code == 0
    assert len(prompts_of(call_log)) - before == 1


@pytest.mark.parametrize(
    ("flags", "seconds", "limited_by"),
    [
        (["--requests_per_minute=30", "--check_requests_per_minute=60"], 120, "rate"),
        (["--requests_per_minute=60", "--check_requests_per_minute=10"], 360, "check_rate"),
        (["--requests_per_minute=60000", "--check_requests_per_minute=1000", "--max_in_flight=1"], 300, None),
        # One answer's own check waits for it.
        (["--max_in_flight=1000", "--expected_latency_seconds=7"], 14, "latency"),
        (["--check_requests_per_minute=10", "--max_requests=70"], 60, "check_rate"),
        (["--requests_per_minute=10", "--max_requests=70"], 360, "rate"),
    ],
)
def test_checks_have_a_pace_and_a_window_of_their_own(
    groundrows: Groundrows, tmp_path: Path, flags: list[str], seconds: float, limited_by: str | None
) -> None:
    archive = write_lines(tmp_path / "a.jsonl", [{"question": f"What is {n}?"} for n in range(60)])
    plan = groundrows("plan", f"--input={archive}", "--check_grounding", *flags, "--json").json
    assert plan["seconds"] == pytest.approx(seconds, abs=0.001)
    assert limited_by is None or plan["limited_by"] == limited_by
    text = groundrows("plan", f"--input={archive}", "--check_grounding", *flags).out
    assert "time: at least" in text
    assert ("10 checks a minute" in text) is (limited_by == "check_rate")


def test_price_and_budget_count_checks(groundrows: Groundrows, tmp_path: Path) -> None:
    archive = write_lines(tmp_path / "a.jsonl", [{"question": f"What is {n}?"} for n in range(100)])
    flags = [f"--input={archive}", "--check_grounding", "--price_per_1000_requests=10"]
    plan = groundrows("plan", *flags, "--json").json
    assert plan["cost"] == pytest.approx(2)
    short = groundrows("plan", *flags, "--max_requests=130", "--json").json
    assert (short["calls_within_budget"], short["checks_within_budget"]) == (100, 30)
    assert (short["checks"], short["cost"]) == (100, pytest.approx(1.3))
    assert (
        "--max_requests allows 130, checks included" in groundrows("plan", *flags, "--max_requests=130").out
    )
    assert "--max_requests" not in groundrows("plan", *flags, "--max_requests=200").out


NASTY = "red \x1b[31m, bell \a, turned \u202e, \x9b and \x7f; ünd 水 🙂"


def test_nothing_of_the_data_gives_a_terminal_orders(groundrows: Groundrows, tmp_path: Path) -> None:
    folder = tmp_path / "fol\x1b[2Jder \u202e"
    folder.mkdir()
    archive = write_lines(
        folder / "a.jsonl",
        [
            {"thing": NASTY},
            {NASTY: 1},
            {"facts": ["x"], "thing": "y", "question": NASTY},
            b"no JSON \x1b[31m",
        ],
    )
    flags = [f"--input={archive}", "--question_template={thing}"]
    text = groundrows("plan", *flags).out
    assert all(line.isprintable() for line in text.split("\n"))
    assert r"red \x1b[31m, bell \x07, turned \u202e, \x9b and \x7f; ünd 水 🙂" in text
    assert r"fol\x1b[2Jder \u202e/a.jsonl:" in text
    lines = groundrows("plan", *flags, "--json").out
    assert all(line.isprintable() for line in lines.split("\n"))
    plan = json.loads(lines)
    assert plan["prompts"][0] == [NASTY]
    assert plan["largest_request"]["origin"].startswith(str(archive))
    assert {reason["example"]["origin"].rpartition(":")[0] for reason in plan["invalid_by_code"]} == {
        str(archive)
    }


def test_the_largest_request_is_named(groundrows: Groundrows, tmp_path: Path) -> None:
    records = [{"question": "Why?", "facts": ["f" * size]} for size in (10, 5000, 20)]
    archive = write_lines(tmp_path / "a.jsonl", records)
    largest = groundrows("plan", f"--input={archive}", "--json").json["largest_request"]
    assert largest["origin"] == f"{archive}:2"
    assert 5000 < largest["bytes"] < 5200


def test_a_template_shows_its_first_three_prompts(groundrows: Groundrows, tmp_path: Path) -> None:
    archive = write_lines(
        tmp_path / "a.jsonl", [{"metal": name} for name in ("", "tin", "lead", "iron", "gold")]
    )
    flags = [f"--input={archive}", "--question_template=When does {metal} melt?"]
    plan = groundrows("plan", *flags, "--json").json
    assert plan["prompts"] == [["When does tin melt?"], ["When does lead melt?"], ["When does iron melt?"]]
    assert "\n  When does tin melt?\n  When does lead melt?" in groundrows("plan", *flags).out
    flags.append("--question_template=And who first melted {metal}?")
    plan = groundrows("plan", *flags, "--json").json
    assert plan["prompts"][1] == ["When does lead melt?", "And who first melted lead?"]
    assert (plan["questions"], plan["turns"], plan["calls"]) == (4, 8, 8)
    assert "\n  When does lead melt?\n    then And who first melted lead?\n" in groundrows("plan", *flags).out
    others = write_lines(tmp_path / "b.jsonl", [{"question": "When does tin melt?"}])
    assert "prompts" not in groundrows("plan", f"--input={others}", "--json").json
    assert "tin" not in groundrows("plan", f"--input={others}").out


@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["--input=/nowhere/*.jsonl"],
        ["--input={archive}", "--price_per_1000_requests=-1"],
        ["--input={archive}", "--price_per_million_tokens=nan"],
        ["--input={archive}", "--price_per_1000_requests=much"],
        ["--input={archive}", "--price=3"],
        ["--input={archive}", "--ledger=file.sqlite"],
        ["--input={archive}", "--question_template=no field"],
        ["--input={archive}", "--request_defaults=/nowhere.json"],
        ["--input={archive}", "--max_in_flight=0"],
    ],
)
def test_bad_flags_are_one_sentence(groundrows: Groundrows, archive: Path, flags: list[str]) -> None:
    result = groundrows("plan", *[flag.format(archive=archive) for flag in flags])
    assert result.code == 2
    assert result.out == ""
    assert is_one_sentence(result.err)


def test_whom_to_ask_must_be_said(capsys: pytest.CaptureFixture[str], archive: Path) -> None:
    result = Groundrows(capsys)("plan", f"--input={archive}")
    assert result.code == 2
    assert "--service" in result.err


def test_a_database_of_something_else_is_refused_and_left_as_it_was(
    groundrows: Groundrows, archive: Path, tmp_path: Path
) -> None:
    path = tmp_path / "music.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE songs (title TEXT)")
    db.close()
    before = files_below(tmp_path)
    result = groundrows("plan", f"--input={archive}", f"--ledger=sqlite://{path}")
    assert result.code == 2
    assert is_one_sentence(result.err)
    assert files_below(tmp_path) == before


def test_help_comes_without_an_archive(groundrows: Groundrows) -> None:
    result = groundrows("plan", "--help")
    assert result.code == 0
    assert "--price_per_million_tokens" in result.out


def test_characters_are_those_that_a_model_reads() -> None:
    message = request_class("v1")()
    message.location = "not read"
    message.system_instruction.parts.add().text = "äöü"
    message.contents.add(role="user").parts.add().text = "12345"
    message.contents[0].parts.add().text = "6"
    message.grounding_spec.grounding_sources.add().inline_source.grounding_facts.add().fact_text = "fact"
    message.grounding_spec.grounding_sources.add().google_search_source.SetInParent()
    assert text_characters(message.SerializeToString(), "v1") == 3 + 6 + 4


_RECORD = st.fixed_dictionaries(
    {}, optional={"id": st.sampled_from("ab"), "question": st.sampled_from(["x", "y", ""])}
) | st.fixed_dictionaries(
    {"turns": st.lists(st.sampled_from(["x", "y"]), min_size=1, max_size=3)},
    optional={"id": st.sampled_from("ab")},
)


def _survey(records: Sequence[object], batch_size: int, share: bool) -> dict[str, int]:
    calls = CallSettings(
        "", False, "projects/p/locations/global", "v1", "run", batch_size=batch_size, share_identical=share
    )
    surveyor = Surveyor(RecordSettings(), calls, MemoryLedger(), MemoryLedger(), None)
    surveyor.read(Record(json.dumps(each).encode(), f"a:{n}") for n, each in enumerate(records))
    found = surveyor.found
    assert found.records == found.invalid + found.duplicates + found.questions == len(records)
    assert found.turns == found.calls + found.shared_turns
    return {
        name: getattr(found, name)
        for name in (
            "invalid",
            "duplicates",
            "questions",
            "turns",
            "shared_turns",
            "calls",
            "characters",
            "largest_bytes",
        )
    }


@given(
    records=st.lists(_RECORD, max_size=12).flatmap(
        lambda each: st.tuples(st.just(each), st.permutations(each))
    ),
    sizes=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    share=st.booleans(),
)
@settings(deadline=None, max_examples=60)
def test_neither_order_nor_batches_change_what_is_counted(
    records: tuple[list[object], list[object]], sizes: tuple[int, int], share: bool
) -> None:
    assert _survey(records[0], sizes[0], share) == _survey(records[1], sizes[1], share)
