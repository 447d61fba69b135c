"""`groundrows report` over a million answers: its time, its memory, and how large the page is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path

from fastavro.write import Writer

from groundrows.schemas.rows import (
    AnswerRow,
    ClaimSupportRow,
    FailureRow,
    Retrieval,
    Row,
    SupportChunkRow,
    encode,
)
from groundrows.schemas.tables import TABLES
from tests.benchmarks.tools import ROOT, Table, verdict
from tests.support.made import answer, failure

ANSWERS = 1_000_000
MOST_SECONDS = 60
MOST_MIB = 800
MOST_FILE_MB = 15

# A row is encoded once for each of these and written often, each time with an id of its own.
TEMPLATES = 500
CLAIMS = 3
CHUNKS = 3
ID = "0" * 32
BLOCK_BYTES = 64_000
ROWS_PER_FILE = 1_000_000
COMMAND = "import sys; from groundrows.pipeline.cli import main; sys.exit(main(['report', *sys.argv[1:]]))"
START = datetime(2026, 3, 1, 9, tzinfo=UTC)
SENTENCE = "It stands on the left bank of the river and was rebuilt twice after the floods of that century. "


class Block:
    """A block as fastavro's writer takes it: rows that are encoded, and not compressed."""

    def __init__(self, num_records: int, rows: bytes) -> None:
        self.num_records = num_records
        self.bytes_ = BytesIO(rows)


