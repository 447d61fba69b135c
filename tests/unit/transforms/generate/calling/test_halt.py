import math

import pytest

from groundrows.schemas.codes import EMPTY_ANSWER, MESSAGE_TOO_LARGE, UNDECODABLE_RESPONSE
from groundrows.schemas.errors import CallError
from groundrows.transforms.generate.calling.halt import (
    DAY_QUOTA_STREAK,
    HOPELESS_CODES,
    HOPELESS_STREAK,
    LONG_WAIT_STREAK,
    LONGEST_GAP_SECONDS,
    REJECTED_STREAK,
    TRANSIENT_STREAK,
    Halt,
)

SECRET = "what the prompt said"


class Clock:
    def __init__(self):
        self.now = 1_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def halt(clock):
    return Halt(90.0, 600.0, clock)


@pytest.mark.parametrize("code", sorted(HOPELESS_CODES))
def test_hopeless_errors_stop_the_run_after_a_short_streak(halt, code):
    for _ in range(HOPELESS_STREAK - 1):
        halt.failed(CallError(code, "no such account"))
    assert halt.reason is None
    halt.failed(CallError(code, "no such account"))
    assert code in halt.reason
    assert "no such account" in halt.reason


@pytest.mark.parametrize(
    "code",
    ["OUT_OF_RANGE", "DATA_LOSS", "CANCELLED", "ALREADY_EXISTS", MESSAGE_TOO_LARGE, UNDECODABLE_RESPONSE],
)
def test_errors_that_are_the_questions_own_never_stop_the_run(halt, code):
    for _ in range(10 * REJECTED_STREAK):
        halt.failed(CallError(code, "the same"))
    assert halt.reason is None


def test_hopeless_errors_of_many_kinds_are_the_questions_own(halt):
    # Each question may name a data store of its own that is missing.
    for number in range(100):
        halt.failed(CallError("NOT_FOUND", f"no data store {number}"))
    assert halt.reason is None


def test_a_success_ends_a_streak(halt):
    for _ in range(HOPELESS_STREAK - 1):
        halt.failed(CallError("PERMISSION_DENIED", "no"))
    halt.succeeded()
    for _ in range(HOPELESS_STREAK - 1):
        halt.failed(CallError("PERMISSION_DENIED", "no"))
    assert halt.reason is None
    halt.failed(CallError("PERMISSION_DENIED", "no"))
    assert halt.reason is not None


def test_rejections_stop_a_run_in_which_nothing_ever_came_back(halt):
    for _ in range(REJECTED_STREAK - 1):
        halt.failed(CallError("INVALID_ARGUMENT", "use the eu endpoint"))
    assert halt.reason is None
    halt.failed(CallError("INVALID_ARGUMENT", "use the eu endpoint"))
    assert "use the eu endpoint" in halt.reason


def test_rejections_do_not_stop_a_run_in_which_anything_ever_came_back(halt):
    halt.succeeded()
    for _ in range(10 * REJECTED_STREAK):
        halt.failed(CallError("INVALID_ARGUMENT", "bad filter"))
    assert halt.reason is None


def test_different_rejections_do_not_stop_a_run(halt):
    for number in range(10 * REJECTED_STREAK):
        halt.failed(CallError("INVALID_ARGUMENT", f"bad filter {number}"))
    assert halt.reason is None


def fail_for(halt, clock, seconds, every, code="UNAVAILABLE", retry_after=None):
    end = clock.now + seconds
    while clock.now <= end and halt.reason is None:
        halt.failed(CallError(code, SECRET, retry_after))
        clock.now += every
    return halt.reason


def test_nothing_but_transient_errors_for_longer_than_a_minute_stops_the_run(halt, clock):
    assert fail_for(halt, clock, 85, every=5) is None
    assert "UNAVAILABLE" in fail_for(halt, clock, 10, every=5)


def test_transient_errors_must_be_many_and_last(halt, clock):
    for _ in range(100 * TRANSIENT_STREAK):  # a crowd in one moment
        halt.failed(CallError("RESOURCE_EXHAUSTED", SECRET))
    assert halt.reason is None
    halt.succeeded()
    for _ in range(TRANSIENT_STREAK - 1):  # few, over long
        halt.failed(CallError("DEADLINE_EXCEEDED", SECRET))
        clock.now += 50
    assert halt.reason is None
    halt.failed(CallError("DEADLINE_EXCEEDED", SECRET))
    assert halt.reason is not None


