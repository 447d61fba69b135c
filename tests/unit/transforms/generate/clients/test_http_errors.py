import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from groundrows.schemas.codes import MESSAGE_TOO_LARGE, UNDECODABLE_RESPONSE
from groundrows.schemas.errors import CallError
from groundrows.transforms.generate.clients.http_errors import error_in, http_error

RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"


def told(status: int, body: Any = b"", **headers: str) -> CallError:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = CIMultiDict({name.replace("_", "-"): value for name, value in headers.items()})
    return http_error(status, "Reason", named, raw, 2.0)


def google(
    code: Any = 429, status: Any = "RESOURCE_EXHAUSTED", message: Any = "too much", **more: Any
) -> Any:
    return {"error": {"code": code, "status": status, "message": message, **more}}


@pytest.mark.parametrize(
    ("status", "code", "retryable"),
    [
        (400, "INVALID_ARGUMENT", False),
        (401, "UNAUTHENTICATED", False),
        (403, "PERMISSION_DENIED", False),
        (404, "NOT_FOUND", False),
        (405, "UNIMPLEMENTED", False),
        (408, "DEADLINE_EXCEEDED", True),
        (409, "ABORTED", True),
        (413, MESSAGE_TOO_LARGE, False),
        (418, "INVALID_ARGUMENT", False),
        (429, "RESOURCE_EXHAUSTED", True),
        (499, "CANCELLED", False),
        (500, "INTERNAL", True),
        (501, "UNIMPLEMENTED", False),
        (502, "UNAVAILABLE", True),
        (503, "UNAVAILABLE", True),
        (504, "DEADLINE_EXCEEDED", True),
        (520, "UNAVAILABLE", True),
        (204, "UNKNOWN", True),
    ],
)
@pytest.mark.parametrize(
    "body", [b"", b"<html>busy</html>", b"{}", b'{"error": "x"}', b"\xff", b"[]", b"[{}]"]
)
def test_without_a_status_of_its_own_the_http_status_decides(
    status: int, code: str, retryable: bool, body: bytes
) -> None:
    error = told(status, body)
    assert (error.code, error.retryable, error.retry_after) == (code, retryable, None)
    assert f"HTTP {status}" in error.message


@pytest.mark.parametrize("wrap", [lambda one: one, lambda one: [one], lambda one: [{"candidates": []}, one]])
def test_the_status_in_the_body_comes_first(wrap: Any) -> None:
    error = told(500, wrap(google(status="ABORTED", message="try again")))
    assert (error.code, error.message, error.retry_after) == ("ABORTED", "try again", None)


@pytest.mark.parametrize(
    ("status", "number", "code"),
    [
        (None, 429, "RESOURCE_EXHAUSTED"),
        ("", 8, "RESOURCE_EXHAUSTED"),
        ("OK", 503, "UNAVAILABLE"),
        ("NO_SUCH_CODE", 403, "PERMISSION_DENIED"),
        (["ABORTED"], 400, "INVALID_ARGUMENT"),
        (None, None, "INTERNAL"),
        (None, "429", "INTERNAL"),
        (None, 0, "UNKNOWN"),
    ],
)
def test_a_status_that_has_no_name_goes_by_its_number(status: Any, number: Any, code: str) -> None:
    assert told(500, google(code=number, status=status)).code == code


@pytest.mark.parametrize("message", [None, 5, ["x"], {}])
def test_words_that_are_none_are_none(message: Any) -> None:
    assert told(429, google(message=message)).message == ""


def test_an_error_that_only_looks_retryable_is_known_over_http_too() -> None:
    assert told(429, google(message="message larger than max (5 vs. 4)")).code == MESSAGE_TOO_LARGE
    broken = google(500, "INTERNAL", "Exception deserializing response!")
    assert told(500, broken).code == UNDECODABLE_RESPONSE


def test_a_deadline_is_told_as_over_grpc() -> None:
    assert told(504, google(504, "DEADLINE_EXCEEDED", "late")).message == "no answer within 2 s: late"


def test_words_of_a_proxy_are_shown_on_one_line_and_not_for_ever() -> None:
    error = told(503, ("upstream \n\t connect error " + "x" * 10_000).encode())
    assert error.message.startswith("HTTP 503 Reason: upstream connect error xxx")
    assert len(error.message) < 300
    assert told(503).message == "HTTP 503 Reason"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_a_wrong_setting(status: int) -> None:
    error = told(status, Location="http://elsewhere.example/?secret")
    assert (error.code, error.retryable) == ("FAILED_PRECONDITION", False)
    assert "secret" not in error.message


# -- when to come back -----------------------------------------------------------------------------------


