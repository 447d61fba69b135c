"""One sentence for whatever ended a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from groundrows.pipeline.sentences import sentence_of
from groundrows.schemas.errors import LedgerError, LostWorkerError, RowError, SetupError
from groundrows.schemas.wording import one_line
from tests.support.failing_steps import disk_full, raised_by, raised_in_a_run
from tests.support.tools import is_one_sentence


def no_file() -> None:
    Path("/nowhere/at all").read_bytes()


def bad_row() -> None:
    raise RowError("answers", "latency_ms", "must be a number, not text")


def bug() -> None:
    {}["a\nb"]


def bug_while_handling() -> None:
    try:
        {}["first"]
    except KeyError:
        [][3]


def speechless() -> None:
    raise ValueError


def ledger() -> None:
    raise LedgerError("The ledger l is gone; name another with --ledger.")


def setup() -> None:
    raise SetupError("Credentials are missing; get some.")


WORDS = [
    (no_file, "[Errno 2] No such file or directory: '/nowhere/at all'; fix that and run the same command"),
    (disk_full, "[Errno 28] No space left on device; fix that and run the same command again"),
    (bad_row, "answers.latency_ms must be a number, not text; please report it"),
    (bug, r"KeyError: 'a\nb'; please report it"),
    (bug_while_handling, "IndexError: list index out of range; please report it"),
    (speechless, "ValueError; please report it"),
    (ledger, "The ledger l is gone; name another with --ledger."),
    (setup, "Credentials are missing; get some."),
]


@pytest.mark.parametrize(("fail", "words"), WORDS)
def test_an_error_as_it_is(fail: Callable[[], None], words: str) -> None:
    said = sentence_of(raised_by(fail))
    assert is_one_sentence(said), said
    assert words in said
    assert "at step" not in said


@pytest.mark.parametrize(("fail", "words"), WORDS)
def test_an_error_that_the_runner_wrapped(fail: Callable[[], None], words: str) -> None:
    said = sentence_of(raised_in_a_run(fail))
    assert is_one_sentence(said), said
    assert words in said
    assert "while running" not in said
    if fail not in (ledger, setup):
        assert said.startswith("The run failed at step 'Step/inner': ")


def test_a_lost_worker_is_no_bug() -> None:
    said = sentence_of(RuntimeError("Channel closed prematurely"))
    assert is_one_sentence(said), said
    assert "memory" in said
    assert "report" not in said


@pytest.mark.parametrize("code", [137, -9])
def test_a_killed_worker_is_one_that_ran_out_of_memory(code: int) -> None:
    said = str(LostWorkerError(code))
    assert "killed by signal 9, most likely because memory ran out" in said


@pytest.mark.parametrize("code", [1, 3, 139, -11])
def test_a_worker_that_ended_by_itself_has_said_why(code: int) -> None:
    said = str(LostWorkerError(code))
    assert is_one_sentence(said), said
    assert f"exit code {code}" in said
    assert "memory" not in said


def test_very_long_errors_are_cut() -> None:
    said = sentence_of(ValueError("x" * 10_000 + "\ny"))
    assert is_one_sentence(said)
    assert len(said) < 500


@pytest.mark.parametrize("text", ["a\nb", "a\r\nb", "a\u2028b", "a\x0bb", "a\x85b"])
def test_line_breaks_of_every_kind(text: str) -> None:
    assert one_line(text) == "a b"


def test_bytes_that_are_no_text_can_be_printed() -> None:
    assert one_line("out-\udcfe").encode() == b"out-\\udcfe"
