from __future__ import annotations

import json
from pathlib import Path

import pytest

from groundrows.pipeline.emulator.calllog import CallLog
from groundrows.pipeline.emulator.discoveryengine.messages import Origin

ORIGIN = Origin("CheckGrounding", "v1alpha", "rest")


def test_a_line_is_readable_at_once_and_is_appended(tmp_path: Path) -> None:
    file = tmp_path / "calls.jsonl"
    for t in (1.25, 2.5):
        log = CallLog(file)
        log.write(t=t, origin=ORIGIN, prompt="a\u2028b\n\0é", turn=2, code="OK", fault=None)
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        assert lines[-1] == {
            "t": t,
            "method": "CheckGrounding",
            "prompt": "a\u2028b\n\0é",
            "turn": 2,
            "code": "OK",
            "transport": "rest",
            "version": "v1alpha",
        }
        log.close()
    assert [line["t"] for line in lines] == [1.25, 2.5]


def test_a_fault_is_named(tmp_path: Path) -> None:
    log = CallLog(tmp_path / "calls.jsonl")
    log.write(t=0.0, origin=ORIGIN, prompt="", turn=0, code="OK", fault="malformed")
    log.close()
    assert json.loads((tmp_path / "calls.jsonl").read_text())["fault"] == "malformed"


def test_a_user_context_is_logged_where_there_is_one(tmp_path: Path) -> None:
    log = CallLog(tmp_path / "calls.jsonl")
    for context in (None, {"languageCode": "fr"}):
        log.write(t=0.0, origin=ORIGIN, prompt="", turn=0, code="OK", fault=None, user_context=context)
    log.close()
    without, given = map(json.loads, (tmp_path / "calls.jsonl").read_text().splitlines())
    assert "user_context" not in without
    assert given["user_context"] == {"languageCode": "fr"}


def test_a_megabyte_of_prompt_is_one_line(tmp_path: Path) -> None:
    log = CallLog(tmp_path / "calls.jsonl")
    log.write(t=0.0, origin=ORIGIN, prompt="x" * 1_000_000, turn=1, code="OK", fault=None)
    log.close()
    [line] = (tmp_path / "calls.jsonl").read_text().splitlines()
    assert len(json.loads(line)["prompt"]) == 1_000_000


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--call_log="):
        CallLog(tmp_path / "none" / "calls.jsonl")
