import asyncio
import gzip
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web
from google.protobuf import json_format

from groundrows.pipeline.emulator.process import running_emulator
from groundrows.schemas.codes import UNDECODABLE_RESPONSE
from groundrows.schemas.discoveryengine.messages import request_class, response_class
from groundrows.schemas.errors import CallError
from groundrows.transforms.generate.calling.conversation import turn_request
from groundrows.transforms.generate.clients.base import Call, Reply
from groundrows.transforms.generate.clients.discoveryengine.grpc_client import GrpcClient
from groundrows.transforms.generate.clients.discoveryengine.rest_client import RestClient
from tests.support.engines import (
    LOCATION,
    make_check,
    make_question,
    make_settings,
    read_log,
    run,
    text_of,
)
from tests.support.http_servers import saying, serving, speaking
from tests.support.services import free_port

CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
UNTIL_CLOSED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
STREAM = {"stream_answers": True}


def request(text: str = "Which planet is the largest?", **fields: Any) -> bytes:
    return turn_request(make_question(text, id="q", **fields), (), LOCATION)


def check_request() -> bytes:
    return turn_request(make_check("Tin melts at 232 degrees."), (), LOCATION)


def said(*texts: str, **more: Any) -> dict[str, Any]:
    parts = [{"text": text} for text in texts]
    return {"candidates": [{"content": {"role": "model", "parts": parts}, **more}]}


def chunk(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(body), body)


async def ask_at(
    address: str, *, deadline: float = 20.0, call: Call | None = None, **changes: Any
) -> Reply | CallError:
    client = RestClient(make_settings(address, transport="rest", **changes))
    try:
        return await client.ask(call or Call(request()), deadline)
    except CallError as error:
        return error
    finally:
        await client.close()


def attempt(handler: Any, **how: Any) -> Any:
    """One call of a server that answers by `handler`; its reply or its error."""

    async def scenario() -> Reply | CallError:
        async with serving(handler) as address:
            return await ask_at(address, **how)

    return run(scenario())


def attempt_bytes(*pieces: bytes, pause: float = 0.0, **how: Any) -> Any:
    """One call of a server that says these bytes."""

    async def scenario() -> Reply | CallError:
        async with speaking(saying(*pieces, pause=pause)) as address:
            return await ask_at(address, **how)

    return run(scenario())


def answering(body: Any, status: int = 200, **headers: str) -> Callable[[web.Request], Any]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()

    async def handler(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=raw, status=status, headers=headers)

    return handler


class Noting:
    """A handler that answers and keeps what it was asked."""

    def __init__(self, body: Any) -> None:
        self.seen: list[tuple[str, str, dict[str, str], Any]] = []
        self._answer = answering(body)

    async def __call__(self, request: web.Request) -> web.Response:
        self.seen.append((request.method, request.raw_path, dict(request.headers), await request.json()))
        response: web.Response = await self._answer(request)
        return response


# -- what is sent ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["v1", "v1beta", "v1alpha"])
def test_the_location_is_in_the_path_and_the_rest_in_the_body(version: str) -> None:
    server = Noting(said("Jupiter."))
    reply = attempt(
        server,
        api_version=version,
        call=Call(request(facts=["a fact"], generation_spec={"model_id": "m", "temperature": 0.1})),
    )
    assert text_of(reply.response) == "Jupiter."
    assert (reply.first_part_ms, reply.unread_json) == (None, None)
    ((method, path, headers, body),) = server.seen
    assert (method, path) == ("POST", f"/{version}/{LOCATION}:generateGroundedContent")
    assert headers["Content-Type"] == "application/json"
    assert "Authorization" not in headers
    assert body == {
        "contents": [{"role": "user", "parts": [{"text": "Which planet is the largest?"}]}],
        "groundingSpec": {
            "groundingSources": [{"inlineSource": {"groundingFacts": [{"factText": "a fact"}]}}]
        },
        "generationSpec": {"modelId": "m", "temperature": 0.1},
    }


