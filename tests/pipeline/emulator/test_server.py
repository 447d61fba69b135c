"""The real server as a process of its own, asked with the generated clients."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.api_core import exceptions
from google.cloud import discoveryengine_v1 as v1
from google.cloud import discoveryengine_v1beta as v1beta
from google.rpc import error_details_pb2

from pipeline.emulator.process import EmulatorProcess, running_emulator

LOCATION = "projects/p/locations/global"
METHOD = "/google.cloud.discoveryengine.v1.GroundedGenerationService/GenerateGroundedContent"
ROUTING = (("x-goog-request-params", f"location={LOCATION}"),)
ROOT = Path(__file__).parents[3]
UNLIMITED = [("grpc.max_receive_message_length", -1)]
DEADLINE = 20.0  # of calls that are to be answered; far beyond what they take


def sync_client(api: Any, address: str) -> Any:
    service = api.services.grounded_generation_service
    transport = service.transports.GroundedGenerationServiceGrpcTransport(
        channel=grpc.insecure_channel(address, options=UNLIMITED)
    )
    return service.GroundedGenerationServiceClient(transport=transport)


def request_of(api: Any, prompt: str) -> Any:
    request = api.GenerateGroundedContentRequest
    return request(
        location=LOCATION,
        contents=[api.GroundedGenerationContent(role="user", parts=[{"text": prompt}])],
        grounding_spec=request.GroundingSpec(
            grounding_sources=[
                request.GroundingSource(google_search_source=request.GroundingSource.GoogleSearchSource())
            ]
        ),
    )


def generate(client: Any, prompt: str, api: Any = v1, timeout: float = DEADLINE) -> Any:
    return client.generate_grounded_content(request_of(api, prompt), timeout=timeout)


def log_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def wait_for(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


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
        service = api.services.grounded_generation_service
        async with grpc.aio.insecure_channel(emulator.address, options=UNLIMITED) as channel:
            client = service.GroundedGenerationServiceAsyncClient(
                transport=service.transports.GroundedGenerationServiceGrpcAsyncIOTransport(channel=channel)
            )
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


def test_other_methods_are_unimplemented(emulator: EmulatorProcess) -> None:
    with pytest.raises(exceptions.MethodNotImplemented):
        sync_client(v1, emulator.address).check_grounding(
            v1.CheckGroundingRequest(grounding_config=f"{LOCATION}/groundingConfigs/c"), timeout=DEADLINE
        )


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
from pipeline.emulator.process import running_emulator
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
from pipeline.emulator.__main__ import main
code = main(sys.argv[1:])
heavy = [name for name in ("apache_beam", "google.api_core", "google.auth") if name in sys.modules]
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
