"""Run directories made up for tests of the report, row by row."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from groundrows.pipeline.storage.row_files import RowFile
from groundrows.schemas.rows import (
    AnswerRow,
    CitedChunk,
    ClaimSupportRow,
    FailureRow,
    GroundingCheckRow,
    Retrieval,
    Row,
    SupportChunkRow,
)
from tests.support.made import NOON, answer, failure

REDIRECT = "https://vertexaisearch.cloud.google.com/grounding-api-redirect/"
SUGGESTIONS = (
    "<style>.chip { border: 1px solid #9aa; border-radius: 16px; padding: 4px 12px; font: 14px sans-serif }</style>"
    '<div><a class="chip" href="https://search.example/?q=lighthouse">lighthouse of the north cape</a></div>'
)
# Code points, UTF-16 units and bytes all differ: an emoji of two and one of five, combining marks, Hebrew, Arabic.
MANY_SCRIPTS = "🏛️ The café (cafe\u0301) stands. 👨‍👩‍👧 live there. שלום עולם! مرحبا. Ende 𝄞."
MARKED = ("The café (cafe\u0301) stands.", "👨‍👩‍👧 live there.", "שלום עולם!", "Ende 𝄞")
LONG_PASSAGE = "The keeper wrote down every evening how far the light had carried. " * 30
HOSTILE = "<script>window.pwned=1</script><img src=x onerror='window.pwned=2'>\"'>{{7*7}}</bdi></template>\u202eevil"


def write_run(directory: Path, rows: Iterable[Row], **summary: Any) -> Path:
    """The rows as a run's files; with any figure given, a `run.json` that holds it."""
    files: dict[str, RowFile] = {}
    for row in rows:
        if row.TABLE not in files:
            (directory / row.TABLE).mkdir(parents=True, exist_ok=True)
            files[row.TABLE] = RowFile(
                str(directory / row.TABLE / f"{row.TABLE}-{len(files)}.avro"), row.TABLE
            )
        files[row.TABLE].write(row)
    for file in files.values():
        file.close()
    directory.mkdir(parents=True, exist_ok=True)
    if summary:
        (directory / "run.json").write_text(json.dumps(run_json(**summary)), encoding="utf-8")
    return directory


def run_json(**changes: Any) -> dict[str, Any]:
    """A summary as runs write it."""
    return {
        "run_id": "run",
        "version": "0.1.0",
        "balanced": True,
        "records_read": 3,
        "answered": 2,
        "failed": 1,
        "duplicates": 0,
        "already_answered": 0,
        "calls": 4,
        "retries": 1,
        "retries_by_code": {"UNAVAILABLE": 1},
        "failures_by_code": {"UNAVAILABLE": 1},
        "rows": {},
        "throttled_seconds": 0,
        "rate_used": 0.5,
        "quantiles": {},
        "started_at": NOON.isoformat(),
        "wall_seconds": 61.5,
        "flags": {"service": "emulator", "requests_per_minute": 60.0, "request_defaults": "my defaults.json"},
    } | changes


def support(**changes: Any) -> ClaimSupportRow:
    made = ClaimSupportRow(
        run_id="run",
        question_id="q",
        turn_index=0,
        answer_id="a",
        candidate_index=0,
        answered_at=NOON,
        claim_index=0,
        claim_text="Because.",
        claim_start=0,
        claim_end=8,
        support_score=0.5,
        chunk_index=0,
        chunk_uri=None,
        chunk_title=None,
        chunk_source=None,
    )
    return replace(made, **changes)


def chunk(**changes: Any) -> SupportChunkRow:
    made = SupportChunkRow(
        run_id="run",
        question_id="q",
        turn_index=0,
        answer_id="a",
        candidate_index=0,
        answered_at=NOON,
        chunk_index=0,
        chunk_text="The passage that says so.",
        source=None,
        uri="https://one.example/page",
        title="One page",
        domain="one.example",
        document_id=None,
        page_identifier=None,
        source_metadata={},
        index_in_stream=None,
        uris_expire_at=None,
    )
    return replace(made, **changes)


