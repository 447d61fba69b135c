"""Whose requests the reader answers."""

import pytest
from aiohttp.test_utils import make_mocked_request

from groundrows.pipeline.browse.guard import TOKEN_HEADER, Guard

OWN = {"Host": "127.0.0.1:8000"}


@pytest.fixture
def guard():
    made = Guard()
    made.serve(8000)
    return made


@pytest.mark.parametrize(
    "headers",
    [
        OWN,
        {"Host": "localhost:8000"},
        {**OWN, "Origin": "http://127.0.0.1:8000", "Sec-Fetch-Site": "same-origin"},
        {**OWN, "Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
        # A link that a person follows.
        {**OWN, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
    ],
)
def test_own_pages_may_read(guard, headers):
    assert guard.complaint(make_mocked_request("GET", "/", headers)) is None


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Host": "evil.example"},
        {"Host": "evil.example:8000"},
        {"Host": "127.0.0.1"},
        {"Host": "127.0.0.1:8001"},
        {**OWN, "Origin": "http://evil.example"},
        {**OWN, "Origin": "null"},
        {**OWN, "Origin": "http://127.0.0.1:8001"},
        {**OWN, "Origin": "https://127.0.0.1:8000"},
        {**OWN, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"},
        {**OWN, "Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"},
        {**OWN, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_others_may_not(guard, method, headers):
    assert guard.complaint(make_mocked_request(method, "/", {**headers, TOKEN_HEADER: guard.token}))


def test_a_second_host_is_refused(guard):
    request = make_mocked_request("GET", "/", [("Host", "127.0.0.1:8000"), ("Host", "evil.example")])
    assert guard.complaint(request)


def test_a_change_needs_the_token(guard):
    assert (
        guard.complaint(make_mocked_request("POST", "/verdict", {**OWN, TOKEN_HEADER: guard.token})) is None
    )
    assert guard.complaint(make_mocked_request("POST", "/verdict", OWN))
    assert guard.complaint(make_mocked_request("POST", "/verdict", {**OWN, TOKEN_HEADER: "é"}))
    assert guard.complaint(make_mocked_request("POST", "/verdict", {**OWN, TOKEN_HEADER: Guard().token}))


def test_before_it_serves_nobody_is_answered():
    assert Guard().complaint(make_mocked_request("GET", "/", OWN))
