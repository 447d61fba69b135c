"""Runs of many answers with words of many frequencies, for measurements of the reader."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path

from fastavro.write import Writer

from groundrows.schemas.rows import AnswerRow, ClaimSupportRow, Row, SupportChunkRow, encode
from groundrows.schemas.tables import TABLES
from tests.benchmarks.report import Block
from tests.support.made import answer, failure

TEMPLATES = 4_000
WORDS = 50_000
CLAIMS = 3
CHUNKS = 3
# As long as the numbers that take their place.
ID = "0" * 12
MARK = "zzzzzzzzzzzz"
ANSWER_WORDS = 60
CHUNK_WORDS = 40
BLOCK_BYTES = 64_000
ROWS_PER_FILE = 250_000
START = datetime(2026, 3, 1, 9, tzinfo=UTC)
SYLLABLES = (
    "ba",
    "co",
    "den",
    "fir",
    "gal",
    "hu",
    "in",
    "jo",
    "kar",
    "lum",
    "mo",
    "ner",
    "os",
    "pra",
    "ri",
    "sten",
)


def make_run(output: Path, count: int) -> Path:
    """A finished run of `count` answers, and a failure for every 200.

    The texts of some thousand templates are used again and again; each question has a word of its own, the
    answer's number in twelve digits.
    """
    draw = random.Random(7)
    vocabulary = [_word(number) for number in range(WORDS)]
    weights = list(accumulate(1 / (place + 1) for place in range(WORDS)))
    answers, chunks, claims = [], [], []
    for number in range(TEMPLATES):
        words = draw.choices(vocabulary, cum_weights=weights, k=ANSWER_WORDS + CHUNKS * CHUNK_WORDS + 6)
        answers.append(encode(_answer(number, words)))
        chunks += [encode(_chunk(number, inner, words)) for inner in range(CHUNKS)]
        claims += [encode(_claim(number, inner, words)) for inner in range(CLAIMS)]
    _write(output, "answers", count, answers)
    _write(output, "support_chunks", count * CHUNKS, chunks, per_answer=CHUNKS)
    _write(output, "claim_supports", count * CLAIMS, claims, per_answer=CLAIMS)
    failed = [
        encode(
            failure(
                run_id="bench",
                question_id=f"f{ID}",
                failure_id=ID,
                code=code,
                record=json.dumps({"question": f"What became of {MARK}?"}).encode(),
            )
        )
        for code in ("UNAVAILABLE", "DEADLINE_EXCEEDED", "INVALID_ARGUMENT")
    ]
    _write(output, "failures", count // 200, failed)
    (output / "run.json").write_text(
        json.dumps({"run_id": "bench", "balanced": True, "flags": {"service": "emulator"}}), encoding="utf-8"
    )
    return output


def _word(number: int) -> str:
    letters = []
    while True:
        number, place = divmod(number, len(SYLLABLES))
        letters.append(SYLLABLES[place])
        if not number:
            return "".join(letters)


def _write(output: Path, table: str, count: int, templates: list[bytes], per_answer: int = 1) -> None:
    (output / table).mkdir(parents=True, exist_ok=True)
    for start in range(0, count, ROWS_PER_FILE):
        with (output / table / f"{table}-{start:09d}.avro").open("wb") as file:
            writer = Writer(file, TABLES[table].schema, codec="deflate", compression_level=1)
            for rows, block in _blocks(templates, start, min(start + ROWS_PER_FILE, count), per_answer):
                writer.write_block(Block(rows, block))  # type: ignore[arg-type]
            writer.flush()


def _blocks(templates: list[bytes], start: int, end: int, per_answer: int) -> Iterator[tuple[int, bytes]]:
    block, rows = bytearray(), 0
    for number in range(start, end):
        own = b"%012d" % (number // per_answer)
        block += templates[number % len(templates)].replace(ID.encode(), own).replace(MARK.encode(), own)
        rows += 1
        if len(block) >= BLOCK_BYTES:
            yield rows, bytes(block)
            block, rows = bytearray(), 0
    if rows:
        yield rows, bytes(block)


def _answer(number: int, words: list[str]) -> AnswerRow:
    answered = START + timedelta(seconds=number)
    supported = CLAIMS - (number % 7 == 0) - (number % 31 == 0)
    return answer(
        run_id="bench",
        question_id=f"q{ID}",
        answer_id=f"a{ID}",
        question=f"What is known about {' '.join(words[-6:])}, number {MARK}?",
        answer_text=" ".join(words[:ANSWER_WORDS]),
        grounding_score=None if number % 50 == 3 else (number * 37 % 1000) / 1000,
        support_coverage=supported / CLAIMS,
        claim_count=CLAIMS,
        supported_claim_count=supported,
        chunk_count=CHUNKS,
        latency_ms=400.0 + number * 7 % 3000,
        asked_at=answered,
        answered_at=answered,
        model_id=f"model-{number % 3}",
        service="emulator",
        warnings=("A claim was not found in the answer.",) if number % 50 == 0 else (),
        metadata=json.dumps({"topic": vocabulary_topic(number), "priority": number % 5}),
        request_json=json.dumps({"contents": [{"role": "user", "parts": [{"text": " ".join(words[-6:])}]}]}),
    )


def vocabulary_topic(number: int) -> str:
    """The topic that the metadata of a template names."""
    return f"topic {_word(number % 40)}"


def _chunk(number: int, inner: int, words: list[str]) -> Row:
    start = ANSWER_WORDS + inner * CHUNK_WORDS
    site = f"site-{number * CHUNKS % 300}.example"
    return SupportChunkRow(
        run_id="bench",
        question_id=f"q{ID}",
        turn_index=0,
        answer_id=f"a{ID}",
        candidate_index=0,
        answered_at=START + timedelta(seconds=number),
        chunk_index=inner,
        chunk_text=" ".join(words[start : start + CHUNK_WORDS]),
        source="0",
        uri=f"https://{site}/page/{ID}/{inner}",
        title=site,
        domain=site,
        document_id=None,
        page_identifier=None,
        source_metadata={},
        index_in_stream=None,
        uris_expire_at=None,
    )


def _claim(number: int, inner: int, words: list[str]) -> Row:
    size = ANSWER_WORDS // CLAIMS
    before = " ".join(words[: inner * size])
    text = " ".join(words[inner * size : (inner + 1) * size])
    start = len(before) + (inner > 0)
    return ClaimSupportRow(
        run_id="bench",
        question_id=f"q{ID}",
        turn_index=0,
        answer_id=f"a{ID}",
        candidate_index=0,
        answered_at=START + timedelta(seconds=number),
        claim_index=inner,
        claim_text=text,
        claim_start=start,
        claim_end=start + len(text),
        support_score=(number * 13 % 100) / 100,
        chunk_index=inner,
        chunk_uri=None,
        chunk_title=None,
        chunk_source="0",
    )
