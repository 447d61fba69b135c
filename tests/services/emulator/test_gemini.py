"""The vendor's own client against the emulator, and Groundrows beside it: both see the same grounding."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from google import genai
from google.genai import errors, types
from google.oauth2.credentials import Credentials

from groundrows.pipeline.emulator.process import EmulatorProcess, running_emulator
from tests.support.gemini import AGENT, MODEL
from tests.support.runs import rows, run, write_lines

PLACES = ("developer", "agent")
PROMPT = "How tall is Mount Everest?"
LOCATION = {"developer": [], "agent": [f"--location={AGENT}"]}
VERSION = {"developer": "v1beta", "agent": "v1"}
SEARCH = types.GenerateContentConfig(tools=[types.Tool(google_search=types.GoogleSearch())])


def client(place: str, address: str | None) -> genai.Client:
    options = types.HttpOptions(base_url=f"http://{address}", api_version=VERSION[place], timeout=20_000)
    if place == "developer":
        return genai.Client(api_key="a-key-of-nobody", vertexai=False, http_options=options)
    return genai.Client(
        vertexai=True,
        project="p",
        location="global",
        credentials=Credentials("a-token-of-nobody"),
        http_options=options,
    )


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatorProcess]:
    log = tmp_path_factory.mktemp("log") / "calls.jsonl"
    with running_emulator("--rest_port=0", f"--call_log={log}") as running:
        yield running


def bytes_at(text: str, segment: Any) -> str:
    return text.encode()[segment.start_index or 0 : segment.end_index].decode()


def grounding(shown: types.GenerateContentResponse) -> dict[str, Any]:
    """What the vendor's client shows of an answer's grounding, as rows have it."""
    assert shown.candidates is not None
    [candidate] = shown.candidates
    metadata = candidate.grounding_metadata
    assert metadata is not None
    assert metadata.grounding_chunks
    assert metadata.grounding_supports
    for support in metadata.grounding_supports:
        assert support.segment is not None
        assert bytes_at(str(shown.text), support.segment) == support.segment.text
    return {
        "text": shown.text,
        "queries": metadata.web_search_queries,
        "chunks": [(chunk.web.uri, chunk.web.title) for chunk in metadata.grounding_chunks if chunk.web],
        "claims": [
            (support.segment.text, index)
            for support in metadata.grounding_supports
            for index in support.grounding_chunk_indices or ()
            if support.segment
        ],
        "tokens": shown.usage_metadata.total_token_count if shown.usage_metadata else None,
    }


def grounding_in_rows(output: Path) -> dict[str, Any]:
    """The same, as Groundrows' rows have it."""
    [answer] = rows(output, "answers")
    claims = sorted(rows(output, "claim_supports"), key=lambda row: row["claim_index"])
    for row in claims:
        assert answer["answer_text"][row["claim_start"] : row["claim_end"]] == row["claim_text"]
    return {
        "text": answer["answer_text"],
        "queries": answer["web_search_queries"],
        "chunks": [
            (row["uri"], row["title"])
            for row in sorted(rows(output, "support_chunks"), key=lambda row: row["chunk_index"])
        ],
        "claims": [(row["claim_text"], row["chunk_index"]) for row in claims],
        "tokens": answer["total_tokens"],
    }


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("place", PLACES)
def test_the_vendors_client_shows_what_the_rows_hold(
    emulator: EmulatorProcess, tmp_path: Path, place: str, streamed: bool
) -> None:
    vendor = client(place, emulator.rest_address)
    if streamed:
        parts = list(vendor.models.generate_content_stream(model=MODEL, contents=PROMPT, config=SEARCH))
        assert len(parts) > 2
        shown = joined(parts)
    else:
        shown = vendor.models.generate_content(model=MODEL, contents=PROMPT, config=SEARCH)
    archive = write_lines(
        tmp_path / "q.jsonl", [{"question": PROMPT, "grounding_sources": [{"google_search_source": {}}]}]
    )
    run(
        "--service=gemini",
        f"--model={MODEL}",
        f"--endpoint={emulator.rest_address}",
        f"--input={archive}",
        f"--output={tmp_path / 'out'}",
        "--quiet",
        *LOCATION[place],
        *(["--stream_answers"] if streamed else []),
    )
    assert grounding_in_rows(tmp_path / "out") == grounding(shown)
    [answer] = rows(tmp_path / "out", "answers")
    assert (answer["api_version"], answer["streamed"]) == (VERSION[place], streamed)
    assert (answer["first_part_ms"] is not None) == streamed


def joined(parts: list[types.GenerateContentResponse]) -> types.GenerateContentResponse:
    """A stream's parts by the vendor's types, put together as its reference says."""
    text = "".join(part.text or "" for part in parts)
    metadata = [
        candidate.grounding_metadata
        for part in parts
        for candidate in part.candidates or ()
        if candidate.grounding_metadata
    ]
    content = types.Content(role="model", parts=[types.Part(text=text)])
    usage = [part.usage_metadata for part in parts if part.usage_metadata]
    return types.GenerateContentResponse(
        candidates=[types.Candidate(content=content, grounding_metadata=metadata[-1])],
        usage_metadata=usage[-1],
    )


