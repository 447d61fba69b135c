"""Gemini's client against servers that say what they are told to."""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from aiohttp import web

from groundrows.schemas.errors import CallError, SetupError
from groundrows.transforms.generate.calling.conversation import turn_request
from groundrows.transforms.generate.clients import api_key
from groundrows.transforms.generate.clients.base import Call, Reply
from groundrows.transforms.generate.clients.gemini import rest_client
from groundrows.transforms.generate.clients.gemini.rest_client import RestClient
from groundrows.transforms.generate.clients.open import open_client
from tests.support.engines import make_settings
from tests.support.gemini import AGENT, question_of, response
from tests.support.http_servers import saying, serving, speaking

TIN = "Tin melts at 232 °C."
KEY = "AIza-a-key-of-nobody"
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


def settings(address: str, **changes: Any) -> Any:
    given = {"service": "gemini", "transport": "rest", "location": "", "api_version": "v1beta"}
    return make_settings(address, **{**given, **changes})


def request(location: str = "", api_version: str = "v1beta", **fields: Any) -> bytes:
    record = {"id": "q", "question": "When?", **fields}
    return turn_request(question_of(record, api_version=api_version), (), location)


async def ask_at(address: str, sent: bytes | None = None, **changes: Any) -> Reply | CallError:
    client = RestClient(settings(address, **changes))
    try:
        return await client.ask(Call(sent or request()), 20.0)
    except CallError as error:
        return error
    finally:
        await client.close()


def answered(
    body: object, status: int = 200, sent: bytes | None = None, **changes: Any
) -> tuple[Reply | CallError, list[web.Request], list[Any]]:
    """What the client makes of a response, and what it had sent."""
    seen: list[web.Request] = []
    bodies: list[Any] = []

    async def handle(received: web.Request) -> web.Response:
        seen.append(received)
        bodies.append(await received.json())
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return web.Response(status=status, body=raw, content_type="application/json")

    async def run() -> Reply | CallError:
        async with serving(handle) as address:
            return await ask_at(address, sent, **changes)

    return asyncio.run(run()), seen, bodies


def test_a_response_is_kept_byte_for_byte() -> None:
    raw = json.dumps({**response(TIN), "somethingNew": 1.50}, indent=1).encode()
    reply, [seen], [body] = answered(raw)
    assert isinstance(reply, Reply)
    assert reply.response == raw
    assert seen.path == "/v1beta/models/gemini-2.5-flash:generateContent"
    assert body == {"contents": [{"role": "user", "parts": [{"text": "When?"}]}]}


def test_the_agent_platform_has_a_path_of_its_own_and_headers() -> None:
    spec = {"provisioned_throughput_setting": "PAY_AS_YOU_GO_ONLY"}
    sent = request(AGENT, "v1", generation_spec=spec)
    reply, [seen], [body] = answered(response(TIN), sent=sent, location=AGENT, api_version="v1")
    assert isinstance(reply, Reply)
    assert seen.path == f"/v1/{AGENT}/publishers/google/models/gemini-2.5-flash:generateContent"
    assert seen.headers["X-Vertex-AI-LLM-Request-Type"] == "shared"
    assert body.keys() == {"contents"}


def test_a_stream_is_an_array_and_is_kept_as_one() -> None:
    parts = [response(TIN), {"usageMetadata": {"totalTokenCount": 3}}]
    reply, [seen], _ = answered(parts, stream_answers=True)
    assert isinstance(reply, Reply)
    assert json.loads(reply.response) == parts
    assert reply.first_part_ms is not None
    assert seen.path.endswith(":streamGenerateContent")


def code_of(reply: Reply | CallError) -> str:
    assert isinstance(reply, CallError), reply
    return reply.code


QUOTA = {
    "error": {
        "code": 429,
        "message": "You exceeded your current quota.",
        "status": "RESOURCE_EXHAUSTED",
        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "27s"}],
    }
}