def test_a_stream_is_asked_for_with_a_list() -> None:
    server = Noting([said("Jupiter.")])
    attempt(server, **STREAM)
    ((_, path, _, body),) = server.seen
    assert path == f"/v1/{LOCATION}:streamGenerateGroundedContent"
    assert [one["contents"][0]["parts"] for one in body] == [[{"text": "Which planet is the largest?"}]]


@pytest.mark.parametrize("version", ["v1", "v1beta", "v1alpha"])
def test_a_check_goes_to_the_grounding_config(version: str) -> None:
    server = Noting({"supportScore": 0.5})
    call = Call(check_request())
    # A setting of the other method is none of a check's.
    reply = attempt(server, api_version=version, method="check", call=call, **STREAM)
    assert response_class("v1", "check").FromString(reply.response).support_score == 0.5
    ((_, path, _, body),) = server.seen
    assert path == f"/{version}/{LOCATION}/groundingConfigs/default_grounding_config:check"
    assert body == {
        "answerCandidate": "Tin melts at 232 degrees.",
        "facts": [{"factText": "Tin melts at 232 degrees."}],
    }


@pytest.mark.parametrize("how", [{}, STREAM], ids=["whole", "streamed"])
def test_a_user_context_goes_beside_the_message(how: dict[str, Any]) -> None:
    context = {"languageCode": "sv", "latLng": {"latitude": -25.34, "longitude": 131}}
    for body in (request(), b""):
        server = Noting([said("x")] if how else said("x"))
        attempt(server, call=Call(body, json.dumps(context)), **how)
        sent = server.seen[0][3]
        sent = sent[0] if how else sent
        assert sent.pop("userContext") == context
        assert sent.keys() == ({"contents"} if body else set())


# -- what comes back -------------------------------------------------------------------------------------


def test_what_no_message_holds_is_kept_as_it_came() -> None:
    body = json.dumps(said("Jupiter.") | {"novelty": {"b": 1.10, "a": "ä"}}, indent=1).encode()
    reply = attempt(answering(body))
    assert text_of(reply.response) == "Jupiter."
    assert reply.unread_json == body.decode()


HALF = "Tin \ud83d melts."


@pytest.mark.parametrize("how", [{}, STREAM], ids=["whole", "streamed"])
def test_half_a_surrogate_pair_loses_no_answer(how: dict[str, Any]) -> None:
    said_so = said(
        HALF,
        "\ude00",
        groundingMetadata={
            "supportChunks": [{"chunkText": HALF, "sourceMetadata": {HALF: HALF}}],
            "groundingSupport": [{"claimText": HALF, "supportChunkIndices": [0]}],
            "webSearchQueries": [HALF],
        },
    )
    body = json.dumps([said_so] if how else said_so)
    reply = attempt(answering(body.encode()), **how)
    candidate = response_class("v1").FromString(reply.response).candidates[0]
    mended = "Tin \ufffd melts."
    assert "".join(part.text for part in candidate.content.parts) == mended + "\ufffd"
    metadata = candidate.grounding_metadata
    assert dict(metadata.support_chunks[0].source_metadata) == {mended: mended}
    assert [metadata.support_chunks[0].chunk_text, *metadata.web_search_queries] == [mended, mended]
    assert metadata.grounding_support[0].claim_text == mended
    assert reply.unread_json == body


def test_half_a_surrogate_pair_loses_no_check() -> None:
    body = {"supportScore": 0.5, "claims": [{"claimText": HALF}], "citedFacts": [{"chunkText": HALF}]}
    reply = attempt(answering(body), method="check", call=Call(check_request()))
    message = response_class("v1", "check").FromString(reply.response)
    assert message.claims[0].claim_text == message.cited_facts[0].chunk_text == "Tin \ufffd melts."
    assert reply.unread_json is not None


def test_half_a_surrogate_pair_in_an_error_is_only_words() -> None:
    error = attempt(answering({"error": {"status": "ABORTED", "message": HALF}}, status=409))
    assert (error.code, error.message) == ("ABORTED", "Tin \ufffd melts.")