@given(seconds=st.integers(0, 10**6), millis=st.integers(0, 999))
def test_retry_info_is_read_to_the_millisecond(seconds: int, millis: int) -> None:
    details = [
        {"@type": "x/google.rpc.ErrorInfo"},
        {"@type": RETRY_INFO, "retryDelay": f"{seconds}.{millis:03}s"},
    ]
    error = error_in(google(details=details), 1.0)
    assert error is not None
    assert round((error.retry_after or 0) * 1000) == min(seconds * 1000 + millis, 86_400_000)


@pytest.mark.parametrize(
    "details",
    [
        None,
        {},
        [None],
        ["x"],
        [{"@type": RETRY_INFO}],
        [{"@type": RETRY_INFO, "retryDelay": "soon"}],
        [{"@type": RETRY_INFO, "retryDelay": 5}],
        [{"@type": RETRY_INFO, "retryDelay": {}}],
        [{"@type": 5, "retryDelay": "5s"}],
        [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "retryDelay": "5s"}],
    ],
)
def test_details_that_say_nothing_leave_it_to_the_header(details: Any) -> None:
    assert told(429, google(details=details)).retry_after is None
    assert told(429, google(details=details), Retry_After="7").retry_after == 7.0


def test_retry_info_comes_before_the_header_and_is_never_negative() -> None:
    details = [{"@type": RETRY_INFO, "retryDelay": "1.500s"}]
    assert told(429, google(details=details), Retry_After="7").retry_after == 1.5
    details[0]["retryDelay"] = "-5s"
    assert told(429, google(details=details)).retry_after == 0.0


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("12", 12.0),
        (" 3 ", 3.0),
        ("0", 0.0),
        ("-3", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
        ("²", None),
        ("Wed, 21 Oct 99999999999999999999 07:28:00 GMT", None),
        ("Wed, 21 Oct 2099 07:28999999999999 GMT", None),
        ("Wed, 21 Oct 2099 07:28:00 +999999999999", None),
    ],
)
def test_retry_after_in_seconds(value: str, seconds: float | None) -> None:
    assert told(429, Retry_After=value).retry_after == seconds


def test_retry_after_as_a_date_goes_by_the_servers_clock() -> None:
    theirs = datetime(2001, 2, 3, 4, 5, 6, tzinfo=UTC)
    later = format_datetime(theirs + timedelta(seconds=90), usegmt=True)
    assert told(503, Retry_After=later, Date=format_datetime(theirs, usegmt=True)).retry_after == 90.0
    assert told(503, Retry_After=later).retry_after == 0.0  # long ago, by ours
    ours = format_datetime(datetime.now(UTC) + timedelta(seconds=300), usegmt=True)
    waits = told(503, Retry_After=ours, Date="no date").retry_after
    assert waits is not None
    assert 200 < waits <= 300
    garbled = "Wed, 21 Oct 2099 07:28999999999999 GMT"
    waits = told(503, Retry_After=ours, Date=garbled).retry_after
    assert waits is not None
    assert 200 < waits <= 300


def test_the_headers_count_without_a_readable_body() -> None:
    error = told(429, b"<html>", Retry_After="4")
    assert (error.code, error.retry_after) == ("RESOURCE_EXHAUSTED", 4.0)


@pytest.mark.parametrize("read", [None, 5, "error", [], {}, [{}], {"error": None}, {"candidates": []}])
def test_what_tells_of_no_error_is_none(read: Any) -> None:
    assert error_in(read, 1.0) is None


def quota(*names: Any, wait: str = "27s") -> Any:
    failure = {
        "@type": "type.googleapis.com/google.rpc.QuotaFailure",
        "violations": [{"quotaId": name} for name in names],
    }
    return google(details=[failure, {"@type": RETRY_INFO, "retryDelay": wait}])


def test_a_days_quota_is_told_from_a_minutes_and_nobody_is_to_wait_for_it() -> None:
    day = "GenerateRequestsPerDayPerProjectPerModel"
    error = told(429, quota("InputTokensPerModelPerMinute", day))
    assert (error.code, error.day_quota, error.retry_after) == ("RESOURCE_EXHAUSTED", day, None)
    assert day in error.message
    minute = told(429, quota("InputTokensPerModelPerMinute"))
    assert (minute.day_quota, minute.retry_after) == (None, 27.0)


@pytest.mark.parametrize("violations", [None, "PerDay", [None, 7, {}, {"quotaId": 7}]])
def test_odd_violations_are_no_quota_of_a_day(violations: Any) -> None:
    failure = {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": violations}
    assert told(429, google(details=[failure])).day_quota is None
