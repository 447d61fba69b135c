"""The REST side of the real server, asked with the generated clients and over plain HTTP."""

from __future__ import annotations

import json
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from google.api_core import exceptions
from google.cloud import discoveryengine_v1 as v1
from google.cloud import discoveryengine_v1beta as v1beta
from google.protobuf import json_format

from groundrows.pipeline.emulator.discoveryengine.messages import CheckResponse, Response
from groundrows.pipeline.emulator.process import EmulatorProcess, running_emulator
from tests.support.emulator_clients import (
    CAPITAL,
    DEADLINE,
    LOCATION,
    MOUNTAIN,
    body_of,
    check_of,
    generate,
    log_of,
    merged,
    post,
    rest_client,
    sync_client,
    wait_for,
    with_bare_claims,
    without_scores,
)

GENERATE, STREAM, CHECK = "generateGroundedContent", "streamGenerateGroundedContent", "check"
CHECK_BODY = {"answerCandidate": "Orvik is old.", "facts": [{"factText": "Orvik is an old town."}]}
BODIES: dict[str, dict[str, object]] = {
    GENERATE: body_of(MOUNTAIN),
    STREAM: body_of(MOUNTAIN),
    CHECK: CHECK_BODY,
}
VERSIONS = ("v1", "v1beta", "v1alpha")


@pytest.fixture(scope="module")
def emulator() -> Iterator[EmulatorProcess]:
    with running_emulator("--rest_port=0") as running:
        yield running


def error_of(response: requests.Response) -> dict[str, Any]:
    assert response.headers["Content-Type"].startswith("application/json")
    payload = response.json()
    [error] = (payload[0] if isinstance(payload, list) else payload).values()
    assert error["code"] == response.status_code
    return dict(error)


def in_array(response: requests.Response) -> bool:
    return isinstance(response.json(), list)


@pytest.mark.parametrize("api", [v1, v1beta])
def test_answers_the_generated_rest_client_as_the_grpc_one(emulator: EmulatorProcess, api: Any) -> None:
    over_rest, over_grpc = rest_client(api, emulator.rest_address), sync_client(api, emulator.address)
    assert generate(over_rest, MOUNTAIN, api) == generate(over_grpc, MOUNTAIN, api)
    request = check_of(api, "Orvik is an old town. Is it?", "Orvik is a town.")
    response = over_rest.check_grounding(request, timeout=DEADLINE)
    assert response == over_grpc.check_grounding(request, timeout=DEADLINE)
    assert response.claims[0].score > 0


@pytest.mark.parametrize("version", VERSIONS)
def test_answers_plain_json_in_every_version(emulator: EmulatorProcess, version: str) -> None:
    answer = post(emulator.rest_address, GENERATE, BODIES[GENERATE], version)
    assert answer.status_code == 200
    response = json_format.ParseDict(answer.json(), Response())
    [candidate] = response.candidates
    assert candidate.HasField("grounding_score")
    noted = answer.json()["candidates"][0]["groundingMetadata"]["retrievalMetadata"]
    assert noted == [{"source": "GOOGLE_SEARCH"}]

    streamed = post(emulator.rest_address, STREAM, [BODIES[STREAM]], version)
    parts = [json_format.ParseDict(part, Response()) for part in streamed.json()]
    assert len(parts) > 6
    assert with_bare_claims(merged(parts, Response())) == without_scores(response)

    checked = post(emulator.rest_address, CHECK, CHECK_BODY, version)
    assert json_format.ParseDict(checked.json(), CheckResponse()).support_score == 1


def test_enums_are_numbers_for_those_who_ask_for_them(emulator: EmulatorProcess) -> None:
    url = f"http://{emulator.rest_address}/v1/{LOCATION}:{GENERATE}?$alt=json;enum-encoding=int"
    answer = requests.post(url, json=BODIES[GENERATE], timeout=DEADLINE).json()
    assert answer["candidates"][0]["groundingMetadata"]["retrievalMetadata"] == [{"source": 3}]


