"""Records of answers that can't be checked, each with the code it fails by, under `CheckSettings()`."""

from __future__ import annotations

import json

FACT = "Tin melts at 232 °C."


def checking(**fields: object) -> bytes:
    """A record that would be fine but for `fields`; a field given as `...` is left out."""
    record = {"answer": "Tin melts early.", "facts": [FACT], **fields}
    return json.dumps({name: value for name, value in record.items() if value is not ...}).encode()


BAD_CHECKS: list[tuple[str, bytes, str]] = [
    ("no bytes", b"", "EMPTY_RECORD"),
    ("no JSON", b"Tin melts early.", "INVALID_JSON"),
    ("Latin-1", '{"answer": "Où", "facts": ["f"]}'.encode("latin-1"), "INVALID_UTF8"),
    ("a list", b"[]", "NOT_AN_OBJECT"),
    ("the answer twice", b'{"answer": "a", "answer": "b", "facts": ["f"]}', "DUPLICATE_KEY"),
    ("a lone surrogate in the answer", rb'{"answer": "\ud83d", "facts": ["f"]}', "LONE_SURROGATE"),
    ("a lone surrogate in a fact", rb'{"answer": "a", "facts": ["\ud83d"]}', "LONE_SURROGATE"),
    ("no answer", checking(answer=...), "NO_ANSWER"),
    ("a null answer", checking(answer=None), "NO_ANSWER"),
    ("a question alone", b'{"question": "When does tin melt?"}', "NO_ANSWER"),
    ("an empty answer", checking(answer=""), "BLANK_ANSWER"),
    ("a blank answer", checking(answer=" \u00a0\n"), "BLANK_ANSWER"),
    ("a number for an answer", checking(answer=232), "WRONG_TYPE"),
    ("a list for an answer", checking(answer=["a"]), "WRONG_TYPE"),
    ("a content for an answer", checking(answer={"parts": {"text": "a"}}), "WRONG_TYPE"),
    ("two answers", checking(answerCandidate="b"), "TWO_ANSWERS"),
    ("the API's answer, blank", checking(answer=..., answer_candidate=" "), "BLANK_ANSWER"),
    ("no facts", checking(facts=...), "NO_FACTS"),
    ("null facts", checking(facts=None), "NO_FACTS"),
    ("an empty list of facts", checking(facts=[]), "NO_FACTS"),
    ("201 facts", checking(facts=[FACT] * 201), "TOO_MANY_FACTS"),
    ("a fact of 10 001 characters", checking(facts=["é" * 10_001]), "FACT_TOO_LONG"),
    ("an empty fact", checking(facts=[FACT, ""]), "EMPTY_FACT"),
    ("a fact without text", checking(facts=[{"attributes": {"title": "t"}}]), "EMPTY_FACT"),
    ("a string for facts", checking(facts=FACT), "WRONG_TYPE"),
    ("a number among facts", checking(facts=[1]), "WRONG_TYPE"),
    ("an unknown field of a fact", checking(facts=[{"text": FACT}]), "UNKNOWN_FIELD"),
    (
        "a number for an attribute",
        checking(facts=[{"fact_text": FACT, "attributes": {"p": 1}}]),
        "WRONG_TYPE",
    ),
    ("a threshold of 1.01", checking(citation_threshold=1.01), "OUT_OF_RANGE"),
    ("a threshold below 0", checking(citation_threshold=-0.1), "OUT_OF_RANGE"),
    ("a string for a threshold", checking(citation_threshold="half"), "WRONG_TYPE"),
    ("true for a threshold", checking(citation_threshold=True), "WRONG_TYPE"),
    ("a threshold in the spec", checking(grounding_spec={"citationThreshold": 2}), "OUT_OF_RANGE"),
    ("two thresholds", checking(citation_threshold=0.5, groundingSpec={}), "TWO_THRESHOLDS"),
    ("1 for claim scores", checking(grounding_spec={"enable_claim_level_score": 1}), "WRONG_TYPE"),
    ("sources", checking(grounding_spec={"grounding_sources": []}), "UNKNOWN_FIELD"),
    ("a list for the spec", checking(grounding_spec=[]), "WRONG_TYPE"),
    ("65 labels", checking(user_labels={f"l{i}": "" for i in range(65)}), "TOO_MANY_LABELS"),
    ("an upper-case label", checking(user_labels={"Team": "x"}), "INVALID_LABEL"),
    ("a list of labels", checking(user_labels=["team"]), "WRONG_TYPE"),
    ("anwser", checking(answer=..., anwser="a"), "NEAR_MISS"),
    ("answers", checking(answers=["a"]), "NEAR_MISS"),
    ("fact", checking(fact=["a"]), "NEAR_MISS"),
    ("citation_treshold", checking(citation_treshold=0.5), "NEAR_MISS"),
    ("two spellings", checking(user_labels={}, userLabels={}), "DUPLICATE_FIELD"),
    ("a fraction for an id", checking(id=1.5), "INVALID_ID"),
]