def check(**changes: Any) -> GroundingCheckRow:
    made = GroundingCheckRow(
        run_id="run",
        question_id="q",
        turn_index=0,
        answer_id="a",
        candidate_index=0,
        check_id="c",
        claim_index=0,
        claim_text="Because.",
        claim_start=0,
        claim_end=8,
        grounding_check_required=None,
        claim_score=0.4,
        support_score=0.6,
        citation_threshold=None,
        citations=(),
        cited_chunk_count=0,
        answer_text="Because.",
        api_version="v1",
        attempts=1,
        latency_ms=50.0,
        asked_at=NOON,
        checked_at=NOON,
        from_ledger=False,
        warnings=(),
        metadata=None,
        request_json=None,
        response_json=None,
    )
    return replace(made, **changes)


def cited(**changes: Any) -> CitedChunk:
    made = CitedChunk(
        chunk_index=0,
        chunk_text="A fact.",
        source="0",
        uri=None,
        title=None,
        domain=None,
        source_metadata={},
        fact_text=None,
    )
    return replace(made, **changes)


def marked_answer(name: str, text: str, claims: Sequence[tuple[str, bool]], **changes: Any) -> list[Row]:
    """An answer with claims at their places in its text, each with a source of its own or with none."""
    supported = sum(has for _, has in claims)
    covered = sum(len(claim) for claim, has in claims if has)
    fields = {
        "question_id": name,
        "answer_id": f"a-{name}",
        "question": f"What of {name}?",
        "answer_text": text,
        "claim_count": len(claims),
        "supported_claim_count": supported,
        "chunk_count": supported,
        "support_coverage": covered / len(text) if text else None,
    }
    row: AnswerRow = answer(**(fields | changes))
    own: dict[str, Any] = {
        "run_id": row.run_id,
        "question_id": name,
        "answer_id": row.answer_id,
        "answered_at": row.answered_at,
    }
    rows: list[Row] = [row]
    for index, (claim, has) in enumerate(claims):
        start = text.index(claim)
        rows.append(
            support(
                **own,
                claim_index=index,
                claim_text=claim,
                claim_start=start,
                claim_end=start + len(claim),
                support_score=0.9 - index / 10 if has else None,
                chunk_index=index if has else None,
            )
        )
        if has:
            rows.append(
                chunk(
                    **own,
                    chunk_index=index,
                    chunk_text=f"A passage of its own about: {claim}",
                    uri=f"{REDIRECT}{name}-{index}"
                    if row.uris_expire_at
                    else f"https://site-{index}.example/{name}",
                    title=f"site-{index}.example",
                    domain=f"site-{index}.example",
                    uris_expire_at=row.uris_expire_at,
                )
            )
    return rows