def test_the_vendors_client_shows_passages_and_thoughts(emulator: EmulatorProcess) -> None:
    search = types.VertexAISearch(datastore="projects/p/locations/global/dataStores/d", max_results=2)
    config = types.GenerateContentConfig(
        tools=[types.Tool(retrieval=types.Retrieval(vertex_ai_search=search))],
        thinking_config=types.ThinkingConfig(include_thoughts=True),
    )
    vendor = client("agent", emulator.rest_address)
    shown = vendor.models.generate_content(model=MODEL, contents=PROMPT, config=config)
    assert shown.candidates is not None
    assert shown.candidates[0].content is not None
    parts = shown.candidates[0].content.parts
    assert parts is not None
    assert [part.thought for part in parts] == [True, None]
    metadata = shown.candidates[0].grounding_metadata
    assert metadata is not None
    assert metadata.retrieval_queries == [PROMPT]
    for support in metadata.grounding_supports or ():
        assert support.segment is not None
        assert support.segment.part_index == 1
        assert bytes_at(str(parts[1].text), support.segment) == support.segment.text
    [context, *_] = [chunk.retrieved_context for chunk in metadata.grounding_chunks or ()]
    assert context is not None
    assert context.text
    assert context.rag_chunk is not None


def test_a_model_of_old_scores_chunks(emulator: EmulatorProcess) -> None:
    vendor = client("developer", emulator.rest_address)
    shown = vendor.models.generate_content(model="gemini-2.0-flash", contents=PROMPT, config=SEARCH)
    assert shown.candidates is not None
    metadata = shown.candidates[0].grounding_metadata
    assert metadata is not None
    for support in metadata.grounding_supports or ():
        assert support.confidence_scores is not None
        assert len(support.confidence_scores) == len(support.grounding_chunk_indices or ())


BOUGHT: list[dict[str, Any]] = [
    {"generation_spec": {"provisioned_throughput_setting": setting}}
    for setting in ("PROVISIONED_THROUGHPUT_ONLY", "PAY_AS_YOU_GO_ONLY")
]
TRAFFIC: dict[str, list[tuple[dict[str, Any], str | None]]] = {
    "agent": [
        ({}, "ON_DEMAND"),
        (BOUGHT[0], "PROVISIONED_THROUGHPUT"),
        (BOUGHT[1], "ON_DEMAND"),
        ({"gemini": {"traffic": "flex"}}, "ON_DEMAND_FLEX"),
        ({"gemini": {"traffic": "priority"}}, "ON_DEMAND_PRIORITY"),
    ],
    "developer": [({}, None), ({"gemini": {"traffic": "flex"}}, "flex")],
}


@pytest.mark.parametrize("place", PLACES)
def test_the_traffic_that_a_row_tells_is_what_its_record_asked_for(
    emulator: EmulatorProcess, tmp_path: Path, place: str
) -> None:
    records = [
        {"id": str(number), "question": PROMPT, **fields} for number, (fields, _) in enumerate(TRAFFIC[place])
    ]
    run(
        "--service=gemini",
        f"--model={MODEL}",
        f"--endpoint={emulator.rest_address}",
        *LOCATION[place],
        f"--input={write_lines(tmp_path / 'q.jsonl', records)}",
        f"--output={tmp_path / 'out'}",
        "--quiet",
    )
    told = {row["question_id"]: row["traffic_type"] for row in rows(tmp_path / "out", "answers")}
    assert told == {str(number): traffic for number, (_, traffic) in enumerate(TRAFFIC[place])}


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ({"X-Vertex-AI-LLM-Request-Type": "bought"}, "Must be dedicated or shared."),
        ({"X-Vertex-AI-LLM-Shared-Request-Type": "slow"}, "Must be priority or flex."),
    ],
)
def test_a_header_that_says_nothing_known_is_refused(
    emulator: EmulatorProcess, headers: dict[str, str], says: str
) -> None:
    path = f"/v1/{AGENT}/publishers/google/models/m:generateContent"
    body = {"contents": [{"parts": [{"text": "x"}]}]}
    answer = requests.post(f"http://{emulator.rest_address}{path}", json=body, headers=headers, timeout=20)
    assert answer.status_code == 400
    assert says in answer.json()["error"]["message"]