def test_an_unknown_enum_is_kept_by_name_as_json_and_by_number_in_the_message() -> None:
    def source(value: Any) -> Any:
        return said("x", groundingMetadata={"retrievalMetadata": [{"source": value}]})

    named = attempt(answering(source("NEWS_OF_TOMORROW")))
    assert "NEWS_OF_TOMORROW" in named.unread_json
    numbered = attempt(answering(source(99)))
    assert numbered.unread_json is None
    message = response_class("v1").FromString(numbered.response)
    assert message.candidates[0].grounding_metadata.retrieval_metadata[0].source == 99


@pytest.mark.parametrize("how", [{}, {"method": "check"}], ids=["generate", "check"])
def test_an_empty_response_is_a_response(how: dict[str, Any]) -> None:
    call = Call(check_request()) if how else Call(request())
    assert attempt(answering({}), call=call, **how).response == b""


def test_an_empty_stream_is_a_response_without_candidates() -> None:
    assert attempt(answering([]), **STREAM) == Reply(b"", None, None)


def test_a_megabyte_comes_whole() -> None:
    assert len(text_of(attempt(answering(said("ä" * 600_000))).response)) == 600_000
    reply = attempt(answering([said("ä" * 600_000), said("b")]), **STREAM)
    assert len(text_of(reply.response)) == 600_001


def test_a_compressed_body_is_read() -> None:
    for body, how in ((said("Jupiter."), {}), ([said("Jup"), said("iter.")], STREAM)):
        packed = gzip.compress(json.dumps(body).encode())
        reply = attempt(answering(packed, **{"Content-Encoding": "gzip"}), **how)
        assert text_of(reply.response) == "Jupiter."


@pytest.mark.parametrize("how", [{}, STREAM], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html><body>Sign in to the network</body></html>",
        b'{"candidates": [',
        b'"text"',
        b"null",
        b'{"candidates": [{"content": {"parts": [{"text": "\xc3\x28"}]}}]}',
        b'[{"candidates": [{"content": {"parts": [{"text": "\xc3\x28"}]}}]}]',
        b'[{"candidates": [{"content": {"parts": [{"text": "\xed\xa0\xbd"}]}}]}]',
        b'{"candidates": [{"content": {"parts": [{"text": "\xed\xa0\xbd"}]}}]}',
        b'[{"candidates": 5}]',
        b'{"candidates": 5}',
        b'[{"candidates": []}] and more]',
        b"[1]",
        b'[{"candidates": ' + b"[" * 50_000 + b"]" * 50_000 + b"}]",
    ],
)
def test_what_is_no_response_is_undecodable_and_not_tried_again(body: bytes, how: dict[str, Any]) -> None:
    error = attempt(answering(body), **how)
    assert isinstance(error, CallError)
    assert (error.code, error.retryable) == (UNDECODABLE_RESPONSE, False)


def test_a_body_that_does_not_unpack_is_undecodable() -> None:
    error = attempt(answering(b"no gzip at all", **{"Content-Encoding": "gzip"}))
    assert (error.code, error.retryable) == (UNDECODABLE_RESPONSE, False)


# -- streams, as they arrive -----------------------------------------------------------------------------


def test_a_stream_is_merged_and_timed_by_its_first_element() -> None:
    parts = [
        said("Tin melts "),
        said('at "232" degrees ]}. '),
        {"candidates": [{"groundingMetadata": {"supportChunks": [{"uri": "u"}], "webSearchQueries": ["q"]}}]},
        said("ä😀"),
    ]
    body = json.dumps(parts, ensure_ascii=False).encode()
    first = len(json.dumps([parts[0]])) - 1

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for at in range(len(body)):
            await response.write(body[at : at + 1])  # a piece each, through all characters
            if at in (10, first):
                await asyncio.sleep(0.2)
        return response

    reply = attempt(handler, **STREAM)
    assert text_of(reply.response) == 'Tin melts at "232" degrees ]}. ä😀'
    metadata = response_class("v1").FromString(reply.response).candidates[0].grounding_metadata
    assert (metadata.support_chunks[0].uri, list(metadata.web_search_queries)) == ("u", ["q"])
    assert reply.first_part_ms >= 200


