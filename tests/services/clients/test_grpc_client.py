import asyncio
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc
import pytest
from google.protobuf import any_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2
from hypothesis import given
from hypothesis import strategies as st

from groundrows.pipeline.emulator.process import running_emulator
from groundrows.schemas.codes import MESSAGE_TOO_LARGE, RESPONSE_TOO_LARGE, UNDECODABLE_RESPONSE
from groundrows.schemas.discoveryengine.messages import response_class
from groundrows.schemas.errors import CallError
from groundrows.transforms.generate.calling.conversation import turn_request
from groundrows.transforms.generate.clients.base import Call, Reply
from groundrows.transforms.generate.clients.discoveryengine.grpc_client import GrpcClient, call_error
from tests.support.engines import (
    LOCATION,
    make_question,
    make_settings,
    read_log,
    response,
    run,
    text_of,
)
from tests.support.http2_servers import answering_grpc, framed
from tests.support.services import free_port

ERROR_CODES = [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK]
SERVICE = "google.cloud.discoveryengine.v1.GroundedGenerationService"


def request(text="Which planet is the largest?", location=LOCATION):
    return turn_request(make_question(text, id="q"), (), location)


@contextmanager
def serving(behaviour):
    """A server of one method, whose handler gets the request's bytes and the call's context."""
    handler = grpc.unary_unary_rpc_method_handler(behaviour)
    server = grpc.server(ThreadPoolExecutor(8), options=[("grpc.max_send_message_length", -1)])
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(SERVICE, {"GenerateGroundedContent": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(0).wait()


def attempt(address, *, deadline=20.0, body=None, **changes):
    """One call; its response or its error."""

    async def scenario():
        client = GrpcClient(make_settings(address, **changes))
        try:
            return (await client.ask(Call(request() if body is None else body), deadline)).response
        except CallError as error:
            return error
        finally:
            await client.close()

    return run(scenario())


def details_with(*messages):
    status = status_pb2.Status(code=code_pb2.RESOURCE_EXHAUSTED, message="too much")
    for message in messages:
        packed = any_pb2.Any()
        packed.Pack(message)
        status.details.append(packed)
    return status.SerializeToString()


def retry_info(seconds, nanos=0):
    info = error_details_pb2.RetryInfo()
    info.retry_delay.seconds = seconds
    info.retry_delay.nanos = nanos
    return info


@contextmanager
def serving_streams(behaviour):
    """A server of the streaming method, whose handler gets an iterator of requests and yields responses."""
    handler = grpc.stream_stream_rpc_method_handler(behaviour)
    server = grpc.server(ThreadPoolExecutor(8), options=[("grpc.max_send_message_length", -1)])
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(SERVICE, {"StreamGenerateGroundedContent": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(0).wait()


def ask_for_stream(address, deadline=20.0):
    """One streamed call; its reply or its error."""

    async def scenario():
        client = GrpcClient(make_settings(address, stream_answers=True))
        try:
            return await client.ask(Call(request()), deadline)
        except CallError as error:
            return error
        finally:
            await client.close()

    return run(scenario())


def test_an_answer_comes_back_as_the_bytes_the_server_sent():
    def behaviour(body, context):
        assert body == request()
        header = dict(context.invocation_metadata())["x-goog-request-params"]
        assert header == "location=projects%2Fp%2Flocations%2Fglobal"
        return response("Jupiter.")

    with serving(behaviour) as address:
        assert attempt(address) == response("Jupiter.")


@pytest.mark.parametrize("code", ERROR_CODES, ids=lambda code: code.name)
def test_every_status_is_told_by_its_name_and_words(code):
    def behaviour(body, context):
        context.abort(code, f"words about {code.name}")

    with serving(behaviour) as address:
        error = attempt(address)
    assert error.code == code.name
    assert f"words about {code.name}" in error.message
    assert error.retry_after is None


def test_a_response_larger_than_the_limit_only_looks_like_a_quota():
    with serving(lambda body, context: response("x" * 2_000)) as address:
        error = attempt(address, max_response_bytes=1_000)
    assert error.code == RESPONSE_TOO_LARGE
    assert not error.retryable


def test_a_request_larger_than_the_servers_limit_only_looks_like_a_quota():
    with serving(lambda body, context: response("")) as address:
        error = attempt(address, body=request("x" * 5_000_000))
    assert error.code == MESSAGE_TOO_LARGE
    assert not error.retryable


def test_a_response_that_can_not_be_decoded_only_looks_like_a_broken_server():
    for body in (b"\x0a\x7f\x12", b"\xff" * 50, b"\x0a\x08\x12\x06\x0a\x04\x0a\x02\xc3\x28"):
        with serving(lambda _, context, body=body: body) as address:
            error = attempt(address)
        assert error.code == UNDECODABLE_RESPONSE
        assert not error.retryable


def test_the_librarys_own_account_of_an_undecodable_response_is_known_too():
    error = call_error("INTERNAL", "Exception deserializing response!", (), 1.0)
    assert (error.code, error.retryable) == (UNDECODABLE_RESPONSE, False)
    assert call_error("INTERNAL", "a broken server", (), 1.0).retryable


def test_a_response_may_be_larger_than_grpc_takes_by_default():
    with serving(lambda body, context: response("x" * 8_000_000)) as address:
        assert len(text_of(attempt(address))) == 8_000_000


def test_an_empty_response_is_a_response():
    with serving(lambda body, context: b"") as address:
        assert attempt(address) == b""


async def ask_bytes(messages, *, head=None, trailers=None, **changes):
    """One call of a server that says these bytes; its reply or its error."""
    async with answering_grpc(messages, head=head, trailers=trailers) as address:
        client = GrpcClient(make_settings(address, **changes))
        try:
            return await client.ask(Call(request()), 20.0)
        except CallError as error:
            return error
        finally:
            await client.close()


def test_success_without_a_response_is_a_broken_server():
    error = run(ask_bytes([]))
    assert (error.code, error.retryable) == ("INTERNAL", True)
    assert error.message == "the server says OK and sends no response"


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("head", "trailers"),
    [
        *(({}, {"grpc-status": status}) for status in (b"", b"-1", b"99", b"abc", b"4294967296", b"\xff")),
        *(({}, {"grpc-status": b"8", "grpc-message": said}) for said in (b"%FF%FE", b"%zz", b"\xff", b"\0")),
        *(({}, {"grpc-status": b"8", "grpc-status-details-bin": said}) for said in (b"!!", b"\xff", b"AAAA")),
        ({}, {}),
        *(({":status": status}, None) for status in (b"500", b"307", b"abc")),
        ({"grpc-encoding": b"br"}, None),
        ({"grpc-retry-pushback-ms": b"soon"}, None),
        ({"": b"x"}, None),
        ({"X-Upper": b"x"}, None),
    ],
)
def test_a_garbled_answer_is_an_error_of_the_servers(head, trailers, streamed):
    error = run(ask_bytes([framed(response("x"))], head=head, trailers=trailers, stream_answers=streamed))
    assert isinstance(error, CallError)
    assert error.code in ("INTERNAL", "UNKNOWN", "RESOURCE_EXHAUSTED")
    assert error.retryable


@given(seconds=st.integers(0, 10**6), millis=st.integers(0, 999))
def test_retry_info_is_read_to_the_millisecond(seconds, millis):
    trailing = (("grpc-status-details-bin", details_with(retry_info(seconds, millis * 1_000_000))),)
    error = call_error("RESOURCE_EXHAUSTED", "", trailing, 1.0)
    assert round(error.retry_after * 1000) == min(seconds * 1000 + millis, 86_400_000)


@pytest.mark.parametrize(
    ("trailing", "expected"),
    [
        ((), None),
        ((("grpc-status-details-bin", b"\xff\xff"),), None),
        ((("grpc-status-details-bin", details_with()),), None),
        ((("grpc-status-details-bin", details_with(error_details_pb2.RetryInfo())),), None),
        ((("grpc-status-details-bin", details_with(error_details_pb2.ErrorInfo(reason="r"))),), None),
        ((("other", "x"), ("grpc-status-details-bin", details_with(retry_info(2)))), 2.0),
        (
            (
                (
                    "grpc-status-details-bin",
                    details_with(error_details_pb2.ErrorInfo(reason="r"), retry_info(1, 500_000_000)),
                ),
            ),
            1.5,
        ),
        ((("grpc-status-details-bin", details_with(retry_info(-5))),), 0.0),
    ],
)
def test_details_of_every_kind_are_survived(trailing, expected):
    assert call_error("RESOURCE_EXHAUSTED", "", trailing, 1.0).retry_after == expected


def test_a_retry_info_that_is_damaged_is_none():
    status = status_pb2.Status(code=8)
    status.details.add(type_url="type.googleapis.com/google.rpc.RetryInfo", value=b"\x0a\x7f\x12")
    trailing = (("grpc-status-details-bin", status.SerializeToString()),)
    assert call_error("RESOURCE_EXHAUSTED", "", trailing, 1.0).retry_after is None


def test_retry_info_arrives_with_the_status():
    def behaviour(body, context):
        context.set_trailing_metadata(
            (("grpc-status-details-bin", details_with(retry_info(12, 345_000_000))),)
        )
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too much")

    with serving(behaviour) as address:
        assert attempt(address).retry_after == pytest.approx(12.345)


def test_a_call_that_is_never_answered_ends_at_its_deadline_and_its_neighbours_do_not_notice():
    over = threading.Event()

    def behaviour(body, context):
        if b"hang" in body:
            over.wait(20)
        return response("here")

    async def scenario(address):
        client = GrpcClient(make_settings(address))
        hanging = asyncio.create_task(client.ask(Call(request("hang")), 1.5))
        await asyncio.sleep(0.05)
        for _ in range(5):
            assert text_of((await client.ask(Call(request("next")), 20.0)).response) == "here"
        assert not hanging.done()
        with pytest.raises(CallError) as caught:
            await hanging
        assert text_of((await client.ask(Call(request("after")), 20.0)).response) == "here"
        await client.close()
        return caught.value

    with serving(behaviour) as address:
        error = run(scenario(address), 10)
        over.set()
    assert error.code == "DEADLINE_EXCEEDED"
    assert "1.5 s" in error.message
    assert error.retryable


def test_a_server_that_is_not_there_is_unavailable():
    error = attempt(f"127.0.0.1:{free_port()}")
    assert (error.code, error.retryable) == ("UNAVAILABLE", True)


def test_a_server_that_takes_connections_and_says_nothing_is_cut_at_the_deadline():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        error = attempt(f"127.0.0.1:{silent.getsockname()[1]}", deadline=0.5)
    assert error.retryable


def test_what_answers_no_grpc_is_an_error_that_names_itself():
    async def scenario():
        async def web(reader, writer):
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(web, "127.0.0.1", 0)
        client = GrpcClient(make_settings(f"127.0.0.1:{server.sockets[0].getsockname()[1]}"))
        with pytest.raises(CallError) as caught:
            await client.ask(Call(request()), 5.0)
        await client.close()
        server.close()
        return caught.value

    assert run(scenario()).code in ("UNAVAILABLE", "DEADLINE_EXCEEDED", "UNKNOWN", "INTERNAL")


def test_a_closed_client_answers_with_an_error():
    async def scenario():
        client = GrpcClient(make_settings())
        await client.close()
        with pytest.raises(CallError) as caught:
            await client.ask(Call(request()), 1.0)
        assert caught.value.code == "UNAVAILABLE"

    run(scenario())


# -- streams ---------------------------------------------------------------------------------------------


def test_a_stream_is_asked_for_once_and_comes_back_as_one_message():
    def behaviour(requests, context):
        assert list(requests) == [request()]  # one, and an end behind it
        header = dict(context.invocation_metadata())["x-goog-request-params"]
        assert header == "location=projects%2Fp%2Flocations%2Fglobal"
        yield response("Jup")
        time.sleep(1.0)
        yield response("iter.")

    with serving_streams(behaviour) as address:
        began = time.monotonic()
        reply = ask_for_stream(address)
        took = (time.monotonic() - began) * 1000
    assert text_of(reply.response) == "Jupiter."
    assert 0 < reply.first_part_ms < took - 500
    assert reply.unread_json is None


def test_a_stream_without_a_message_is_a_response_without_candidates():
    with serving_streams(lambda requests, context: iter(())) as address:
        assert ask_for_stream(address) == Reply(b"", None, None)


def test_a_stream_that_ends_in_an_error_is_no_half_answer():
    def behaviour(requests, context):
        yield response("half")
        context.set_trailing_metadata((("grpc-status-details-bin", details_with(retry_info(3))),))
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "no more")

    with serving_streams(behaviour) as address:
        error = ask_for_stream(address)
    assert (error.code, error.message, error.retry_after) == ("RESOURCE_EXHAUSTED", "no more", 3.0)


def test_a_part_that_can_not_be_decoded_ends_the_stream_on_both_sides():
    ended = threading.Event()

    def behaviour(requests, context):
        context.add_callback(ended.set)
        yield response("half")
        yield b"\x0a\x7f\x12"
        ended.wait(20)

    with serving_streams(behaviour) as address:
        error = ask_for_stream(address)
        assert ended.wait(10)
    assert (error.code, error.retryable) == (UNDECODABLE_RESPONSE, False)


def test_the_deadline_is_that_of_the_whole_stream():
    over = threading.Event()

    def behaviour(requests, context):
        while not over.wait(0.02):
            yield response("drip ")

    with serving_streams(behaviour) as address:
        error = ask_for_stream(address, deadline=0.5)
        over.set()
    assert (error.code, error.retryable) == ("DEADLINE_EXCEEDED", True)
    assert "0.5 s" in error.message


def test_a_caller_who_gives_up_ends_the_stream():
    ended = threading.Event()

    def behaviour(requests, context):
        context.add_callback(ended.set)
        yield response("half")
        ended.wait(20)

    async def scenario(address):
        client = GrpcClient(make_settings(address, stream_answers=True))
        asked = asyncio.create_task(client.ask(Call(request()), 20.0))
        await asyncio.sleep(0.3)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        assert await asyncio.to_thread(ended.wait, 10)
        await client.close()

    with serving_streams(behaviour) as address:
        run(scenario(address))


def test_a_streams_parts_may_be_larger_than_grpc_takes_by_default():
    with serving_streams(lambda requests, context: iter([response("x" * 8_000_000)] * 2)) as address:
        assert len(text_of(ask_for_stream(address).response)) == 16_000_000


# -- checks ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["v1", "v1beta"])
def test_a_check_goes_to_the_grounding_config(version):
    seen = []

    def behaviour(body, context):
        seen.append((body, dict(context.invocation_metadata())["x-goog-request-params"]))
        return response_class(version, "check")(support_score=0.25).SerializeToString()

    handler = grpc.unary_unary_rpc_method_handler(behaviour)
    server = grpc.server(ThreadPoolExecutor(1))
    service = SERVICE.replace(".v1.", f".{version}.")
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(service, {"CheckGrounding": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        # A setting of the other method is none of a check's.
        how = {"method": "check", "stream_answers": True, "api_version": version}
        answer = attempt(f"127.0.0.1:{port}", body=b"the request", **how)
    finally:
        server.stop(0).wait()
    assert response_class(version, "check").FromString(answer).support_score == 0.25
    config = (
        "grounding_config=projects%2Fp%2Flocations%2Fglobal%2FgroundingConfigs%2Fdefault_grounding_config"
    )
    assert seen == [(b"the request", config)]


# -- against the emulator --------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["v1", "v1beta"])
def test_the_emulator_answers_both_versions(version):
    with running_emulator() as emulator:
        answer = attempt(emulator.address, api_version=version)
    assert response_class(version).FromString(answer).candidates[0].content.parts[0].text


def test_the_emulators_quota_says_when_to_come_back():
    with running_emulator("--requests_per_minute=1") as emulator:
        assert isinstance(attempt(emulator.address), bytes)
        error = attempt(emulator.address)
    assert error.code == "RESOURCE_EXHAUSTED"
    assert f"{error.retry_after:.3f} s" in error.message
    assert 55 < error.retry_after <= 60


def test_a_quota_of_nothing_does_not_say_when():
    with running_emulator("--requests_per_minute=0") as emulator:
        error = attempt(emulator.address)
    assert (error.code, error.retry_after) == ("RESOURCE_EXHAUSTED", None)


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
def test_the_emulators_faults_have_their_codes(fault, code, tmp_path):
    log = tmp_path / "log"
    with running_emulator(f"--faults={fault}:1", f"--call_log={log}") as emulator:
        assert attempt(emulator.address, deadline=1.0).code == code
    assert len(read_log(log)) == 1  # the channel tries nothing again by itself


@pytest.mark.parametrize("fault", ["oversized", "malformed", "no_content", "empty"])
def test_odd_answers_are_answers(fault):
    with running_emulator(f"--faults={fault}:1") as emulator:
        assert isinstance(attempt(emulator.address), bytes)


def test_the_emulator_checks_the_routing_header():
    with running_emulator() as emulator:
        wrong = attempt(emulator.address, body=request(location="projects/p/locations/eu"))
    assert wrong.code == "INVALID_ARGUMENT"


def test_hundreds_of_calls_are_out_at_once():
    async def scenario(address):
        client = GrpcClient(make_settings(address))
        began = time.monotonic()
        await asyncio.gather(*(client.ask(Call(request(f"q{number}")), 20.0) for number in range(256)))
        took = time.monotonic() - began
        await client.close()
        return took

    with running_emulator("--answers=canned", "--latency=0.5") as emulator:
        assert run(scenario(emulator.address)) < 0.5 * 256 / 8  # one after another: 128 s


def test_the_emulators_stream_is_the_answer_in_parts():
    async def scenario(address):
        replies = []
        for streamed in (False, True):
            client = GrpcClient(make_settings(address, stream_answers=streamed))
            body = request("Which planet is the largest?")
            replies.append(await client.ask(Call(body), 20.0))
            await client.close()
        return replies

    with running_emulator() as emulator:
        whole, streamed = run(scenario(emulator.address))
    assert text_of(streamed.response) == text_of(whole.response)
    assert whole.first_part_ms is None
    assert streamed.first_part_ms > 0


@pytest.mark.parametrize(
    ("fault", "code"),
    [("hang", "DEADLINE_EXCEEDED"), ("disconnect", "UNAVAILABLE"), ("undecodable", UNDECODABLE_RESPONSE)],
)
def test_the_emulators_faults_break_a_stream_too(fault, code):
    with running_emulator(f"--faults={fault}:1") as emulator:
        assert ask_for_stream(emulator.address, deadline=1.0).code == code
