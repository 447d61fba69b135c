"""The real server as a process of its own, asked with the generated clients."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.api_core import exceptions
from google.cloud import discoveryengine_v1 as v1
from google.cloud import discoveryengine_v1beta as v1beta
from google.rpc import error_details_pb2

from groundrows.pipeline.emulator.discoveryengine.messages import Response
from groundrows.pipeline.emulator.process import EmulatorProcess, running_emulator
from tests.support.emulator_clients import (
    DEADLINE,
    LOCATION,
    MOUNTAIN,
    UNLIMITED,
    async_client,
    check_of,
    generate,
    log_of,
    merged,
    request_of,
    sync_client,
    wait_for,
    with_bare_claims,
    without_scores,
)
from tests.support.paths import ROOT

METHOD = "/google.cloud.discoveryengine.v1.GroundedGenerationService/GenerateGroundedContent"
ROUTING = (("x-goog-request-params", f"location={LOCATION}"),)


def serves(address: str) -> bool:
    host, port = address.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


@pytest.fixture(scope="module")
def emulator() -> Iterator[EmulatorProcess]:
    with running_emulator() as running:
        yield running


@pytest.mark.parametrize("api", [v1, v1beta])
def test_answers_the_generated_client(emulator: EmulatorProcess, api: Any) -> None:
    response = generate(sync_client(api, emulator.address), "What is the capital of France?", api)
    [candidate] = response.candidates
    assert "Paris" in candidate.content.parts[0].text
    [support] = candidate.grounding_metadata.grounding_support
    chunk = candidate.grounding_metadata.support_chunks[support.support_chunk_indices[0]]
    assert support.claim_text in chunk.chunk_text
    assert candidate.grounding_metadata.search_entry_point.rendered_content


@pytest.mark.parametrize("api", [v1, v1beta])
def test_answers_the_generated_async_client(emulator: EmulatorProcess, api: Any) -> None:
    async def run() -> list[str]:
        async with grpc.aio.insecure_channel(emulator.address, options=UNLIMITED) as channel:
            client = async_client(api, channel)
            prompts = ["Who painted the Mona Lisa?"] * 10 + ["Who discovered penicillin?"] * 10
            calls = [client.generate_grounded_content(request_of(api, p), timeout=DEADLINE) for p in prompts]
            return [answer.candidates[0].content.parts[0].text for answer in await asyncio.gather(*calls)]

    answers = asyncio.run(run())
    assert all("Leonardo" in answer for answer in answers[:10])
    assert all("Fleming" in answer for answer in answers[10:])


def test_listens_on_the_loopback_interface_alone(emulator: EmulatorProcess) -> None:
    assert emulator.address.startswith("127.0.0.1:")
    port = int(emulator.address.rsplit(":", 1)[1])
    with socket.socket() as other:
        other.bind(("127.0.0.2", port))  # fails if the emulator listens on every interface


def test_an_invalid_request_is_refused_with_field_violations(emulator: EmulatorProcess) -> None:
    with pytest.raises(exceptions.InvalidArgument) as raised:
        generate(sync_client(v1, emulator.address), " ")
    [details] = raised.value.details
    assert isinstance(details, error_details_pb2.BadRequest)
    assert [entry.field for entry in details.field_violations] == ["contents[0].parts"]


def test_a_call_without_the_routing_header_is_refused(emulator: EmulatorProcess) -> None:
    with grpc.insecure_channel(emulator.address) as channel:
        call = channel.unary_unary(METHOD, request_serializer=v1.GenerateGroundedContentRequest.serialize)
        with pytest.raises(grpc.RpcError) as raised:
            call(request_of(v1, "Why?"), timeout=DEADLINE)
        assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert call(request_of(v1, "Why?"), timeout=DEADLINE, metadata=ROUTING)


def raw(message: Any) -> Any:
    return type(message).pb(message)


def told_whole(parts: list[Any], api: Any) -> Any:
    response = merged([raw(part) for part in parts], api.GenerateGroundedContentResponse.pb()())
    return with_bare_claims(response)


@pytest.mark.parametrize("api", [v1, v1beta])
def test_streams_to_the_generated_client_what_it_answers_in_one(emulator: EmulatorProcess, api: Any) -> None:
    client = sync_client(api, emulator.address)
    parts = list(client.stream_generate_grounded_content(iter([request_of(api, MOUNTAIN)]), timeout=DEADLINE))
    assert len(parts) > 6
    assert told_whole(parts, api) == without_scores(raw(generate(client, MOUNTAIN, api)))


@pytest.mark.parametrize("api", [v1, v1beta])
def test_streams_to_the_generated_async_client(emulator: EmulatorProcess, api: Any) -> None:
    async def run() -> list[Any]:
        async with grpc.aio.insecure_channel(emulator.address, options=UNLIMITED) as channel:
            client = async_client(api, channel)

            async def requests() -> AsyncIterator[Any]:
                yield request_of(api, "Tell me about Mount Everest.", "It is high.", "Who climbed it first?")

            stream = await client.stream_generate_grounded_content(requests(), timeout=DEADLINE)
            return [part async for part in stream]

    [candidate] = told_whole(asyncio.run(run()), api).candidates
    assert "Hillary" in candidate.content.parts[0].text


def test_a_stream_is_answered_before_its_client_is_done(emulator: EmulatorProcess) -> None:
    done = threading.Event()

    def requests() -> Iterator[Any]:
        yield request_of(v1, MOUNTAIN)
        done.wait(DEADLINE)

    parts = sync_client(v1, emulator.address).stream_generate_grounded_content(requests(), timeout=DEADLINE)
    try:
        assert list(parts)
    finally:
        done.set()


def test_a_stream_that_asks_nothing_or_nonsense_is_refused(emulator: EmulatorProcess) -> None:
    client = sync_client(v1, emulator.address)
    for requests in ([], [request_of(v1, " ")]):
        with pytest.raises(exceptions.InvalidArgument):
            list(client.stream_generate_grounded_content(iter(requests), timeout=DEADLINE))


@pytest.mark.parametrize("api", [v1, v1beta])
def test_checks_for_the_generated_clients(emulator: EmulatorProcess, api: Any) -> None:
    request = check_of(api, "Thun lies on a lake – größtes. Is it old?", "The town of Thun lies on a lake.")

    async def run() -> Any:
        async with grpc.aio.insecure_channel(emulator.address) as channel:
            return await async_client(api, channel).check_grounding(request, timeout=DEADLINE)

    response = asyncio.run(run())
    assert response == sync_client(api, emulator.address).check_grounding(request, timeout=DEADLINE)
    statement, question = response.claims
    assert (statement.start_pos, statement.end_pos) == (0, len("Thun lies on a lake – größtes.".encode()))
    assert list(statement.citation_indices) == [0]
    assert statement.grounding_check_required
    assert not question.grounding_check_required
    assert response.support_score == pytest.approx(statement.score)
    assert response.cited_chunks[0].source == "0"


def test_a_check_without_the_routing_header_is_refused(emulator: EmulatorProcess) -> None:
    with grpc.insecure_channel(emulator.address) as channel:
        call = channel.unary_unary(
            METHOD.replace("GenerateGroundedContent", "CheckGrounding"),
            request_serializer=v1.CheckGroundingRequest.serialize,
        )
        with pytest.raises(grpc.RpcError) as raised:
            call(check_of(v1, "This is so."), timeout=DEADLINE, metadata=ROUTING)
        assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_v1_knows_nothing_of_the_fields_of_v1beta(emulator: EmulatorProcess) -> None:
    request = request_of(v1beta, "What is the capital of France?")
    source = request.grounding_spec.grounding_sources[0].google_search_source
    source.exclude_domains.append("capitals.example")
    body = v1beta.GenerateGroundedContentRequest.serialize(request)

    def answer(version: str) -> str:
        with grpc.insecure_channel(emulator.address) as channel:
            call = channel.unary_unary(METHOD.replace(".v1.", f".{version}."))
            response = Response.FromString(call(body, timeout=DEADLINE, metadata=ROUTING))
        return str(response.candidates[0].content.parts[0].text)

    assert "Paris" in answer("v1")
    assert "Paris" not in answer("v1beta")


def test_bytes_that_are_no_request_are_refused(emulator: EmulatorProcess) -> None:
    with grpc.insecure_channel(emulator.address) as channel:
        call = channel.unary_unary(METHOD)
        for body in (b"\x0a\x7f", b"\xff", b"\x0a\x02\xc3\x28"):
            with pytest.raises(grpc.RpcError) as raised:
                call(body, timeout=DEADLINE, metadata=ROUTING)
            assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_a_refusal_of_everything_at_once_still_fits_into_the_trailers(emulator: EmulatorProcess) -> None:
    request = request_of(v1, "Why?")
    request.user_labels.update({f"Key {'k' * 1000} {i}": "Value" for i in range(100)})
    with pytest.raises(exceptions.InvalidArgument) as raised:
        sync_client(v1, emulator.address).generate_grounded_content(request, timeout=DEADLINE)
    assert raised.value.details[0].field_violations


def test_the_quota_holds_and_a_changed_limit_applies_at_once(tmp_path: Path) -> None:
    log, limits = tmp_path / "calls.jsonl", tmp_path / "limits.json"
    with running_emulator(
        "--requests_per_minute=2", f"--limits_file={limits}", f"--call_log={log}", "--answers=canned"
    ) as emulator:
        client = sync_client(v1, emulator.address)
        generate(client, "one")
        generate(client, "two")
        with pytest.raises(exceptions.ResourceExhausted) as raised:
            generate(client, "three")
        [retry] = raised.value.details
        assert isinstance(retry, error_details_pb2.RetryInfo)
        assert 0 < retry.retry_delay.ToMilliseconds() <= 60_000

        limits.write_text('{"requests_per_minute": 3}')
        emulator.signal(signal.SIGHUP)

        def accepted() -> bool:
            try:
                generate(client, "four")
            except exceptions.ResourceExhausted:
                return False
            return True

        assert wait_for(accepted)
        limits.write_text('{"requests_per_minute": 0}')
        emulator.signal(signal.SIGHUP)

        def gone_for_good() -> bool:
            with pytest.raises(exceptions.ResourceExhausted) as raised:
                generate(client, "five")
            return not raised.value.details

        assert wait_for(gone_for_good)
        codes = [(line["prompt"], line["code"]) for line in log_of(log)]
        assert codes[:3] == [("one", "OK"), ("two", "OK"), ("three", "RESOURCE_EXHAUSTED")]
        assert codes.count(("four", "OK")) == 1


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("unavailable", exceptions.ServiceUnavailable),
        ("resource_exhausted", exceptions.ResourceExhausted),
        ("deadline_exceeded", exceptions.DeadlineExceeded),
        ("permission_denied", exceptions.PermissionDenied),
        ("undecodable", exceptions.InternalServerError),
        ("disconnect", exceptions.ServiceUnavailable),
    ],
)
def test_faults_as_the_generated_client_sees_them(fault: str, error: type[Exception]) -> None:
    with running_emulator(f"--faults={fault}:1") as emulator:
        client = sync_client(v1, emulator.address)
        for prompt in ("one", "two"):  # the second shows that the server lives on
            with pytest.raises(error):
                generate(client, prompt)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("unavailable", exceptions.ServiceUnavailable),
        ("undecodable", exceptions.InternalServerError),
        ("disconnect", exceptions.ServiceUnavailable),
    ],
)
def test_streams_break_at_the_start_or_along_the_way(fault: str, error: type[Exception]) -> None:
    def parts_before(client: Any, prompt: str) -> int:
        received: list[Any] = []

        def read() -> None:  # the client fetches the first part before it returns
            requests = iter([request_of(v1, prompt)])
            received.extend(client.stream_generate_grounded_content(requests, timeout=DEADLINE))

        with pytest.raises(error):
            read()
        return len(received)

    with running_emulator(f"--faults={fault}:1") as emulator:
        client = sync_client(v1, emulator.address)
        counts = [parts_before(client, f"{MOUNTAIN} {'Really' * i}") for i in range(12)]
    assert min(counts) < max(counts)


def test_faults_meet_checks_too(tmp_path: Path) -> None:
    log = tmp_path / "calls.jsonl"
    with (
        running_emulator("--faults=unavailable:1", f"--call_log={log}") as emulator,
        pytest.raises(exceptions.ServiceUnavailable),
    ):
        sync_client(v1, emulator.address).check_grounding(check_of(v1, "It is so."), timeout=DEADLINE)
    [line] = log_of(log)
    assert (line["method"], line["prompt"], line["turn"]) == ("CheckGrounding", "It is so.", 0)
    assert (line["code"], line["transport"], line["version"]) == ("UNAVAILABLE", "grpc", "v1")


def test_a_hung_call_is_logged_as_it_arrives_and_ends_with_its_deadline(tmp_path: Path) -> None:
    log = tmp_path / "calls.jsonl"
    with running_emulator("--faults=hang:1", f"--call_log={log}") as emulator:
        client = sync_client(v1, emulator.address)
        with pytest.raises(exceptions.DeadlineExceeded):
            generate(client, "Why?", timeout=0.5)
        assert [line["code"] for line in log_of(log)] == ["HANG"]


def test_an_oversized_answer_exceeds_the_default_receive_limit_only() -> None:
    with running_emulator("--faults=oversized:1") as emulator:
        response = generate(sync_client(v1, emulator.address), "Which planet is the largest?")
        assert len(response.candidates[0].content.parts[0].text) > 4 * 1024 * 1024
        service = v1.services.grounded_generation_service
        transport = service.transports.GroundedGenerationServiceGrpcTransport(
            channel=grpc.insecure_channel(emulator.address)
        )
        with pytest.raises(exceptions.ResourceExhausted):
            generate(service.GroundedGenerationServiceClient(transport=transport), "Why?")


def test_the_same_faults_meet_the_same_calls_in_every_run(tmp_path: Path) -> None:
    def run(seed: int) -> list[str]:
        log = tmp_path / f"{seed}-{len(list(tmp_path.iterdir()))}.jsonl"
        with running_emulator(
            "--faults=unavailable:0.3,empty:0.2", f"--seed={seed}", f"--call_log={log}"
        ) as emulator:
            client = sync_client(v1, emulator.address)
            for i in range(20):
                try:
                    generate(client, f"question {i % 10}")
                except exceptions.ServiceUnavailable:
                    continue
        return [f"{line['prompt']} {line['code']} {line.get('fault')}" for line in log_of(log)]

    assert run(1) == run(1) != run(2)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_stops_with_exit_code_0_even_with_a_hung_call(tmp_path: Path, signum: int) -> None:
    log = tmp_path / "calls.jsonl"
    with (
        running_emulator("--faults=hang:1", f"--call_log={log}") as emulator,
        grpc.insecure_channel(emulator.address) as channel,
    ):
        call = channel.unary_unary(
            METHOD, request_serializer=v1.GenerateGroundedContentRequest.serialize
        ).future(request_of(v1, "Why?"), timeout=DEADLINE, metadata=ROUTING)
        assert wait_for(lambda: bool(log_of(log)))
        emulator.signal(signum)
        assert emulator.wait() == 0
        assert call.code() is grpc.StatusCode.UNAVAILABLE


def test_a_call_under_way_is_answered_before_the_end(tmp_path: Path) -> None:
    log = tmp_path / "calls.jsonl"
    with (
        running_emulator("--latency=0.5", "--answers=canned", f"--call_log={log}") as emulator,
        grpc.insecure_channel(emulator.address) as channel,
    ):
        call = channel.unary_unary(
            METHOD, request_serializer=v1.GenerateGroundedContentRequest.serialize
        ).future(request_of(v1, "Why?"), timeout=DEADLINE)
        assert wait_for(lambda: bool(log_of(log)))
        emulator.signal(signal.SIGTERM)
        assert call.result()
        assert emulator.wait() == 0


def test_leaves_nothing_behind_when_its_parent_is_killed() -> None:
    program = """