def test_of_a_stream_too_what_no_message_holds_is_kept_as_it_came() -> None:
    body = b'[{"candidates": [{"novelty": 1}]},\n {"candidates": []}]\n'
    assert attempt(answering(body), **STREAM).unread_json == body.decode()


ERROR = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "no more", "details": []}}


@pytest.mark.parametrize("body", [[said("half"), ERROR], [ERROR], ERROR], ids=["last", "alone", "no list"])
def test_an_error_within_a_stream_is_one(body: Any) -> None:
    error = attempt(answering(body), **STREAM)
    assert (error.code, error.message) == ("RESOURCE_EXHAUSTED", "no more")


def test_an_error_of_a_stream_may_come_with_its_status_and_as_a_list() -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "2.5s"}]
    error = attempt(answering([{"error": ERROR["error"] | {"details": details}}], status=429), **STREAM)
    assert (error.code, error.retry_after) == ("RESOURCE_EXHAUSTED", 2.5)


half = json.dumps([said("half"), said("more")]).encode()[:-30]


@pytest.mark.parametrize(
    "pieces",
    [
        (CHUNKED, chunk(half)),
        (CHUNKED, chunk(half), b"ffff\r\n[{"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + half,),
        (UNTIL_CLOSED + half,),
        (UNTIL_CLOSED + half + b"\n",),
        (CHUNKED, chunk(half) + b"0\r\n\r\n"),
    ],
    ids=[
        "chunked",
        "within a chunk",
        "by length",
        "until closed",
        "with a new line",
        "that claims to be all",
    ],
)
def test_a_stream_that_breaks_off_is_no_half_answer(pieces: tuple[bytes, ...]) -> None:
    error = attempt_bytes(*pieces, **STREAM)
    assert isinstance(error, CallError)
    assert (error.code, error.retryable) == ("UNAVAILABLE", True)


@pytest.mark.parametrize(
    "pieces",
    [
        (),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{",),
        (CHUNKED, chunk(b"{")),
        (b"HTTP/1.1 200",),
    ],
    ids=["at once", "by length", "chunked", "within the head"],
)
def test_a_connection_that_breaks_is_unavailable(pieces: tuple[bytes, ...]) -> None:
    error = attempt_bytes(*pieces)
    assert (error.code, error.retryable) == ("UNAVAILABLE", True)


def test_what_speaks_no_http_is_unavailable() -> None:
    assert attempt_bytes(b"220 smtp.example ESMTP\r\n").code == "UNAVAILABLE"


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 2OO OK\r\n\r\n",
        b"HTTP/9.9.9 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nX: \0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 9000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 2000 + b"\r\n",
    ],
)
@pytest.mark.parametrize("how", [{}, STREAM], ids=["whole", "streamed"])
def test_a_garbled_answer_says_so(head: bytes, how: dict[str, Any]) -> None:
    error = attempt_bytes(head, **how)
    assert (error.code, error.retryable) == ("UNAVAILABLE", True)
    assert error.message.startswith(("the server's answer is not HTTP: ", "the connection broke within"))
    assert "\n" not in error.message


def test_a_bug_in_the_http_library_is_no_broken_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def __init__(self, *args: Any, **how: Any) -> None:
            pass

        def feed_data(self, data: bytes) -> Any:
            raise TypeError("a header was None")

        def feed_eof(self) -> None:
            pass

    monkeypatch.setattr("aiohttp.client_proto.HttpResponseParser", Broken)
    with pytest.raises(TypeError):
        attempt(answering(said("x")))


def test_a_server_that_is_not_there_is_unavailable() -> None:
    error = run(ask_at(f"127.0.0.1:{free_port()}"))
    assert (error.code, error.retryable) == ("UNAVAILABLE", True)