def showcase() -> list[Row]:
    """Everything that a report shows at once: plain, odd and hostile answers, failures, predictions, checks."""
    chance = random.Random(7)
    rows: list[Row] = []
    rows += marked_answer(
        "scripts",
        MANY_SCRIPTS,
        [(text, number != 1) for number, text in enumerate(MARKED)],
        grounding_score=0.02,
        question="Who lives in the café? 🏛️ ומי גר שם?",
    )
    rows += marked_answer(
        "hostile",
        f"Before. {HOSTILE} After.",
        [(HOSTILE, True)],
        question=f"Is this text? {HOSTILE}",
        grounding_score=0.05,
        warnings=(HOSTILE,),
        metadata=json.dumps({"note": HOSTILE}),
        search_suggestions_html=f"<p>chips</p>{HOSTILE}",
        web_search_queries=(HOSTILE,),
        model_id=HOSTILE,
        uris_expire_at=NOON + timedelta(days=30),
    )
    rows.append(
        chunk(
            answer_id="a-hostile",
            chunk_index=7,
            uri="javascript:window.pwned=3",
            title=HOSTILE,
            domain=HOSTILE,
            chunk_text=LONG_PASSAGE,
        )
    )
    rows.append(
        support(
            answer_id="a-hostile",
            claim_index=0,
            claim_text=HOSTILE,
            claim_start=8,
            claim_end=8 + len(HOSTILE),
            chunk_index=7,
        )
    )
    for number in range(240):
        rows += _plain(chance, number)
    for number in range(9):
        rows.append(
            failure(
                question_id=f"f{number}",
                failure_id=f"f{number}",
                origin=f"questions.jsonl:{number}",
                record=b'{"question": "Where is it?"}',
                message="The service was away for five attempts: replay when it is back.",
                attempts=5,
            )
        )
    rows.append(
        failure(
            question_id="bad",
            failure_id="bad",
            stage="parse",
            code="INVALID_JSON",
            message=f"The record is no JSON: {HOSTILE}",
            retryable=False,
            record=f'{{"question": "{HOSTILE}\x00\xff'.encode("latin-1", "replace"),
            attempts=0,
        )
    )
    return rows


def _plain(chance: random.Random, number: int) -> list[Row]:
    name = f"q{number}"
    asked: datetime = NOON + timedelta(seconds=number * 2.5)
    sentences = [
        "The lighthouse was lit for the first time in the autumn of that year.",
        "Its keeper lived in a cottage below the cliff with his family.",
        "Ships saw the light from twenty miles away in clear weather.",
        "A storm destroyed the lantern room, which was rebuilt in iron.",
    ][: chance.randint(1, 4)]
    supported = [chance.random() < 0.85 for _ in sentences]
    score = min(1.0, max(0.0, chance.gauss(0.78, 0.17)))
    prediction = min(1.0, max(0.0, chance.betavariate(2, 2)))
    latency = chance.lognormvariate(6.8, 0.5)
    return marked_answer(
        name,
        " ".join(sentences),
        list(zip(sentences, supported, strict=True)),
        question=f"What is known about lighthouse number {number} on the north coast, and who kept it?",
        grounding_score=score,
        retrieval=(Retrieval("GOOGLE_SEARCH", "V1_INDEPENDENT", prediction),),
        web_search_queries=(f"lighthouse {number}",) if prediction >= 0.4 else (),
        search_suggestions_html=SUGGESTIONS if number % 2 else None,
        request_json=json.dumps({"predictor": {"threshold": 0.4}}),
        latency_ms=latency,
        asked_at=asked,
        answered_at=asked + timedelta(milliseconds=latency),
        # Half of the links are past, half still work for longer than anybody keeps this test.
        uris_expire_at=None if number % 3 else NOON + timedelta(days=30 if number % 2 else 36_500),
        model_id="a-model-of-its-time",
        finish_reason="MAX_TOKENS" if number % 20 == 7 else "STOP",
        billed_searches=int(prediction >= 0.4),
        prompt_tokens=20 + number % 7,
        answer_tokens=14 * len(sentences),
        tool_tokens=900 if prediction >= 0.4 else None,
        total_tokens=20 + number % 7 + 14 * len(sentences) + (900 if prediction >= 0.4 else 0),
    )


def write_showcase(directory: Path) -> Path:
    """The showcase as a finished run."""
    answers, failed = 242, 10
    return write_run(
        directory,
        showcase(),
        records_read=answers + failed,
        answered=answers,
        failed=failed,
        calls=298,
        retries=46,
        retries_by_code={"UNAVAILABLE": 44, "RESOURCE_EXHAUSTED": 2},
        wall_seconds=612.4,
        rate_used=0.97,
        throttled_seconds=1_840,
        flags={"service": "emulator", "location": "projects/p/locations/global", "requests_per_minute": 30.0},
    )


def failures_of(rows: Iterable[Row]) -> list[FailureRow]:
    return [row for row in rows if isinstance(row, FailureRow)]
