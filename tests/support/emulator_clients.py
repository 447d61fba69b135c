"""The generated clients, connected to an emulator, and requests for them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import requests
from google.api_core.client_options import ClientOptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import discoveryengine_v1 as v1

LOCATION = "projects/p/locations/global"
CONFIG = f"{LOCATION}/groundingConfigs/default_grounding_config"
UNLIMITED = [("grpc.max_receive_message_length", -1)]
DEADLINE = 20.0  # of calls that are to be answered; far beyond what they take

CAPITAL = "What is the capital of France?"
# Answered in three sentences.
MOUNTAIN = "Which mountain is the highest?"


def sync_client(api: Any, address: str) -> Any:
    service = api.services.grounded_generation_service
    transport = service.transports.GroundedGenerationServiceGrpcTransport(
        channel=grpc.insecure_channel(address, options=UNLIMITED)
    )
    return service.GroundedGenerationServiceClient(transport=transport)


def async_client(api: Any, channel: grpc.aio.Channel) -> Any:
    service = api.services.grounded_generation_service
    transport = service.transports.GroundedGenerationServiceGrpcAsyncIOTransport(channel=channel)
    return service.GroundedGenerationServiceAsyncClient(transport=transport)


def rest_client(api: Any, address: str | None) -> Any:
    return api.services.grounded_generation_service.GroundedGenerationServiceClient(
        transport="rest",
        credentials=AnonymousCredentials(),
        client_options=ClientOptions(api_endpoint=f"http://{address}"),
    )


def request_of(api: Any, *turns: str) -> Any:
    """A request to answer from Google Search; the turns are the user's and the model's by turns."""
    request = api.GenerateGroundedContentRequest
    roles = ("user", "model") * len(turns)
    return request(
        location=LOCATION,
        contents=[
            api.GroundedGenerationContent(role=role, parts=[{"text": turn}])
            for role, turn in zip(roles, turns, strict=False)
        ],
        grounding_spec=request.GroundingSpec(
            grounding_sources=[
                request.GroundingSource(google_search_source=request.GroundingSource.GoogleSearchSource())
            ]
        ),
    )


def check_of(api: Any, answer: str, *facts: str) -> Any:
    return api.CheckGroundingRequest(
        grounding_config=CONFIG,
        answer_candidate=answer,
        facts=[api.GroundingFact(fact_text=fact) for fact in facts],
        grounding_spec=api.CheckGroundingSpec(enable_claim_level_score=True),
    )


def generate(client: Any, prompt: str, api: Any = v1, timeout: float = DEADLINE) -> Any:
    return client.generate_grounded_content(request_of(api, prompt), timeout=timeout)


def body_of(*turns: str, **fields: object) -> dict[str, object]:
    """A question's JSON."""
    roles = ("user", "model") * len(turns)
    return {
        "contents": [
            {"role": role, "parts": [{"text": turn}]} for role, turn in zip(roles, turns, strict=False)
        ],
        "groundingSpec": {"groundingSources": [{"googleSearchSource": {}}]},
        **fields,
    }


def post(
    address: str | None, method: str, body: object, version: str = "v1", timeout: float = DEADLINE, **how: Any
) -> requests.Response:
    """Call a method over HTTP: `generateGroundedContent`, `streamGenerateGroundedContent` or `check`."""
    resource = CONFIG if method == "check" else LOCATION
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    url = f"http://{address}/{version}/{resource}:{method}"
    return requests.post(url, data=data, headers={"Content-Type": "application/json"}, timeout=timeout, **how)


def log_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def wait_for(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def merged(parts: list[Any], response: Any) -> Any:
    """The parts of a stream put together by the documented rules, in the raw message `response`."""
    candidate = response.candidates.add()
    text = claim = ""
    for part in parts:
        [told] = part.candidates
        metadata = told.grounding_metadata
        if told.HasField("content"):
            assert not told.HasField("grounding_metadata")
            candidate.content.role = told.content.role
            text += "".join(piece.text for piece in told.content.parts)
            claim += "".join(piece.text for piece in told.content.parts)
            continue
        if metadata.grounding_support:
            assert "".join(support.claim_text for support in metadata.grounding_support) == claim
        claim = ""
        candidate.grounding_metadata.MergeFrom(metadata)
        known = len(candidate.grounding_metadata.support_chunks)
        for support in metadata.grounding_support:
            assert all(0 <= index < known for index in support.support_chunk_indices)
    candidate.content.parts.add(text=text)
    return response


def without_scores(response: Any) -> Any:
    """A copy of a raw response as a stream would tell it: not scored."""
    copy = type(response).FromString(response.SerializeToString())
    for candidate in copy.candidates:
        candidate.ClearField("grounding_score")
        for support in candidate.grounding_metadata.grounding_support:
            support.ClearField("support_score")
    return copy


def with_bare_claims(response: Any) -> Any:
    """A copy of a raw response without the white space at the ends of its claims."""
    copy = type(response).FromString(response.SerializeToString())
    for candidate in copy.candidates:
        for support in candidate.grounding_metadata.grounding_support:
            support.claim_text = support.claim_text.rstrip()
    return copy
