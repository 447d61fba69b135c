"""The requests that the service's own pages show, each of the same shape with values of our own.

The pages are the guide in English (REST), the guide in French (REST and Python) and the v1alpha reference, which
shows one shape for each message of a request. Names say which: `en`, `fr`, `py` or `ref`.
"""

from __future__ import annotations

from typing import Any

ENGINES = "projects/42/locations/global/collections/default_collection/engines"
MANUAL, HANDBOOK = (f"{ENGINES}/{name}/servingConfigs/default_search" for name in ("manual", "handbook"))
CONTEXT = {"languageCode": "it", "latLng": {"latitude": 45.4, "longitude": 12.3}}
SPEC = {"modelId": "a-model", "temperature": 0.0, "topP": 0.9, "topK": 20}
MODEL = {"modelId": "a-model"}
INSTRUCTION = {"parts": {"text": "Answer in one line."}}
GOOGLE = {"googleSearchSource": {}}
TIN, LEAD, ZINC = "Tin melts at 232 °C.", "Lead melts at 327 °C.", "Zinc melts at 420 °C."


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "parts": [{"text": text}]}


def model(text: str) -> dict[str, Any]:
    return {"role": "model", "parts": [{"text": text}]}


def dynamic(threshold: float) -> dict[str, Any]:
    return {"googleSearchSource": {"dynamicRetrievalConfig": {"predictor": {"threshold": threshold}}}}


def snake_inline(text: str, number: int) -> dict[str, Any]:
    attributes = {"title": f"Metal {number}", "uri": f"metals/{number}"}
    return {"inline_source": {"grounding_facts": [{"fact_text": text, "attributes": attributes}]}}


_TWO_INLINE_TWO_SEARCH = {
    "contents": [user("How warm must tin and lead be?")],
    "systemInstruction": INSTRUCTION,
    "groundingSpec": {
        "groundingSources": [
            {
                "inlineSource": {
                    "groundingFacts": [
                        {"factText": TIN, "attributes": {"title": "Tin", "uri": "metals/tin", "author": "A"}}
                    ]
                }
            },
            {
                "inlineSource": {
                    "groundingFacts": [
                        {"factText": LEAD, "attributes": {"title": "Lead", "uri": "metals/lead"}},
                        {"factText": ZINC, "attributes": {"title": "Zinc", "uri": "metals/zinc"}},
                    ]
                }
            },
            {"searchSource": {"servingConfig": MANUAL}},
            {"searchSource": {"servingConfig": HANDBOOK}},
        ]
    },
    "generationSpec": SPEC,
}
_INLINE_AND_SEARCH = {
    "contents": [user("When does tin melt, and where is the manual?")],
    "systemInstruction": INSTRUCTION,
    "groundingSpec": {
        "groundingSources": [snake_inline(TIN, 1), {"searchSource": {"servingConfig": MANUAL}}]
    },
    "generationSpec": MODEL,
}
_GOOGLE_DYNAMIC = {
    "contents": [user("What does tin cost today?")],
    "systemInstruction": INSTRUCTION,
    "groundingSpec": {"groundingSources": [dynamic(0.35)]},
    "generationSpec": SPEC,
}
_GOOGLE_DYNAMIC_EXAMPLE = _GOOGLE_DYNAMIC | {
    "groundingSpec": {"groundingSources": [dynamic(0.8)]},
    "generationSpec": MODEL,
}
_FIRST_TURN = {
    "contents": [user("What does tin cost today?")],
    "systemInstruction": INSTRUCTION,
    "groundingSpec": {"groundingSources": [GOOGLE]},
    "generationSpec": SPEC,
}
_SECOND_TURN = _FIRST_TURN | {
    "contents": [user("What does tin cost today?"), model("As much as yesterday."), user("And lead?")],
    "systemInstruction": {"parts": {"text": "Answer in two lines."}},
}
_SNAKE_SOURCES = {
    "grounding_sources": [snake_inline(text, number) for number, text in enumerate((TIN, LEAD, ZINC))]
}
_FIRST_OF_INLINE = {
    "contents": [user("Compare these metals.")],
    "systemInstruction": INSTRUCTION,
    "grounding_spec": _SNAKE_SOURCES,
    "generationSpec": MODEL,
}
_SECOND_OF_INLINE = {
    "contents": [user("Compare these metals."), model("Tin melts first. \n"), user("Now as a list.")],
    "grounding_spec": _SNAKE_SOURCES,
    "generationSpec": MODEL,
}
# The streaming method takes a list of requests.
_STREAM = [_FIRST_TURN | {"contents": [user("How is tin cast?")]}]
_STREAM_EXAMPLE = [
    {
        "contents": [user("How is lead cast?")],
        "groundingSpec": {"groundingSources": [GOOGLE]},
        "generationSpec": MODEL,
    }
]