def test_a_user_context_is_taken_and_an_unknown_field_is_refused(emulator: EmulatorProcess) -> None:
    context = {"languageCode": "de", "latLng": {"latitude": 47.1, "longitude": 8.5}}
    assert post(emulator.rest_address, GENERATE, body_of(CAPITAL, userContext=context)).ok
    for method in (GENERATE, STREAM, CHECK):
        refused = post(emulator.rest_address, method, BODIES[method] | {"questoin": CAPITAL})
        assert refused.status_code == 400
        error = error_of(refused)
        assert error["status"] == "INVALID_ARGUMENT"
        assert '"questoin"' in error["message"]
        [details] = error["details"]
        assert details["@type"] == "type.googleapis.com/google.rpc.BadRequest"
        assert [entry.keys() for entry in details["fieldViolations"]] == [{"description"}]


def test_a_request_that_breaks_a_rule_is_refused_with_the_field(emulator: EmulatorProcess) -> None:
    for method, body, field in (
        (GENERATE, body_of(" "), "contents[0].parts"),
        (STREAM, body_of(CAPITAL, "Paris."), "contents"),
        (
            CHECK,
            CHECK_BODY | {"groundingSpec": {"citationThreshold": 1.5}},
            "grounding_spec.citation_threshold",
        ),
    ):
        refused = post(emulator.rest_address, method, body)
        [details] = error_of(refused)["details"]
        assert [entry["field"] for entry in details["fieldViolations"]] == [field]
        assert in_array(refused) == (method == STREAM)


def test_the_generated_client_reads_the_details(emulator: EmulatorProcess) -> None:
    with pytest.raises(exceptions.BadRequest) as raised:
        generate(rest_client(v1, emulator.rest_address), " ")
    [details] = raised.value.details
    assert [entry["field"] for entry in details["fieldViolations"]] == ["contents[0].parts"]


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/v2/LOCATION:generateGroundedContent", "/v1/LOCATION:generate", "/v1/LOCATION:check"),
        *("/v1/projects/p:generateGroundedContent", "/v1/LOCATION/x:streamGenerateGroundedContent"),
        *("/v1/LOCATION/groundingConfigs/c:generateGroundedContent", "/v1/LOCATION/groundingConfigs/:check"),
    ],
)
def test_other_paths_are_not_found(emulator: EmulatorProcess, path: str) -> None:
    url = f"http://{emulator.rest_address}{path.replace('LOCATION', LOCATION)}"
    refused = requests.post(url, json=body_of(CAPITAL), timeout=DEADLINE)
    assert (refused.status_code, error_of(refused)["status"]) == (404, "NOT_FOUND")


def test_only_post_is_a_method(emulator: EmulatorProcess) -> None:
    url = f"http://{emulator.rest_address}/v1/{LOCATION}:{GENERATE}"
    assert requests.get(url, timeout=DEADLINE).status_code == 404


def test_megabytes_of_facts_are_taken(emulator: EmulatorProcess) -> None:
    body = CHECK_BODY | {"facts": [{"factText": "Orvik is old. " * 700}] * 110}
    assert len(json.dumps(body)) > 1_048_576
    assert post(emulator.rest_address, CHECK, body).status_code == 200


def test_listens_on_the_loopback_interface_alone(emulator: EmulatorProcess) -> None:
    assert emulator.rest_address is not None
    assert emulator.rest_address.startswith("127.0.0.1:")
    with socket.socket() as other:
        other.bind(("127.0.0.2", int(emulator.rest_address.rsplit(":", 1)[1])))


def test_there_is_no_rest_unless_it_is_asked_for() -> None:
    with running_emulator() as emulator:
        assert emulator.rest_address is None


def test_a_port_in_use_ends_the_start(emulator: EmulatorProcess) -> None:
    assert emulator.rest_address is not None
    flag = f"--rest_port={emulator.rest_address.rsplit(':', 1)[1]}"
    with pytest.raises(RuntimeError, match="exit code 2") as raised, running_emulator(flag):
        raise AssertionError("it must not come up")
    assert flag in str(raised.value)


