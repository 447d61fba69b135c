import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundrows.schemas.codes import (
    INTERNAL_ERROR,
    MESSAGE_TOO_LARGE,
    NOT_ATTEMPTED,
    RETRYABLE_CODES,
    UNDECODABLE_RESPONSE,
)
from groundrows.schemas.errors import CallError
from groundrows.transforms.generate.calling.retry import LONGEST_BACKOFF_SECONDS, RetryPolicy

RETRIED = ("UNAVAILABLE", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED", "ABORTED", "INTERNAL", "UNKNOWN")
FINAL = (
    "CANCELLED",
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "FAILED_PRECONDITION",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "DATA_LOSS",
    "UNAUTHENTICATED",
    MESSAGE_TOO_LARGE,
    UNDECODABLE_RESPONSE,
    INTERNAL_ERROR,
    NOT_ATTEMPTED,
)


@pytest.mark.parametrize("code", RETRIED)
def test_transient_codes_are_tried_again(code):
    assert RetryPolicy(2, 60, 1).wait_seconds(CallError(code, ""), 1, 0.0) is not None


@pytest.mark.parametrize("code", FINAL)
def test_every_other_code_is_final(code):
    assert RetryPolicy(2, 60, 1).wait_seconds(CallError(code, "", retry_after=1.0), 1, 0.0) is None


def test_the_two_tables_name_every_code_there_is():
    import grpc

    of_grpc = {code.name for code in grpc.StatusCode} - {"OK"}
    assert of_grpc <= {*RETRIED, *FINAL}
    assert frozenset(RETRIED) == RETRYABLE_CODES


@given(attempts=st.integers(1, 60), first=st.floats(0.001, 120))
def test_waits_are_drawn_between_zero_and_a_bound_that_doubles(attempts, first):
    wait = RetryPolicy(100, 1e9, first).wait_seconds(CallError("UNAVAILABLE", ""), attempts, 0.0)
    assert 0 <= wait <= min(LONGEST_BACKOFF_SECONDS, first * 2 ** (attempts - 1))


def test_the_jitter_is_full():
    policy = RetryPolicy(10, 600, 1.0)
    waits = [policy.wait_seconds(CallError("UNAVAILABLE", ""), 3, 0.0) for _ in range(2_000)]
    # Drawn evenly from [0, 4): by chance alone these fail less than once in 10^9 runs.
    assert min(waits) < 0.1
    assert max(waits) > 3.9
    assert 1.8 < sum(waits) / len(waits) < 2.2


@given(retry_after=st.floats(0, 600), attempts=st.integers(1, 4))
def test_a_server_that_says_when_is_never_asked_earlier_and_not_much_later(retry_after, attempts):
    wait = RetryPolicy(5, 1_000, 1.0).wait_seconds(
        CallError("RESOURCE_EXHAUSTED", "", retry_after), attempts, 0.0
    )
    assert retry_after <= wait <= retry_after * 1.02


@given(
    elapsed=st.floats(0, 1_000),
    total=st.floats(0, 1_000),
    retry_after=st.none() | st.floats(0, 1_000),
    attempts=st.integers(1, 20),
)
def test_no_wait_goes_past_the_end_of_the_time(elapsed, total, retry_after, attempts):
    policy = RetryPolicy(10, total, 1.0)
    wait = policy.wait_seconds(CallError("UNAVAILABLE", "", retry_after), attempts, elapsed)
    assert wait is None or (elapsed + wait <= total and attempts < 10)
    if elapsed > total or attempts >= 10:
        assert wait is None


def test_the_last_attempt_is_the_last():
    policy = RetryPolicy(3, 600, 0.0)
    assert policy.wait_seconds(CallError("UNAVAILABLE", ""), 2, 0.0) == 0.0
    assert policy.wait_seconds(CallError("UNAVAILABLE", ""), 3, 0.0) is None


def test_a_days_quota_is_not_waited_for():
    error = CallError("RESOURCE_EXHAUSTED", "", day_quota="RequestsPerDay")
    assert RetryPolicy(9, 600.0, 1.0).wait_seconds(error, 1, 0.0) is None
    assert error.retryable