# What the Python client's messages are as dictionaries; `location` is the run's and not the record's.
_LOCATION = {"location": "projects/42/locations/global"}
_PY_INLINE_AND_SEARCH = _LOCATION | {
    "generation_spec": {"model_id": "a-model"},
    "contents": [user("When does tin melt, and where is the manual?")],
    "system_instruction": {"parts": [{"text": "Answer in one line."}]},
    "grounding_spec": {
        "grounding_sources": [snake_inline(TIN, 1), {"search_source": {"serving_config": MANUAL}}]
    },
}
_PY_GOOGLE = _LOCATION | {
    "generation_spec": {"model_id": "a-model"},
    "contents": [user("What does tin cost today?")],
    "system_instruction": {"parts": [{"text": "Answer in one line."}]},
    "grounding_spec": {
        "grounding_sources": [
            {"google_search_source": {"dynamic_retrieval_config": {"predictor": {"threshold": 0.45}}}}
        ]
    },
}
_PY_STREAM = _LOCATION | {
    "generation_spec": {"model_id": "a-model"},
    "contents": [user("How is tin cast?")],
    "grounding_spec": {"grounding_sources": [{"google_search_source": {}}]},
}

_Q = {"contents": [user("When does tin melt?")]}


def _with_source(source: dict[str, Any]) -> dict[str, Any]:
    return _Q | {"groundingSpec": {"groundingSources": [source]}}


def _with_context(sample: dict[str, Any]) -> dict[str, Any]:
    return sample | {"user_context": CONTEXT}


REQUESTS: dict[str, Any] = {
    "en-inline-and-search": _with_context(_TWO_INLINE_TWO_SEARCH),
    "en-inline-and-search-example": _with_context(_INLINE_AND_SEARCH),
    "en-google-dynamic": _with_context(_GOOGLE_DYNAMIC),
    "en-google-dynamic-example": _GOOGLE_DYNAMIC_EXAMPLE,
    "en-first-turn": _with_context(_FIRST_TURN),
    "en-second-turn": _with_context(_SECOND_TURN),
    "en-first-turn-example": _FIRST_OF_INLINE,
    "en-second-turn-example": _SECOND_OF_INLINE,
    "en-stream": [_with_context(_STREAM[0])],
    "en-stream-example": _STREAM_EXAMPLE,
    "fr-inline-and-search": _TWO_INLINE_TWO_SEARCH,
    "fr-inline-and-search-example": _INLINE_AND_SEARCH,
    "fr-google-dynamic": _GOOGLE_DYNAMIC,
    "fr-google-dynamic-example": _GOOGLE_DYNAMIC_EXAMPLE,
    "fr-first-turn": _FIRST_TURN,
    "fr-second-turn": _SECOND_TURN,
    "fr-first-turn-example": _FIRST_OF_INLINE,
    "fr-second-turn-example": _SECOND_OF_INLINE,
    "fr-stream": _STREAM,
    "fr-stream-example": _STREAM_EXAMPLE,
    "py-inline-and-search": _PY_INLINE_AND_SEARCH,
    "py-google-dynamic": _PY_GOOGLE,
    "py-stream": _PY_STREAM,
    "ref-request": {
        "systemInstruction": {"role": "user", "parts": [{"text": "Answer in one line."}]},
        "contents": [user("When does tin melt?")],
        "generationSpec": {"modelId": "a-model"},
        "groundingSpec": {"groundingSources": [GOOGLE]},
        "userLabels": {"team": "foundry"},
    },
    "ref-content": {"contents": [{"role": "user", "parts": [{"text": "When does "}, {"text": "tin melt?"}]}]},
    "ref-part": {"contents": [{"parts": [{"text": "When does tin melt?"}]}]},
    "ref-generation-spec": _Q
    | {
        "generationSpec": {
            "modelId": "a-model",
            "languageCode": "pt-BR",
            "temperature": 0.5,
            "topP": 0.75,
            "topK": 12,
            "frequencyPenalty": -0.25,
            "seed": 7,
            "presencePenalty": 0.125,
            "maxOutputTokens": 512,
        }
    },
    "ref-grounding-spec": _Q | {"groundingSpec": {"groundingSources": []}},
    "ref-grounding-source": _with_source({"searchSource": {"servingConfig": MANUAL}}),
    "ref-inline-source": _with_source(
        {
            "inlineSource": {
                "groundingFacts": [{"factText": TIN, "attributes": {"page": "7"}}, {"factText": LEAD}],
                "attributes": {"source": "the foundry", "author": "A"},
            }
        }
    ),
    "ref-search-source": _with_source(
        {
            "searchSource": {
                "servingConfig": MANUAL,
                "maxResultCount": 4,
                "filter": 'metal: ANY("tin")',
                "safeSearch": True,
            }
        }
    ),
    "ref-google-search-source": _with_source({"googleSearchSource": {"dynamicRetrievalConfig": {}}}),
    "ref-dynamic-retrieval": _with_source(
        {"googleSearchSource": {"dynamicRetrievalConfig": {"predictor": {}}}}
    ),
    "ref-predictor": _with_source(
        {
            "googleSearchSource": {
                "dynamicRetrievalConfig": {"predictor": {"version": "V1_INDEPENDENT", "threshold": 0.0}}
            }
        }
    ),
}