@pytest.mark.parametrize("how", [{}, STREAM], ids=["whole", "streamed"])
def test_dripping_past_the_deadline_ends_at_it(how: dict[str, Any]) -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + chunk(b"[" + json.dumps(said("x")).encode()))
        while True:
            writer.write(chunk(b" "))
            await writer.drain()
            await asyncio.sleep(0.02)

    async def scenario() -> Any:
        async with speaking(drip) as address:
            began = time.monotonic()
            error = await ask_at(address, deadline=0.5, **how)
            return error, time.monotonic() - began

    error, took = run(scenario())
    assert (error.code, error.retryable) == ("DEADLINE_EXCEEDED", True)
    assert "no answer within 0.5 s" in error.message
    assert took < 10


def test_a_redirect_is_not_followed() -> None:
    elsewhere = Noting(said("not asked"))

    async def scenario() -> Any:
        async with serving(elsewhere) as other:

            async def redirect(request: web.Request) -> web.Response:
                return web.Response(status=307, headers={"Location": f"http://{other}/"})

            async with serving(redirect) as address:
                return await ask_at(address)

    error = run(scenario())
    assert (error.code, error.retryable) == ("FAILED_PRECONDITION", False)
    assert elsewhere.seen == []


@pytest.mark.parametrize("how", [{}, STREAM], ids=["whole", "streamed"])
def test_an_error_is_told_by_the_status_in_its_body_and_its_headers(how: dict[str, Any]) -> None:
    error = attempt(answering(ERROR, status=429, **{"Retry-After": "12"}), **how)
    assert (error.code, error.message, error.retry_after) == ("RESOURCE_EXHAUSTED", "no more", 12.0)
    error = attempt(answering(b"<html>", status=502), **how)
    assert (error.code, error.message) == ("UNAVAILABLE", "HTTP 502 Bad Gateway: <html>")


# -- one client, many calls ------------------------------------------------------------------------------


def test_hundreds_of_calls_are_out_at_once_over_kept_connections() -> None:
    out = most_out = 0
    ports: set[int] = set()
    everybody = asyncio.Event()

    async def handler(request: web.Request) -> web.Response:
        nonlocal out, most_out
        assert request.transport is not None
        ports.add(request.transport.get_extra_info("peername")[1])
        out += 1
        most_out = max(most_out, out)
        if out == 200:
            everybody.set()
        await everybody.wait()
        out -= 1
        return web.json_response(said("x"))

    async def scenario() -> None:
        async with serving(handler) as address:
            client = RestClient(make_settings(address, max_in_flight=200))
            for _ in range(3):
                await asyncio.gather(*(client.ask(Call(request()), 20.0) for _ in range(200)))
            await client.close()

    run(scenario())
    assert most_out == 200
    assert len(ports) == 200


def test_a_call_that_hangs_ends_at_its_deadline_and_its_neighbours_do_not_notice() -> None:
    async def handler(request: web.Request) -> web.Response:
        if "hang" in await request.text():
            await asyncio.sleep(15)
        return web.json_response(said("here"))

    async def scenario() -> CallError:
        async with serving(handler) as address:
            client = RestClient(make_settings(address))
            hanging = asyncio.create_task(client.ask(Call(request("hang")), 1.0))
            for _ in range(5):
                assert text_of((await client.ask(Call(request("next")), 20.0)).response) == "here"
            assert not hanging.done()
            with pytest.raises(CallError) as caught:
                await hanging
            assert text_of((await client.ask(Call(request("after")), 20.0)).response) == "here"
            await client.close()
            return caught.value

    assert run(scenario(), 10).code == "DEADLINE_EXCEEDED"


def test_a_server_that_closes_between_two_calls_costs_at_most_an_attempt() -> None:
    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        body = json.dumps(said("x")).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

    async def scenario() -> None:
        async with speaking(once) as address:
            client = RestClient(make_settings(address))
            asked = (client.ask(Call(request()), 20.0) for _ in range(5))
            ended = [(await asyncio.gather(one, return_exceptions=True))[0] for one in asked]
            await client.close()
        assert isinstance(ended[0], Reply)
        assert all(isinstance(one, Reply) or (isinstance(one, CallError) and one.retryable) for one in ended)

    run(scenario())


