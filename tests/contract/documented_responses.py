"""The responses that the service's own pages show, each of the same shape with values of our own.

The guides in English and French show the same ones; `ref` is the v1alpha reference, which names every field. What
is no list is one response; a list is a stream of them.
"""

from __future__ import annotations

from typing import Any

TIN, LEAD, ZINC = "Tin melts at 232 °C.", "Lead melts at 327 °C.", "Zinc melts at 420 °C."
REDIRECT = "https://redirect.example/one"
HTML = '<style>\n.chip { color: #1f1f1f; }\n</style>\n<div class="chip">tin &amp; lead</div>\n'
TIN_FACT = {"title": "Tin", "uri": "metals/tin", "author": "A"}
MANUAL = {
    "title": "Manual",
    "uri": "gs://metals/manual.pdf",
    "document_id": "projects/42/locations/global/collections/default_collection/dataStores/d/branches/0/documents/7",
    "page_identifier": "2",
}
SEARCHED = {"webSearchQueries": ["when does tin melt"], "searchEntryPoint": {"renderedContent": HTML}}


def answer(text: str, score: float, metadata: dict[str, Any]) -> dict[str, Any]:
    content = {"role": "model", "parts": [{"text": text}]}
    return {"candidates": [{"content": content, "groundingScore": score, "groundingMetadata": metadata}]}


def chunk(text: str, source: str, about: dict[str, str]) -> dict[str, Any]:
    return {"chunkText": text, "source": source, "sourceMetadata": about}


def claim(text: str, indices: list[int], score: float | None = None) -> dict[str, Any]:
    scored = {} if score is None else {"supportScore": score}
    return {"claimText": text, **scored, "supportChunkIndices": indices}


def part(text: str) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}}]}


def about(**metadata: Any) -> dict[str, Any]:
    return {"candidates": [{"groundingMetadata": metadata}]}


def dynamic(prediction: float) -> list[dict[str, Any]]:
    predictor = {"version": "V1_INDEPENDENT", "prediction": prediction}
    return [{"source": "GOOGLE_SEARCH", "dynamicRetrievalMetadata": {"predictorMetadata": predictor}}]


_PAGE = {"source": "0", "sourceMetadata": {"uri": REDIRECT, "domain": "metals.example"}}
_METALS = [
    chunk(f"{text} ", str(source), {"uri": f"metals/{source}", "title": f"Metal {source}"})
    for source, text in ((1, LEAD), (0, TIN), (2, ZINC))
]

RESPONSES: dict[str, Any] = {
    "inline-and-search": answer(
        TIN,
        0.75,
        {
            "supportChunks": [chunk("Tin, 232 °C", "4", MANUAL), chunk(TIN, "0", TIN_FACT)],
            "groundingSupport": [claim(TIN, [0, 1])],
        },
    ),
    "inline-and-search-example": answer(
        f"{TIN} {LEAD} See https://metals.example/tin. 🙂 \n",
        0.86738646,
        {
            "supportChunks": [
                chunk("Melting points:\ntin 232, lead 327\n...", "1", MANUAL),
                chunk("Melting points:\ntin 232, lead 327\n...", "1", MANUAL),
                chunk("See https://metals.example/tin ", "0", {"uri": "metals/tin", "title": "Tin"}),
            ],
            "groundingSupport": [
                claim(TIN, [0]),
                claim(LEAD, [1]),
                claim("See https://metals.example/tin.🙂 ", [2]),
            ],
        },
    ),
    "google": answer(
        f"{TIN} {LEAD}",
        0.75,
        {
            "supportChunks": [_PAGE],
            "groundingSupport": [claim(TIN, [0], 0.5), claim(LEAD, [0], 0.9)],
            **SEARCHED,
        },
    ),
    "google-dynamic": answer(
        f"{TIN} {LEAD}",
        0.75,
        {
            "supportChunks": [{}],
            "groundingSupport": [claim(TIN, [0], 0.5), claim(LEAD, [0], 0.9)],
            **SEARCHED,
            "retrievalMetadata": dynamic(0.25),
        },
    ),
    "google-dynamic-example": answer(
        f"Metals differ. \n\nWhat melts when:\n\n* **Tin:** {TIN}\n* **Lead:** {LEAD}\n\nAsk:\n\n* A smith\n* A book 🙂 \n",
        0.80400103,
        {
            "supportChunks": [_PAGE],
            "groundingSupport": [
                claim("Metals differ.", [0], 0.9541752),
                claim(f"* **Tin:**  {TIN}", [0], 0.77115613),
                claim(f"* **Lead:**  {LEAD}", [0], 0.8540146),
                claim("* A smith", [0], 0.82046676),
            ],
            **SEARCHED,
            "retrievalMetadata": dynamic(0.671875),
        },
    ),
    "first-turn": answer(
        f"{TIN} {LEAD}",
        0.75,
        {"supportChunks": [], "groundingSupport": [claim(TIN, [0, 1]), claim(LEAD, [1])], **SEARCHED},
    ),
    "second-turn": answer(
        f"{TIN} {LEAD}",
        0.75,
        {"supportChunks": [], "groundingSupport": [claim(TIN, [0]), claim(LEAD, [1, 2])], **SEARCHED},
    ),
    "first-turn-example": answer(
        "Tin, lead and zinc melt early.  🙂 \n",
        1,
        {
            "supportChunks": _METALS,
            "groundingSupport": [claim("Tin, lead and zinc melt early.", [0, 1, 2], 1)],
        },
    ),
    "second-turn-example": answer(
        f"- {ZINC}\n- {TIN}\n- {LEAD} \n",
        0.99073017,
        {
            "supportChunks": _METALS,
            "groundingSupport": [
                claim(f"- {ZINC}", [2], 0.9883382),
                claim(f"- {TIN}", [1], 0.9919262),
                claim(f"- {LEAD}", [0], 0.9919262),
            ],
        },
    ),
    "stream": [
        part("Tin melts"),
        part(" at 232"),
        part(" °C."),
        about(supportChunks=[_PAGE], groundingSupport=[claim(TIN, [0])], **SEARCHED),
    ],
    "stream-example": [
        part("Tin"),
        part(" melts at"),
        part(" 232 °C. "),
        about(supportChunks=[_PAGE], groundingSupport=[claim(f"{TIN} ", [0])], **SEARCHED),
        part("Lead melts"),
        part(" at 327 °C. "),
        about(groundingSupport=[claim(f"{LEAD} ", [0])]),
        part(ZINC),
        part(" \n"),
        about(groundingSupport=[claim(f"{ZINC} \n", [0])]),
    ],
    "ref": {
        "candidates": [
            {
                "index": 0,
                "content": {"role": "model", "parts": [{"text": "Tin melts "}, {"text": "at 232 °C."}]},
                "groundingScore": 0.5,
                "groundingMetadata": {
                    "retrievalMetadata": [
                        {"source": "INLINE_CONTENT"},
                        {
                            "source": "GOOGLE_MAPS",
                            "dynamicRetrievalMetadata": {
                                "predictorMetadata": {"version": "VERSION_UNSPECIFIED"}
                            },
                        },
                        {"source": "SOURCE_UNSPECIFIED"},
                    ],
                    "supportChunks": [chunk(TIN, "0", TIN_FACT)],
                    "webSearchQueries": ["tin", "melting point"],
                    "searchEntryPoint": {"renderedContent": HTML, "sdkBlob": "W1sidGluIiwgInUiXV0="},
                    "groundingSupport": [claim(TIN, [0], 0.25)],
                },
            }
        ]
    },
}