def test_every_call_is_logged_with_its_way_and_version(tmp_path: Path) -> None:
    log = tmp_path / "calls.jsonl"
    with running_emulator("--rest_port=0", f"--call_log={log}") as emulator:
        post(emulator.rest_address, GENERATE, body_of("One?", "1", "Two?"), "v1alpha")
        post(emulator.rest_address, STREAM, body_of("Three?"), "v1")
        post(emulator.rest_address, CHECK, CHECK_BODY, "v1beta")
        post(emulator.rest_address, GENERATE, b"nonsense")
    lines = [
        tuple(line[key] for key in ("method", "prompt", "turn", "code", "transport", "version"))
        for line in log_of(log)
    ]
    assert lines == [
        ("GenerateGroundedContent", "Two?", 2, "OK", "rest", "v1alpha"),
        ("StreamGenerateGroundedContent", "Three?", 1, "OK", "rest", "v1"),
        ("CheckGrounding", "Orvik is old.", 0, "OK", "rest", "v1beta"),
        ("GenerateGroundedContent", "", 0, "INVALID_ARGUMENT", "rest", "v1"),
    ]


@pytest.mark.parametrize("told", [True, False])
def test_beyond_the_quota_a_429_says_when_to_come_back(told: bool) -> None:
    flags = ["--requests_per_minute=1", "--check_requests_per_minute=1", "--rest_port=0"]
    with running_emulator(*flags, *([] if told else ["--no_retry_info"])) as emulator:
        for method in (GENERATE, CHECK):  # each has a quota of its own
            assert post(emulator.rest_address, method, BODIES[method]).status_code == 200
        for method in (GENERATE, STREAM, CHECK):
            refused = post(emulator.rest_address, method, BODIES[method])
            error = error_of(refused)
            assert (refused.status_code, error["status"]) == (429, "RESOURCE_EXHAUSTED")
            assert ("Retry-After" in refused.headers) == ("details" in error) == told
            if told:
                [details] = error["details"]
                assert details["@type"] == "type.googleapis.com/google.rpc.RetryInfo"
                delay = float(details["retryDelay"].removesuffix("s"))
                assert 0 < delay <= int(refused.headers["Retry-After"]) < delay + 1


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        *(("unavailable", 503), ("resource_exhausted", 429), ("internal", 500), ("deadline_exceeded", 504)),
        *(("aborted", 409), ("unknown", 500), ("invalid_argument", 400), ("permission_denied", 403)),
        *(("unauthenticated", 401), ("not_found", 404), ("failed_precondition", 400)),
    ],
)
def test_each_error_has_its_http_status(fault: str, status: int) -> None:
    with running_emulator(f"--faults={fault}:1", "--rest_port=0", "--answers=canned") as emulator:
        for method in (GENERATE, CHECK):
            refused = post(emulator.rest_address, method, BODIES[method])
            assert refused.status_code == status
            assert error_of(refused)["status"] == fault.upper()
            assert "Retry-After" not in refused.headers


def test_a_stream_breaks_before_its_start_or_along_the_way() -> None:
    with running_emulator("--faults=unavailable:1", "--rest_port=0") as emulator:
        answers = [
            post(emulator.rest_address, STREAM, body_of(f"{MOUNTAIN} {'Really' * i}")) for i in range(15)
        ]
    assert {answer.status_code for answer in answers} == {200, 503}
    for answer in answers:
        *parts, last = answer.json()
        assert last["error"]["status"] == "UNAVAILABLE"
        assert last["error"]["code"] == 503
        assert bool(parts) == (answer.status_code == 200)
        assert all("candidates" in part for part in parts)