def test_candidates_are_as_many_as_asked_for_whatever_the_words(emulator: EmulatorProcess) -> None:
    vendor = client("agent", emulator.rest_address)
    plain = vendor.models.generate_content(model=MODEL, contents="Which candidate won?", config=SEARCH)
    assert len(plain.candidates or ()) == 1
    config = types.GenerateContentConfig(candidate_count=3)
    several = vendor.models.generate_content(model=MODEL, contents=PROMPT, config=config)
    assert [candidate.index or 0 for candidate in several.candidates or ()] == [0, 1, 2]


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("/v1beta/models/m:generateContent", {"contents": []}, "at least one content"),
        ("/v1beta/models/m:generateContent", {"contents": [{}], "labels": {}}, "labels"),
        (
            "/v1beta/models/m:generateContent",
            {"contents": [{"parts": [{"text": "x"}]}], "tools": [{"enterpriseWebSearch": {}}]},
            "enterpriseWebSearch",
        ),
        (
            f"/v1/{AGENT}/publishers/google/models/m:generateContent",
            {"contents": [{"parts": [{"text": "x"}]}], "tools": [{"googleSearchRetrieval": {}}]},
            "use google_search instead",
        ),
        (
            "/v1beta/models/m:generateContent",
            {"contents": [{"role": "model", "parts": [{"text": "x"}]}]},
            "last",
        ),
        ("/v1beta/models/m:generateContent", [], "a JSON object"),
        (
            "/v1beta/models/m:generateContent",
            {
                "contents": [{"parts": [{"text": "x"}]}],
                "tools": [{"googleSearch": {}}],
                "generationConfig": {"responseMimeType": "application/json"},
            },
            "unsupported",
        ),
    ],
)
def test_a_wrong_request_is_refused(emulator: EmulatorProcess, path: str, body: object, says: str) -> None:
    answer = requests.post(f"http://{emulator.rest_address}{path}", json=body, timeout=20)
    assert answer.status_code == 400
    assert answer.json()["error"]["status"] == "INVALID_ARGUMENT"
    assert says in answer.json()["error"]["message"]


def test_the_vendors_client_meets_the_quota_and_the_faults() -> None:
    with running_emulator("--rest_port=0", "--requests_per_minute=1") as emulator:
        vendor = client("developer", emulator.rest_address)
        vendor.models.generate_content(model=MODEL, contents=PROMPT)
        with pytest.raises(errors.ClientError) as refused:
            vendor.models.generate_content(model=MODEL, contents=PROMPT)
        assert refused.value.code == 429
    with running_emulator("--rest_port=0", "--faults=prompt_blocked:1") as emulator:
        vendor = client("developer", emulator.rest_address)
        shown = vendor.models.generate_content(model=MODEL, contents=PROMPT)
        assert shown.candidates is None
        assert shown.prompt_feedback is not None
        assert shown.prompt_feedback.block_reason == types.BlockedReason.PROHIBITED_CONTENT


def test_the_vendors_client_meets_a_quota_of_tokens_and_one_of_the_day(tmp_path: Path) -> None:
    log = tmp_path / "log"
    flags = ("--rest_port=0", "--answers=canned", f"--call_log={log}")
    with running_emulator(*flags, "--tokens_per_minute=150") as limited:
        there = client("developer", limited.rest_address)
        for _ in range(2):
            there.models.generate_content(model=MODEL, contents=PROMPT)
        with pytest.raises(errors.ClientError, match="150 tokens a minute"):
            there.models.generate_content(model=MODEL, contents=PROMPT)
    told = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(line["code"], line.get("tokens")) for line in told] == [
        ("OK", 70),
        ("OK", 70),
        ("RESOURCE_EXHAUSTED", None),
    ]
    with running_emulator("--rest_port=0", "--faults=day_quota:1") as used_up:
        there = client("developer", used_up.rest_address)
        with pytest.raises(errors.ClientError) as refused:
            there.models.generate_content(model=MODEL, contents=PROMPT)
    assert refused.value.code == 429
    assert "GenerateRequestsPerDayPerProjectPerModel" in json.dumps(refused.value.details)


def test_the_canned_answer_is_one_whole_and_in_parts() -> None:
    with running_emulator("--rest_port=0", "--answers=canned") as emulator:
        vendor = client("developer", emulator.rest_address)
        whole = vendor.models.generate_content(model=MODEL, contents=PROMPT)
        parts = list(vendor.models.generate_content_stream(model=MODEL, contents=PROMPT))
        assert "".join(part.text or "" for part in parts) == whole.text
        assert len(whole.candidates[0].grounding_metadata.grounding_supports) == 5  # type: ignore[index,union-attr,arg-type]


def test_the_call_log_tells_the_last_turn_and_how_many_there_were(tmp_path: Path) -> None:
    log = tmp_path / "calls.jsonl"
    with running_emulator("--rest_port=0", f"--call_log={log}") as emulator:
        vendor = client("developer", emulator.rest_address)
        chat = vendor.chats.create(model=MODEL)
        chat.send_message("How tall is Mount Everest?")
        chat.send_message("And where is it?")
    first, second = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert (first["method"], first["turn"], first["transport"]) == ("generateContent", 1, "rest")
    assert (second["prompt"], second["turn"], second["code"]) == ("And where is it?", 2, "OK")