def make_run(output: Path, count: int) -> Path:
    """A finished run of `count` answers, with claims and chunks, a failure for every 200, and `run.json`."""
    _write(output, "answers", count, [_answer(number) for number in range(TEMPLATES)])
    _write(output, "support_chunks", count * CHUNKS, _nested(_chunk, CHUNKS), per_answer=CHUNKS)
    _write(output, "claim_supports", count * CLAIMS, _nested(_claim, CLAIMS), per_answer=CLAIMS)
    failed = count // 200
    _write(output, "failures", failed, [_failure(number) for number in range(10)])
    calls = count + count // 20
    summary = {
        "run_id": "bench",
        "version": "0",
        "balanced": True,
        "records_read": count + failed,
        "answered": count,
        "failed": failed,
        "duplicates": 0,
        "already_answered": 0,
        "calls": calls,
        "retries": count // 20,
        "retries_by_code": {"UNAVAILABLE": count // 20},
        "failures_by_code": {"UNAVAILABLE": failed},
        "rows": {},
        "throttled_seconds": 12,
        "rate_used": 0.97,
        "quantiles": {},
        "started_at": START.isoformat(),
        "wall_seconds": 6 * 3600.0,
        "flags": {"requests_per_minute": 3_000.0, "service": "emulator"},
    }
    (output / "run.json").write_text(json.dumps(summary), encoding="utf-8")
    return output


def _write(output: Path, table: str, count: int, templates: list[bytes], per_answer: int = 1) -> None:
    (output / table).mkdir(parents=True, exist_ok=True)
    for start in range(0, count, ROWS_PER_FILE):
        path = output / table / f"{table}-{start:09d}.avro"
        with path.open("wb") as file:
            writer = Writer(file, TABLES[table].schema, codec="deflate", compression_level=1)
            block, rows = bytearray(), 0
            for number in range(start, min(start + ROWS_PER_FILE, count)):
                own = b"%032x" % (number // per_answer)
                block += templates[number % len(templates)].replace(ID.encode(), own)
                rows += 1
                if len(block) >= BLOCK_BYTES:
                    writer.write_block(Block(rows, bytes(block)))  # type: ignore[arg-type]
                    block, rows = bytearray(), 0
            if rows:
                writer.write_block(Block(rows, bytes(block)))  # type: ignore[arg-type]
            writer.flush()


def _nested(make: Callable[[int, int], Row], per_answer: int) -> list[bytes]:
    return [encode(make(number, inner)) for number in range(TEMPLATES) for inner in range(per_answer)]


def _answer(number: int) -> bytes:
    asked = START + timedelta(seconds=number * 21_600 / TEMPLATES)
    supported = CLAIMS - (number % 7 == 0) - (number % 31 == 0)
    row: AnswerRow = answer(
        run_id="bench",
        question_id=ID,
        answer_id=ID,
        question=f"What is known about the old town hall, number {ID}, and who built it?",
        answer_text=SENTENCE * CLAIMS,
        grounding_score=(number * 37 % 1000) / 1000,
        support_coverage=supported / CLAIMS,
        claim_count=CLAIMS,
        supported_claim_count=supported,
        chunk_count=CHUNKS,
        web_search_queries=("old town hall builder",),
        retrieval=(Retrieval("GOOGLE_SEARCH", "V1_INDEPENDENT", (number * 61 % 1000) / 1000),),
        latency_ms=400.0 + number * 7 % 3000,
        asked_at=asked,
        answered_at=asked + timedelta(seconds=1),
        uris_expire_at=asked + timedelta(days=30),
        warnings=("A claim was not found in the answer.",) if number % 50 == 0 else (),
        finish_reason="MAX_TOKENS" if number % 40 == 0 else "STOP",
        billed_searches=number % 3,
        prompt_tokens=30 + number % 20,
        answer_tokens=60,
        tool_tokens=2_000 + number * 11 % 900,
        total_tokens=2_090 + number % 20 + number * 11 % 900,
        request_json=json.dumps(
            {
                "contents": [
                    {"role": "user", "parts": [{"text": "What is known about it, and who built it?"}]}
                ],
                "groundingSpec": {
                    "groundingSources": [
                        {"googleSearchSource": {"dynamicRetrievalConfig": {"predictor": {"threshold": 0.3}}}}
                    ]
                },
            }
        ),
    )
    return encode(row)


def _claim(number: int, inner: int) -> Row:
    return ClaimSupportRow(
        run_id="bench",
        question_id=ID,
        turn_index=0,
        answer_id=ID,
        candidate_index=0,
        answered_at=START,
        claim_index=inner,
        claim_text=SENTENCE,
        claim_start=inner * len(SENTENCE),
        claim_end=(inner + 1) * len(SENTENCE) - 1,
        support_score=(number * 13 % 100) / 100,
        chunk_index=inner,
        chunk_uri=f"https://site-{number % 300}.example/page/{ID}/{inner}",
        chunk_title=f"site-{number % 300}.example",
        chunk_source="0",
    )


def _chunk(number: int, inner: int) -> Row:
    return SupportChunkRow(
        run_id="bench",
        question_id=ID,
        turn_index=0,
        answer_id=ID,
        candidate_index=0,
        answered_at=START,
        chunk_index=inner,
        chunk_text=SENTENCE * 2,
        source="0",
        uri=f"https://site-{number % 300}.example/page/{ID}/{inner}",
        title=f"site-{number % 300}.example",
        domain=f"site-{number % 300}.example",
        document_id=None,
        page_identifier=None,
        source_metadata={"author": "unknown"},
        index_in_stream=None,
        uris_expire_at=START + timedelta(days=30),
    )


def _failure(number: int) -> bytes:
    row: FailureRow = failure(run_id="bench", question_id=ID, failure_id=ID, origin=f"a.jsonl:{number}")
    return encode(row)


def measure(folder: Path) -> list[Table]:
    """The report of a run that was made up."""
    output, page = make_run(folder / "run", ANSWERS), folder / "report.html"
    started = time.monotonic()
    child = subprocess.Popen([sys.executable, "-c", COMMAND, str(output), "-o", str(page)], cwd=ROOT)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - started
    if child.returncode:
        raise SystemExit(f"the report ended with {child.returncode}")
    megabytes, mebibytes = page.stat().st_size / 1e6, usage.ru_maxrss / 1024
    kept = (seconds <= MOST_SECONDS, mebibytes <= MOST_MIB, megabytes < MOST_FILE_MB)
    rows = [
        ("wall", f"{seconds:.1f} s", f"<= {MOST_SECONDS} s", verdict(kept[0])),
        ("peak memory", f"{mebibytes:.0f} MiB", f"<= {MOST_MIB} MiB", verdict(kept[1])),
        ("page", f"{megabytes:.1f} MB", f"< {MOST_FILE_MB} MB", verdict(kept[2])),
    ]
    title = f"The report of {ANSWERS:,} answers, {ANSWERS * CLAIMS:,} claims, as many chunks of distinct documents"
    return [Table(title, ("", "measured", "limit", ""), rows, all(kept))]