def broken_off(address: str | None, body: dict[str, object]) -> bytes:
    """What is sent of a stream whose connection is cut."""
    received: list[bytes] = []

    def read() -> None:
        with post(address, STREAM, body, stream=True) as answer:
            received.extend(answer.iter_content(None))

    with pytest.raises((requests.ConnectionError, requests.exceptions.ChunkedEncodingError)):
        read()
    return b"".join(received)


def test_a_disconnect_cuts_the_connection() -> None:
    with running_emulator("--faults=disconnect:1", "--rest_port=0") as emulator:
        for method in (GENERATE, CHECK):
            with pytest.raises(requests.ConnectionError):
                post(emulator.rest_address, method, BODIES[method])
        received = [
            broken_off(emulator.rest_address, body_of(f"{MOUNTAIN} {'Really' * i}")) for i in range(10)
        ]
        assert any(got.startswith(b'[{"candidates"') for got in received)
        assert not any(got.endswith(b"]") for got in received)


@pytest.mark.parametrize("method", [GENERATE, STREAM, CHECK])
def test_an_undecodable_answer_is_no_json(method: str) -> None:
    with running_emulator("--faults=undecodable:1", "--rest_port=0") as emulator:
        for i in range(6):
            answer = post(emulator.rest_address, method, _varied(method, i))
            assert answer.status_code == 200
            with pytest.raises((json.JSONDecodeError, UnicodeDecodeError)):
                json.loads(answer.content)


def _varied(method: str, number: int) -> dict[str, object]:
    if method == CHECK:
        return CHECK_BODY | {"answerCandidate": f"Orvik is {number} years old."}
    return body_of(f"{MOUNTAIN} {number}")


def test_a_malformed_answer_is_malformed_over_rest_too() -> None:
    with running_emulator("--faults=malformed:1", "--rest_port=0") as emulator:
        answers = [post(emulator.rest_address, GENERATE, _varied(GENERATE, i)).text for i in range(12)]
    assert any('"NaN"' in answer for answer in answers)
    assert any("\\u0000" in answer for answer in answers)


def test_a_hung_call_ends_with_its_client_or_the_server(tmp_path: Path) -> None:
    log = tmp_path / "calls.jsonl"
    with running_emulator("--faults=hang:1", "--rest_port=0", f"--call_log={log}") as emulator:
        with pytest.raises(requests.Timeout):
            post(emulator.rest_address, GENERATE, BODIES[GENERATE], timeout=0.5)
        answers: list[requests.Response] = []
        waiting = threading.Thread(
            target=lambda: answers.append(post(emulator.rest_address, CHECK, CHECK_BODY))
        )
        waiting.start()
        assert wait_for(lambda: len(log_of(log)) == 2)
        emulator.signal(signal.SIGTERM)
        assert emulator.wait() == 0
        waiting.join(DEADLINE)
        assert [answer.status_code for answer in answers] == [503]


def test_parts_are_sent_as_they_are_ready() -> None:
    with running_emulator("--latency=1", "--rest_port=0", "--answers=canned") as emulator:
        pieces = post(emulator.rest_address, STREAM, {}, stream=True).iter_content(None)
        first = next(pieces)
        emulator.signal(signal.SIGKILL)  # whatever has not been sent by now never will be
        with pytest.raises(requests.exceptions.ChunkedEncodingError):
            list(pieces)
    assert json.loads(first + b"]")[0]["candidates"]


def test_a_canned_emulator_answers_every_method_whatever_is_asked() -> None:
    with running_emulator("--answers=canned", "--rest_port=0") as emulator:
        whole, parts, checked = (
            post(emulator.rest_address, method, b"no JSON at all").json()
            for method in (GENERATE, STREAM, CHECK)
        )
    response = json_format.ParseDict(whole, Response())
    told = merged([json_format.ParseDict(part, Response()) for part in parts], Response())
    assert with_bare_claims(told) == without_scores(response)
    text = response.candidates[0].content.parts[0].text.encode()
    for claim in json_format.ParseDict(checked, CheckResponse()).claims:
        assert text[claim.start_pos : claim.end_pos].decode() == claim.claim_text
