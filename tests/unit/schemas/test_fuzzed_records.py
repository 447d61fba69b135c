"""Ten thousand records bent and broken at random: each is a question or a failure in one sentence."""

from __future__ import annotations

import gc
import re
import time
import tracemalloc
from collections import Counter
from random import Random
from typing import Any

import pytest

from groundrows.schemas.check import CheckSettings, parse_check
from groundrows.schemas.defaults import load_defaults
from groundrows.schemas.discoveryengine.messages import request_class
from groundrows.schemas.errors import RecordError
from groundrows.schemas.question import Question, RecordSettings, parse_question
from groundrows.schemas.record import Record
from tests.support.mutations import mutated

RECORDS = 6_000
SECONDS = 5.0  # of the processor, each; the longest takes some thousandths
# Memory is traced over the last of them alone, as it makes all slower: caches are full by then, and what each
# record left behind would show within a thousand as it does in ten.
TRACED = 2_000
MEMORY_BYTES = 30_000  # some five times what a thousand records come to without a leak

ENGINE = "projects/p/locations/global/collections/c/engines/e/servingConfigs/s"
VALID: list[dict[str, Any]] = [
    {"id": "q-1", "question": "Why is the sky blue?", "n": [1, 2.5, None, {"k": "é😀"}]},
    {"title": "Sky", "n": [1, 2.5, None, {"k": "{é😀}"}], "metadata": {"a": {"b": [True, "x"]}}},
    {
        "turns": ["Who?", {"text": "When?", "systemInstruction": {"parts": {"text": "Rhyme."}}}, {"text": "Why?"}],
        "system_instruction": "Be brief.",
        "metadata": {"a": 1},
    },
    {
        "contents": [
            {"role": "user", "parts": [{"text": "Who?"}]},
            {"role": "model", "parts": {"text": "Ada."}},
            {"role": "user", "parts": [{"text": "When, "}, {"text": "and where?"}]},
        ],
        "groundingSpec": {
            "groundingSources": [
                {"inlineSource": {"groundingFacts": [{"factText": "f"}], "attributes": {"author": "A"}}},
                {"searchSource": {"servingConfig": ENGINE, "maxResultCount": 3, "filter": "x", "safeSearch": True}},
                {"enterpriseWebRetrievalSource": {}},
            ]
        },
    },
    {
        "question": "What does tin cost?",
        "grounding_sources": [
            {
                "google_search_source": {
                    "dynamic_retrieval_config": {"predictor": {"version": "V1_INDEPENDENT", "threshold": 0.5}}
                }
            }
        ],
        "generation_spec": {"model_id": "m", "temperature": 0.5, "top_k": 4, "seed": 7, "language_code": "fr"},
        "user_labels": {"team": "a-1", "équipe": ""},
        "user_context": {"languageCode": "fr", "latLng": {"latitude": 48.8}},
    },
    {"question": "How warm?", "facts": ["Tin melts.", {"fact_text": "Lead melts.", "attributes": {"uri": "u"}}]},
    {
        "id": 17,
        "answer": "Tin melts at 232 °C.",
        "facts": ["Tin melts early.", {"fact_text": "Tin melts at 232 °C.", "attributes": {"uri": "u"}}],
        "citation_threshold": 0.5,
        "user_labels": {"team": "a"},
        "question": "When does tin melt?",
    },
    {
        "answerCandidate": "Lead melts.",
        "facts": [{"factText": "f"}],
        "groundingSpec": {"citationThreshold": 0.1, "enableClaimLevelScore": False},
    },
]  # fmt: skip
_DEFAULTS = load_defaults('{"generation_spec": {"temperature": 0}, "user_labels": {"run": "fuzz"}}', "v1beta")
QUESTIONS = [
    RecordSettings(),
    RecordSettings(api_version="v1beta", transport="rest", defaults=_DEFAULTS),
    RecordSettings(question_templates=("About {title} {metadata.a.b.1}?", "And {n.3.k}?")),
]
CHECKS = [CheckSettings(), CheckSettings(api_version="v1beta", citation_threshold=0.5, claim_scores=False)]


def settings_for(valid: dict[str, Any], random: Random) -> RecordSettings | CheckSettings:
    """Now and then those of the other kind of record, or of a template that few records can fill."""
    is_check = "answer" in valid or "answerCandidate" in valid
    if random.random() < (0.9 if is_check else 0.05):
        return random.choice(CHECKS)
    return QUESTIONS[2] if "title" in valid else random.choice(QUESTIONS[:2])


def parsed(body: bytes, settings: RecordSettings | CheckSettings) -> Question:
    record = Record(body, "a.jsonl:1")
    if isinstance(settings, CheckSettings):
        return parse_check(record, settings)
    return parse_question(record, settings)


def check_question(question: Question) -> None:
    message = request_class(question.api_version, question.method).FromString(question.request)
    assert question.turns
    assert all(turn.strip() for turn in question.turns)
    assert question.instructions == () or len(question.instructions) == len(question.turns)
    if question.method == "check":
        assert message.answer_candidate == question.turns[0]
        assert 1 <= len(message.facts) <= 200
    else:
        assert "".join(part.text for part in message.contents[-1].parts) == question.turns[0]
        assert len(message.grounding_spec.grounding_sources) <= 10
    check_writable(question.question_id, question.metadata or "{}", *question.turns)


def check_failure(error: RecordError) -> None:
    assert re.fullmatch(r"[A-Z][A-Z0-9_]+", error.code)
    assert error.stage in ("parse", "validate")
    assert 0 < len(error.message) < 500
    assert error.message.isprintable()
    # What stands in backquotes is the record's own; the rest is one sentence.
    assert not re.search(r"[.!?]\s", re.sub("`.*`", "", error.message))
    check_writable(error.question_id, error.metadata or "{}", error.message)


def check_writable(*texts: str) -> None:
    for text in texts:
        assert text
        text.encode()


@pytest.mark.timeout(600)  # for a machine that is busy with other things
def test_every_record_is_a_question_or_one_sentence_and_leaves_nothing_behind() -> None:
    random = Random(20_240_229)
    codes: Counter[str] = Counter()
    slowest = 0.0
    held: list[int] = []
    try:
        for number in range(RECORDS):
            if number == RECORDS - TRACED:
                tracemalloc.start()
            valid = random.choice(VALID)
            body, settings = mutated(valid, random), settings_for(valid, random)
            started = time.thread_time()
            try:
                question = parsed(body, settings)
            except RecordError as error:
                check_failure(error)
                codes[error.code] += 1
            else:
                check_question(question)
                codes["OK"] += 1
            slowest = max(slowest, time.thread_time() - started)
            if number + 1 in (RECORDS - TRACED // 2, RECORDS):
                question, body = None, b""
                gc.collect()
                held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert slowest < SECONDS
    assert held[-1] - held[0] < MEMORY_BYTES, held
    # The test is worth nothing unless much passes, much fails, and it fails in many ways.
    assert sum(codes.values()) == RECORDS
    assert codes["OK"] > RECORDS / 10
    assert len(codes) > 30, codes