@pytest.mark.parametrize(
    ("body", "status", "changes", "code"),
    [
        (QUOTA, 429, {}, "RESOURCE_EXHAUSTED"),
        ([QUOTA], 429, {"stream_answers": True}, "RESOURCE_EXHAUSTED"),
        ([response(TIN), QUOTA], 200, {"stream_answers": True}, "RESOURCE_EXHAUSTED"),
        (
            {"error": {"code": 400, "message": "No.", "status": "INVALID_ARGUMENT"}},
            400,
            {},
            "INVALID_ARGUMENT",
        ),
        (b"<html>", 502, {}, "UNAVAILABLE"),
        (b"<html>", 200, {}, "UNDECODABLE_RESPONSE"),
        (b"[]", 200, {}, "UNDECODABLE_RESPONSE"),
        (b"{}", 200, {"stream_answers": True}, "UNDECODABLE_RESPONSE"),
        (b'[{"candidates": [', 200, {"stream_answers": True}, "UNAVAILABLE"),
        ({"candidates": [{"finishReason": "STOP"}]}, 200, {}, "EMPTY_ANSWER"),
        (response({"text": "Hm.", "thought": True}), 200, {}, "EMPTY_ANSWER"),
    ],
)
def test_what_a_call_ends_in(body: object, status: int, changes: dict[str, Any], code: str) -> None:
    reply, _, _ = answered(body, status, **changes)
    assert code_of(reply) == code


def test_a_server_says_when_to_come_back() -> None:
    reply, _, _ = answered(QUOTA, 429)
    assert isinstance(reply, CallError)
    assert reply.retry_after == 27


@pytest.mark.parametrize(
    "body",
    [
        {"promptFeedback": {"blockReason": "SAFETY"}},
        {"candidates": [{"finishReason": "RECITATION"}]},
        {"candidates": [{"finishReason": "MAX_TOKENS"}]},
    ],
)
def test_what_would_be_refused_again_is_kept_rather_than_asked_again(body: object) -> None:
    reply, _, _ = answered(body)
    assert isinstance(reply, Reply)


def test_a_connection_that_breaks_is_one_call_and_one_error() -> None:
    speaker = saying(CHUNKED + b'5\r\n[{"ca\r\n')

    async def run() -> Reply | CallError:
        async with speaking(speaker) as address:
            return await ask_at(address, stream_answers=True)

    assert code_of(asyncio.run(run())) == "UNAVAILABLE"


# -- the key


def with_key(
    monkeypatch: pytest.MonkeyPatch, body: object, status: int
) -> tuple[Reply | CallError, web.Request]:
    """A call with the key, which goes out over TLS only; here it is let out on loopback."""
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    monkeypatch.setattr(rest_client, "_auth", lambda settings: api_key.ApiKey())
    reply, [seen], _ = answered(body, status)
    return reply, seen


def test_the_key_is_a_header_and_no_part_of_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    reply, seen = with_key(monkeypatch, response(TIN), 200)
    assert isinstance(reply, Reply)
    assert seen.headers["x-goog-api-key"] == KEY
    assert KEY not in str(seen.url)
    assert KEY not in repr(api_key.ApiKey())


def test_what_the_service_says_of_the_key_comes_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"error": {"code": 400, "message": f"API key {KEY} not valid.", "status": "INVALID_ARGUMENT"}}
    reply, _ = with_key(monkeypatch, told, 400)
    assert isinstance(reply, CallError)
    assert KEY not in reply.message
    assert "API key … not valid." in reply.message


def test_a_key_never_goes_out_without_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    _, [seen], _ = answered(response(TIN))
    assert "x-goog-api-key" not in seen.headers


@pytest.mark.parametrize(
    ("environment", "says"),
    [({}, "set GEMINI_API_KEY"), ({"GEMINI_API_KEY": "a\nb"}, "GEMINI_API_KEY is not an API key")],
)
def test_without_a_key_nothing_is_called(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], says: str
) -> None:
    for name in api_key.KEY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SetupError, match=says):
        api_key.api_key()


def test_the_second_variable_is_taken_where_the_first_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", " ")
    monkeypatch.setenv("GOOGLE_API_KEY", KEY)
    assert api_key.api_key() == KEY


# -- what can't be opened


def opened(**changes: Any) -> Callable[[], Sequence[object]]:
    async def run() -> Sequence[object]:
        client = open_client(settings("127.0.0.1:1", **changes))
        await client.close()
        return ()

    return lambda: asyncio.run(run())


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"method": "check"}, "no method that checks"),
        ({"transport": "grpc"}, "over REST only"),
        ({"location": AGENT}, "v1beta is called without"),
        ({"api_version": "v1"}, "v1 is called with"),
    ],
)
def test_settings_that_gemini_does_not_have(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(SetupError, match=says):
        opened(**changes)()