@pytest.mark.parametrize("sign", ["success", "rejection"])
def test_any_sign_of_life_ends_a_transient_streak(halt, clock, sign):
    assert fail_for(halt, clock, 85, every=5) is None
    if sign == "success":
        halt.succeeded()
    else:
        halt.failed(CallError("INVALID_ARGUMENT", "this question"))
    assert fail_for(halt, clock, 85, every=5) is None
    assert fail_for(halt, clock, 20, every=5) is not None


def test_hours_in_which_nothing_was_asked_prove_nothing(halt, clock):
    for _ in range(TRANSIENT_STREAK):
        halt.failed(CallError("UNAVAILABLE", SECRET))
    clock.now += 5 * 3600
    halt.failed(CallError("UNAVAILABLE", SECRET))
    assert halt.reason is None
    # But a service that fails whenever it is asked is down, however seldom that is.
    clock.now += 5 * 3600
    halt.failed(CallError("UNAVAILABLE", SECRET))
    assert 2 * LONGEST_GAP_SECONDS > 90
    assert halt.reason is not None


def test_waits_within_the_patience_do_not_stop_a_run_and_longer_ones_in_a_row_do(halt):
    for _ in range(2 * LONG_WAIT_STREAK):
        halt.failed(CallError("RESOURCE_EXHAUSTED", SECRET, retry_after=600.0))
        assert halt.reason is None
    for _ in range(LONG_WAIT_STREAK):
        assert halt.reason is None
        halt.failed(CallError("RESOURCE_EXHAUSTED", SECRET, retry_after=86_400.0))
    assert "86400 s" in halt.reason


@pytest.mark.parametrize("between", ["an answer", "another error"])
def test_long_waits_that_are_not_in_a_row_end_no_run(halt, between):
    for _ in range(3 * LONG_WAIT_STREAK):
        for _ in range(LONG_WAIT_STREAK - 1):
            halt.failed(CallError("UNAVAILABLE", SECRET, retry_after=601.0))
        if between == "an answer":
            halt.succeeded()
        else:
            halt.failed(CallError("UNAVAILABLE", SECRET))
    assert halt.reason is None


@pytest.mark.parametrize(
    ("said", "taken"),
    [(math.inf, 86_400.0), (1e9, 86_400.0), (-1.0, None), (math.nan, None), (0.0, 0.0), (601.0, 601.0)],
)
def test_a_time_to_wait_is_finite_whatever_was_said(said, taken):
    assert CallError("UNAVAILABLE", "", said).retry_after == taken


def test_the_first_reason_stays(halt):
    halt.stop("the disk is full")
    for _ in range(HOPELESS_STREAK):
        halt.failed(CallError("UNAUTHENTICATED", "who are you"))
    halt.stop("another")
    assert halt.reason == "the disk is full"


def test_words_that_came_once_are_not_repeated_in_the_reason(halt, clock):
    # A reason is logged, and the service may have quoted the prompt.
    assert SECRET not in fail_for(halt, clock, 200, every=5)
    told = Halt(90.0, 600.0, clock)
    for _ in range(LONG_WAIT_STREAK):
        told.failed(CallError("RESOURCE_EXHAUSTED", SECRET, retry_after=1e6))
    assert SECRET not in told.reason


def test_empty_answers_show_that_the_service_works(halt, clock):
    for _ in range(TRANSIENT_STREAK):
        halt.failed(CallError("UNAVAILABLE", SECRET))
        clock.now += 30
        halt.failed(CallError(EMPTY_ANSWER, SECRET))
        clock.now += 30
    assert halt.reason is None


def test_a_days_quota_stops_the_run_and_names_itself(halt):
    error = CallError("RESOURCE_EXHAUSTED", SECRET, day_quota="RequestsPerDay")
    for _ in range(DAY_QUOTA_STREAK - 1):
        halt.failed(error)
    assert halt.reason is None
    halt.failed(error)
    assert "RequestsPerDay" in halt.reason
    assert SECRET not in halt.reason


def test_a_days_quota_of_one_model_stops_no_run_in_which_others_answer(halt):
    for _ in range(3 * DAY_QUOTA_STREAK):
        halt.failed(CallError("RESOURCE_EXHAUSTED", SECRET, day_quota="RequestsPerDay"))
        halt.succeeded()
    assert halt.reason is None