import time
from groundrows.pipeline.emulator.process import running_emulator
with running_emulator() as emulator:
    print(emulator.address, flush=True)
    time.sleep(600)
"""
    parent = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE)
    try:
        assert parent.stdout is not None
        address = parent.stdout.readline().decode().strip()
        assert serves(address)
    finally:
        parent.kill()
        parent.wait()
    assert wait_for(lambda: not serves(address))


def test_is_stopped_when_its_user_fails() -> None:
    with pytest.raises(KeyError), running_emulator() as emulator:
        raise KeyError
    assert not serves(emulator.address)
    assert emulator.wait() == 0


def test_a_start_that_fails_says_why(emulator: EmulatorProcess, tmp_path: Path) -> None:
    port = emulator.address.rsplit(":", 1)[1]
    for flag, said in (
        ("--latency=soon", "exit code 2: --latency=soon"),
        (f"--port={port}", f"exit code 2: --port={port}"),
        (f"--corpus={tmp_path}/none", "exit code 2: --corpus="),
        (f"--call_log={tmp_path}/none/log", "exit code 2: --call_log="),
    ):
        with pytest.raises(RuntimeError, match="The emulator ended") as raised, running_emulator(flag):
            raise AssertionError("it must not come up")
        assert said in str(raised.value)
        assert "\n" not in str(raised.value)


def test_the_command_prints_one_line_and_needs_no_beam() -> None:
    program = """
import sys
from groundrows.pipeline.emulator.__main__ import main
code = main(sys.argv[1:])
heavy = [name for name in ("apache_beam", "google.api_core", "google.auth", "aiohttp") if name in sys.modules]
print(code, heavy)
"""
    run = subprocess.run(
        [sys.executable, "-c", program, "--exit_with_parent"],
        cwd=ROOT,
        env=os.environ | {"PYTHONWARNINGS": "error"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    ready, rest = run.stdout.splitlines()
    assert ready.startswith("ready on 127.0.0.1:")
    assert rest == "0 []"
    assert run.stderr == ""


def test_a_hangup_without_a_limits_file_is_no_end(emulator: EmulatorProcess) -> None:
    emulator.signal(signal.SIGHUP)
    assert generate(sync_client(v1, emulator.address), "Why?").candidates