def test_a_closed_client_answers_with_an_error() -> None:
    async def scenario() -> None:
        client = RestClient(make_settings())
        await client.close()
        with pytest.raises(CallError) as caught:
            await client.ask(Call(request()), 1.0)
        assert caught.value.code == "UNAVAILABLE"

    run(scenario())


# -- against the emulator: the same as over gRPC ---------------------------------------------------------


def both_ways(emulator: Any, call: Call, **changes: Any) -> list[Any]:
    async def scenario() -> list[Any]:
        kind = response_class(changes.get("api_version", "v1"), changes.get("method", "generate"))
        messages = []
        for client_of, address in ((GrpcClient, emulator.address), (RestClient, emulator.rest_address)):
            client = client_of(make_settings(address, **changes))
            reply = await client.ask(call, 20.0)
            await client.close()
            assert reply.unread_json is None
            messages.append(kind.FromString(reply.response))
        return messages

    found: list[Any] = run(scenario())
    return found


def test_grpc_and_rest_give_the_same_message() -> None:
    facts = ["Pheidippides ran from Marathon to Athens.", "Tin melts at 232 degrees."]
    asked = [
        request("Who ran from Marathon?", facts=facts),
        request("Which planet is the largest?", grounding_sources=[{"google_search_source": {}}]),
        request("Which planet is the largest?"),
    ]
    with running_emulator("--port=0", "--rest_port=0") as emulator:
        for how in ({}, STREAM, {"api_version": "v1beta"}, {"api_version": "v1beta", **STREAM}):
            for body in asked:
                over_grpc, over_rest = both_ways(emulator, Call(body), **how)
                assert over_grpc.candidates[0].content.parts[0].text
                assert over_rest == over_grpc
        call = Call(check_request())
        over_grpc, over_rest = both_ways(emulator, call, method="check")
        assert over_grpc.claims
        assert over_rest == over_grpc


@pytest.mark.parametrize("how", [{}, STREAM], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ("hang", "DEADLINE_EXCEEDED"),
        ("disconnect", "UNAVAILABLE"),
        ("undecodable", UNDECODABLE_RESPONSE),
        ("unauthenticated", "UNAUTHENTICATED"),
        ("internal", "INTERNAL"),
    ],
)
def test_the_emulators_faults_have_their_codes(
    fault: str, code: str, how: dict[str, Any], tmp_path: Any
) -> None:
    log = tmp_path / "log"
    with running_emulator(
        "--port=0", "--rest_port=0", f"--faults={fault}:1", f"--call_log={log}"
    ) as emulator:
        error = run(ask_at(emulator.rest_address or "", deadline=1.0, **how))
    assert isinstance(error, CallError)
    assert error.code == code
    assert len(read_log(log)) == 1  # nothing is tried again by itself


def test_the_emulators_quota_says_when_to_come_back() -> None:
    with running_emulator("--port=0", "--rest_port=0", "--requests_per_minute=1") as emulator:
        assert isinstance(run(ask_at(emulator.rest_address or "")), Reply)
        error = run(ask_at(emulator.rest_address or ""))
    assert error.code == "RESOURCE_EXHAUSTED"
    assert f"{error.retry_after:.3f} s" in error.message


def test_requests_of_every_kind_are_json_that_the_service_reads_back() -> None:
    """What is sent is parsed strictly by the emulator; here it is compared as well."""
    server = Noting(said("x"))
    body = request(
        facts=[{"fact_text": "ä😀\0", "attributes": {"k": "v"}}],
        system_instruction="be brief",
        user_labels={"a": "b"},
        generation_spec={"model_id": "m", "temperature": 0.1, "top_k": 5, "seed": -3, "top_p": 0.0},
    )
    attempt(server, call=Call(body))
    sent = json_format.ParseDict(server.seen[0][3], request_class("v1")())
    sent.location = LOCATION
    assert sent == request_class("v1").FromString(body)
