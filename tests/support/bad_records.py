"""Records that can't be asked, each with the code it fails by, under `RecordSettings()` (v1, gRPC)."""

from __future__ import annotations

import json

# What fails before the record is an object with fields.
PARSE_CODES = {
    "EMPTY_RECORD",
    "INVALID_JSON",
    "INVALID_UTF8",
    "NOT_AN_OBJECT",
    "DUPLICATE_KEY",
    "NOT_FINITE",
    "TOO_DEEP",
    "LONE_SURROGATE",
    "TOO_LARGE",
}

FACT = "Water boils at 100 °C at sea level."
SEARCH = {
    "search_source": {
        "serving_config": "projects/p/locations/global/collections/c/engines/e/servingConfigs/s"
    }
}
GOOGLE = {"google_search_source": {}}


def inline(*facts: object) -> dict[str, object]:
    return {"inline_source": {"grounding_facts": [{"fact_text": f} for f in facts]}}


def asking(**fields: object) -> bytes:
    """A record that would be fine but for `fields`."""
    return json.dumps({"question": "Why is the sky blue?", **fields}, ensure_ascii=False).encode()


def record(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def generation(**fields: object) -> bytes:
    return asking(generation_spec=fields)


def sources(*given: object) -> bytes:
    return asking(grounding_sources=list(given))


def content(text: str = "Hello?", role: str | None = "user") -> dict[str, object]:
    return {"parts": [{"text": text}]} | ({} if role is None else {"role": role})


def google(config: object) -> bytes:
    return sources({"google_search_source": {"dynamic_retrieval_config": config}})


_BYTES = [
    ("no bytes", b"", "EMPTY_RECORD"),
    ("white space", b" \t\r\n ", "EMPTY_RECORD"),
    ("a byte order mark alone", b"\xef\xbb\xbf", "EMPTY_RECORD"),
    ("no JSON", b"Why is the sky blue?", "INVALID_JSON"),
    ("cut short", b'{"question": "Why', "INVALID_JSON"),
    ("single quotes", b"{'question': 'Why?'}", "INVALID_JSON"),
    ("trailing comma", b'{"question": "Why?",}', "INVALID_JSON"),
    ("two objects on a line", b'{"question": "Why?"}{"question": "How?"}', "INVALID_JSON"),
    ("raw line break in a string", b'{"question": "Why\n?"}', "INVALID_JSON"),
    ("raw NUL in a string", b'{"question": "Why\x00?"}', "INVALID_JSON"),
    ("a whole number of 5 000 digits", b'{"question": "Why?", "n": ' + b"9" * 5000 + b"}", "INVALID_JSON"),
    ("a lone continuation byte", b'{"question": "\x80"}', "INVALID_UTF8"),
    ("Latin-1", '{"question": "Où?"}'.encode("latin-1"), "INVALID_UTF8"),
    ("UTF-16", '{"question": "Why?"}'.encode("utf-16"), "INVALID_UTF8"),
    ("a surrogate in raw bytes", b'{"question": "\xed\xa0\xbd"}', "INVALID_UTF8"),
    ("an overlong slash", b'{"question": "\xc0\xaf"}', "INVALID_UTF8"),
    ("cut within a character", b'{"question": "\xf0\x9f\x98', "INVALID_UTF8"),
    ("a list", b'["Why?"]', "NOT_AN_OBJECT"),
    ("a string", b'"Why?"', "NOT_AN_OBJECT"),
    ("a list of two objects", b'[{"question": "Why?"}, {"question": "How?"}]', "NOT_AN_OBJECT"),
    ("a list in a list", b'[[{"question": "Why?"}]]', "NOT_AN_OBJECT"),
    ("no object in a list", b"[]", "NOT_AN_OBJECT"),
    ("a number", b"17", "NOT_AN_OBJECT"),
    ("null", b"null", "NOT_AN_OBJECT"),
    ("the question twice", b'{"question": "Why?", "question": "How?"}', "DUPLICATE_KEY"),
    ("a key twice inside", b'{"question": "Why?", "metadata": {"a": 1, "a": 2}}', "DUPLICATE_KEY"),
    ("NaN", b'{"question": "Why?", "facts": [{"fact_text": NaN}]}', "NOT_FINITE"),
    ("minus infinity", b'{"question": "Why?", "generation_spec": {"top_p": -Infinity}}', "NOT_FINITE"),
    ("a double too large", b'{"question": "Why?", "n": 1e400}', "NOT_FINITE"),
    ("10 000 lists", b'{"question": "Why?", "metadata": ' + b"[" * 10_000 + b"]" * 10_000 + b"}", "TOO_DEEP"),
    ("10 000 objects", b'{"a":' * 10_000 + b"1" + b"}" * 10_000, "TOO_DEEP"),
    ("101 levels", b'{"question": "Why?", "a": ' + b"[" * 100 + b"]" * 100 + b"}", "TOO_DEEP"),
    ("a lone surrogate in the question", rb'{"question": "Why \ud83d?"}', "LONE_SURROGATE"),
    ("a surrogate pair the wrong way round", rb'{"question": "Why \ude00\ud83d?"}', "LONE_SURROGATE"),
    ("a lone surrogate in the id", rb'{"id": "\uD83D", "question": "Why?"}', "LONE_SURROGATE"),
    (
        "a lone surrogate in metadata",
        rb'{"question": "Why?", "metadata": [{"a": "\udfff"}]}',
        "LONE_SURROGATE",
    ),
    ("a lone surrogate in a key", rb'{"question": "Why?", "a": {"\udc00": 1}}', "LONE_SURROGATE"),
    ("50 MB", b'{"question": "' + b"x" * 50_000_000 + b'"}', "TOO_LARGE"),
]

_QUESTIONS = [
    ("an empty object", record(), "NO_QUESTION"),
    ("metadata alone", record(metadata={"a": 1}), "NO_QUESTION"),
    ("a null question", record(question=None), "NO_QUESTION"),
    ("no turns", record(turns=[]), "NO_QUESTION"),
    ("no contents", record(contents=[]), "NO_QUESTION"),
    ("question and turns", asking(turns=["How?"]), "TWO_QUESTIONS"),
    ("question and contents", asking(contents=[content()]), "TWO_QUESTIONS"),
    ("turns and contents", record(turns=["How?"], contents=[content()]), "TWO_QUESTIONS"),
    ("an empty question", record(question=""), "BLANK_QUESTION"),
    ("a blank question", record(question=" \u00a0\n"), "BLANK_QUESTION"),
    ("a blank turn", record(turns=["How?", " "]), "BLANK_QUESTION"),
    ("a blank last content", record(contents=[content("  ")]), "BLANK_QUESTION"),
    ("a number for a question", record(question=17), "WRONG_TYPE"),
    ("a list for a question", record(question=["Why?"]), "WRONG_TYPE"),
    ("a string for turns", record(turns="How?"), "WRONG_TYPE"),
    ("a number among turns", record(turns=["How?", 2]), "WRONG_TYPE"),
    ("a turn without text", record(turns=[{"system_instruction": "Be brief."}]), "NO_TEXT"),
    ("a turn whose text is null", record(turns=["How?", {"text": None}]), "NO_TEXT"),
    ("a turn whose text is blank", record(turns=[{"text": " "}]), "BLANK_QUESTION"),
    ("a turn whose text is a list", record(turns=[{"text": ["How?"]}]), "WRONG_TYPE"),
    ("a list for a turn", record(turns=[["How?"]]), "WRONG_TYPE"),
    ("a null turn", record(turns=["How?", None]), "WRONG_TYPE"),
    ("a turn with a slip", record(turns=[{"text": "How?", "system_instructions": "x"}]), "UNKNOWN_FIELD"),
    ("a turn with facts", record(turns=[{"text": "How?", "facts": ["x"]}]), "UNKNOWN_FIELD"),
    (
        "a turn with two spellings",
        record(turns=[{"text": "How?", "system_instruction": "x", "systemInstruction": "x"}]),
        "DUPLICATE_FIELD",
    ),
    (
        "a turn with a blank instruction",
        record(turns=[{"text": "How?", "system_instruction": " "}]),
        "BLANK_SYSTEM_INSTRUCTION",
    ),
    (
        "a turn with a number for an instruction",
        record(turns=[{"text": "How?", "system_instruction": 1}]),
        "WRONG_TYPE",
    ),
    (
        "a turn with an instruction without parts",
        record(turns=[{"text": "How?", "system_instruction": {"role": "user"}}]),
        "NO_TEXT",
    ),
    ("an object for contents", record(contents=content()), "WRONG_TYPE"),
    ("a string for parts", record(contents=[{"role": "user", "parts": "Hello?"}]), "WRONG_TYPE"),
    ("a number for a text", record(contents=[{"role": "user", "parts": {"text": 1}}]), "WRONG_TYPE"),
    ("no parts", record(contents=[{"role": "user"}]), "NO_TEXT"),
    ("a part without text", record(contents=[{"role": "user", "parts": [{}]}]), "NO_TEXT"),
    ("a null text", record(contents=[{"role": "user", "parts": [{"text": None}]}]), "NO_TEXT"),
    ("an unknown role", record(contents=[content(role="assistant")]), "INVALID_ROLE"),
    ("a history without roles", record(contents=[content(role=None), content(role="user")]), "INVALID_ROLE"),
    ("the model last", record(contents=[content(), content(role="model")]), "LAST_NOT_USER"),
    (
        "a part that is no text",
        record(contents=[{"role": "user", "parts": [{"inline_data": {}}]}]),
        "UNKNOWN_FIELD",
    ),
]

_NAMES = [
    ("qestion", record(qestion="Why?"), "NEAR_MISS"),
    ("qestion beside a question", asking(qestion="How?"), "NEAR_MISS"),
    ("fact", asking(fact=["Water boils."]), "NEAR_MISS"),
    ("generationspecs", asking(generationspecs={}), "NEAR_MISS"),
    ("system_instructions", asking(system_instructions="Be brief."), "NEAR_MISS"),
    ("two spellings", asking(generation_spec={}, generationSpec={}), "DUPLICATE_FIELD"),
    ("two spellings inside", generation(model_id="a", modelId="b"), "DUPLICATE_FIELD"),
    ("an unknown field of the generation spec", generation(temprature=1), "UNKNOWN_FIELD"),
    ("an unknown field of a source", sources({"inline": {}}), "UNKNOWN_FIELD"),
    ("an unknown field of a fact", asking(facts=[{"text": FACT}]), "UNKNOWN_FIELD"),
    ("an unknown field of the grounding spec", asking(grounding_spec={"sources": []}), "UNKNOWN_FIELD"),
    ("an unknown field of the predictor", google({"predictor": {"treshold": 0.5}}), "UNKNOWN_FIELD"),
]

_IDS = [
    ("a blank id", asking(id="  "), "INVALID_ID"),
    ("a true id", asking(id=True), "INVALID_ID"),
    ("a fraction for an id", asking(id=1.5), "INVALID_ID"),
    ("a list for an id", asking(id=["a"]), "INVALID_ID"),
    ("an id of 1 001 characters", asking(id="x" * 1001), "INVALID_ID"),
    ("a number of 1 001 digits for an id", asking(id=10**1000), "INVALID_ID"),
]

_SOURCES = [
    ("eleven sources", sources(*[SEARCH] * 11), "TOO_MANY_SOURCES"),
    ("ten sources and facts", asking(facts=[FACT], grounding_sources=[SEARCH] * 10), "TOO_MANY_SOURCES"),
    ("101 facts", asking(facts=[FACT] * 101), "TOO_MANY_FACTS"),
    ("101 facts in a source", sources(inline(*[FACT] * 101)), "TOO_MANY_FACTS"),
    ("a fact of 10 001 characters", asking(facts=["é" * 10_001]), "FACT_TOO_LONG"),
    ("a long fact in a source", sources(SEARCH, inline(FACT, "x" * 10_001)), "FACT_TOO_LONG"),
    ("an empty fact", asking(facts=[FACT, ""]), "EMPTY_FACT"),
    ("a fact without text", asking(facts=[{"attributes": {"title": "t"}}]), "EMPTY_FACT"),
    ("a blank fact in a source", sources(inline(" ")), "EMPTY_FACT"),
    ("an inline source without facts", sources({"inline_source": {}}), "EMPTY_SOURCE"),
    ("a source that is none", sources({}), "EMPTY_SOURCE"),
    ("a source that is null", sources({"google_search_source": None}), "EMPTY_SOURCE"),
    ("a string for facts", asking(facts=FACT), "WRONG_TYPE"),
    ("a number among facts", asking(facts=[1]), "WRONG_TYPE"),
    (
        "a number for an attribute",
        asking(facts=[{"fact_text": FACT, "attributes": {"page": 1}}]),
        "WRONG_TYPE",
    ),
    ("an object for sources", asking(grounding_sources=SEARCH), "WRONG_TYPE"),
    ("a list for the grounding spec", asking(grounding_spec=[SEARCH]), "WRONG_TYPE"),
    ("two members in a source", sources(SEARCH | GOOGLE), "ONEOF_CONFLICT"),
    ("grounding given twice", asking(grounding_spec={}, grounding_sources=[SEARCH]), "TWO_GROUNDINGS"),
    ("Google Search beside another", sources(GOOGLE, SEARCH), "GOOGLE_SEARCH_NOT_ALONE"),
    ("Google Search twice", sources(GOOGLE, GOOGLE), "GOOGLE_SEARCH_NOT_ALONE"),
    (
        "Google Search beside facts",
        asking(facts=[FACT], grounding_sources=[GOOGLE]),
        "GOOGLE_SEARCH_NOT_ALONE",
    ),
    ("a threshold of 1.5", google({"predictor": {"threshold": 1.5}}), "OUT_OF_RANGE"),
    ("a threshold below 0", google({"predictor": {"threshold": -0.01}}), "OUT_OF_RANGE"),
    ("a string for a threshold", google({"predictor": {"threshold": "half"}}), "WRONG_TYPE"),
    ("an unknown predictor version", google({"predictor": {"version": "V2"}}), "INVALID_ENUM"),
    ("an unknown predictor number", google({"predictor": {"version": 7}}), "INVALID_ENUM"),
    ("true for a predictor version", google({"predictor": {"version": True}}), "INVALID_ENUM"),
    (
        "a search without serving config",
        sources({"search_source": {"filter": "x"}}),
        "MISSING_SERVING_CONFIG",
    ),
    (
        "no results",
        sources({"search_source": SEARCH["search_source"] | {"max_result_count": 0}}),
        "OUT_OF_RANGE",
    ),
    (
        "eleven results",
        sources({"search_source": SEARCH["search_source"] | {"maxResultCount": 11}}),
        "OUT_OF_RANGE",
    ),
    (
        "1 for safe search",
        sources({"search_source": SEARCH["search_source"] | {"safe_search": 1}}),
        "WRONG_TYPE",
    ),
    (
        "domains left out on v1",
        sources({"google_search_source": {"exclude_domains": ["a.org"]}}),
        "NEEDS_V1BETA",
    ),
    (
        "phishing kept out on v1",
        sources({"google_search_source": {"blocking_confidence": "BLOCK_LOW_AND_ABOVE"}}),
        "NEEDS_V1BETA",
    ),
    (
        "domains left out of the web on v1",
        sources({"enterpriseWebRetrievalSource": {"excludeDomains": []}}),
        "NEEDS_V1BETA",
    ),
]

_SPECS = [
    ("a string for a temperature", generation(temperature="half"), "WRONG_TYPE"),
    ("true for a temperature", generation(temperature=True), "WRONG_TYPE"),
    ("a temperature past a float", generation(temperature=1e39), "OUT_OF_RANGE"),
    ("a fraction for top_k", generation(top_k=1.5), "WRONG_TYPE"),
    ("false for a seed", generation(seed=False), "WRONG_TYPE"),
    ("a seed past 32 bits", generation(seed=2**31), "OUT_OF_RANGE"),
    ("a very long seed", generation(seed=-(10**400)), "OUT_OF_RANGE"),
    ("a number for a model", generation(model_id=2), "WRONG_TYPE"),
    ("a list for the generation spec", asking(generation_spec=[1]), "WRONG_TYPE"),
    ("throughput on v1", generation(provisionedThroughputSetting="PAY_AS_YOU_GO_ONLY"), "NEEDS_V1BETA"),
    ("a list for the system instruction", asking(system_instruction=["Be brief."]), "WRONG_TYPE"),
    ("a blank system instruction", asking(system_instruction=" "), "BLANK_SYSTEM_INSTRUCTION"),
    ("a system instruction without parts", asking(system_instruction={}), "NO_TEXT"),
    ("a system role", asking(system_instruction=content(role="system")), "INVALID_ROLE"),
    ("a list for the user context", asking(user_context=["en"]), "WRONG_TYPE"),
    ("a user context over gRPC", asking(user_context={"languageCode": "en"}), "NEEDS_REST"),
    ("65 labels", asking(user_labels={f"l{i}": "" for i in range(65)}), "TOO_MANY_LABELS"),
    ("an empty label key", asking(user_labels={"": "x"}), "INVALID_LABEL"),
    ("an upper-case label key", asking(user_labels={"Team": "x"}), "INVALID_LABEL"),
    ("a label key with a digit first", asking(user_labels={"1team": "x"}), "INVALID_LABEL"),
    ("a label key with an upper-case letter abroad", asking(user_labels={"Équipe": "x"}), "INVALID_LABEL"),
    ("a label key of 64 characters", asking(user_labels={"k" * 64: "x"}), "INVALID_LABEL"),
    ("a label value of 64 characters", asking(user_labels={"k": "v" * 64}), "INVALID_LABEL"),
    ("an upper-case label value", asking(user_labels={"team": "X"}), "INVALID_LABEL"),
    ("a label value with a space", asking(user_labels={"team": "a b"}), "INVALID_LABEL"),
    ("a number for a label value", asking(user_labels={"team": 7}), "INVALID_LABEL"),
    ("a list of labels", asking(user_labels=["team"]), "WRONG_TYPE"),
]

BAD_RECORDS: list[tuple[str, bytes, str]] = [*_BYTES, *_QUESTIONS, *_NAMES, *_IDS, *_SOURCES, *_SPECS]
