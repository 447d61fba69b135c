"""Every response that the service's pages show becomes the rows one would expect of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from google.protobuf import json_format

from groundrows.schemas.discoveryengine.messages import ApiVersion, response_class
from groundrows.schemas.rows import AnswerRow, ClaimSupportRow, Retrieval, SupportChunkRow
from groundrows.transforms.generate.clients.discoveryengine.merge import merge
from tests.contract.documented_responses import HTML, LEAD, MANUAL, REDIRECT, RESPONSES, TIN, ZINC
from tests.contract.flattened import question_of, rows_of


@dataclass(frozen=True)
class Expected:
    """What the rows of a response say.

    Attributes:
        text: The answer.
        score: How well it is grounded.
        cut: For each claim, what its span cuts out of the answer.
        cited: For each row of claims, the claim and the chunk.
        chunks: For each chunk, its source, URI, title and domain.
        scores: Of the claims.
        coverage: The characters outside supported claims.
    """

    text: str
    score: float | None
    cut: Sequence[str]
    cited: Sequence[tuple[int, int | None]]
    chunks: Sequence[tuple[str | None, ...]]
    scores: Sequence[float | None]
    uncovered: int
    searched: bool = False
    retrieval: Sequence[Retrieval] = ()
    warnings: Sequence[str] = ()


_MANUAL = ("1", MANUAL["uri"], "Manual", None)
_PAGE = ("0", REDIRECT, None, "metals.example")
_METALS = [(str(n), f"metals/{n}", f"Metal {n}", None) for n in (1, 0, 2)]


def google(*predictions: float) -> list[Retrieval]:
    return [Retrieval("GOOGLE_SEARCH", "V1_INDEPENDENT", one) for one in predictions]


EXPECTED = {
    "inline-and-search": Expected(
        text=TIN,
        score=0.75,
        cut=[TIN],
        cited=[(0, 0), (0, 1)],
        chunks=[("4", MANUAL["uri"], "Manual", None), ("0", "metals/tin", "Tin", None)],
        scores=[None],
        uncovered=0,
    ),
    "inline-and-search-example": Expected(
        text=f"{TIN} {LEAD} See https://metals.example/tin. 🙂 \n",
        score=0.86738646,
        cut=[TIN, LEAD, "See https://metals.example/tin. 🙂"],
        cited=[(0, 0), (1, 1), (2, 2)],
        chunks=[_MANUAL, _MANUAL, ("0", "metals/tin", "Tin", None)],
        scores=[None] * 3,
        uncovered=4,
    ),
    "google": Expected(
        text=f"{TIN} {LEAD}",
        score=0.75,
        cut=[TIN, LEAD],
        cited=[(0, 0), (1, 0)],
        chunks=[_PAGE],
        scores=[0.5, 0.9],
        uncovered=1,
        searched=True,
    ),
    "google-dynamic": Expected(
        text=f"{TIN} {LEAD}",
        score=0.75,
        cut=[TIN, LEAD],
        cited=[(0, 0), (1, 0)],
        chunks=[(None, None, None, None)],
        scores=[0.5, 0.9],
        uncovered=1,
        searched=True,
        retrieval=google(0.25),
    ),
    "google-dynamic-example": Expected(
        text=RESPONSES["google-dynamic-example"]["candidates"][0]["content"]["parts"][0]["text"],
        score=0.80400103,
        cut=["Metals differ.", f"* **Tin:** {TIN}", f"* **Lead:** {LEAD}", "* A smith"],
        cited=[(0, 0), (1, 0), (2, 0), (3, 0)],
        chunks=[_PAGE],
        scores=[0.9541752, 0.77115613, 0.8540146, 0.82046676],
        uncovered=43,
        searched=True,
        retrieval=google(0.671875),
    ),
    "first-turn": Expected(
        text=f"{TIN} {LEAD}",
        score=0.75,
        cut=[TIN, LEAD],
        cited=[(0, None), (1, None)],
        chunks=[],
        scores=[None, None],
        uncovered=42,
        searched=True,
        warnings=[
            "Claim 0 cites chunk 0, 1, of 0 chunks: left out.",
            "Claim 1 cites chunk 1, of 0 chunks: left out.",
        ],
    ),
    "second-turn": Expected(
        text=f"{TIN} {LEAD}",
        score=0.75,
        cut=[TIN, LEAD],
        cited=[(0, None), (1, None)],
        chunks=[],
        scores=[None, None],
        uncovered=42,
        searched=True,
        warnings=[
            "Claim 0 cites chunk 0, of 0 chunks: left out.",
            "Claim 1 cites chunk 1, 2, of 0 chunks: left out.",
        ],
    ),
    "first-turn-example": Expected(
        text="Tin, lead and zinc melt early.  🙂 \n",
        score=1,
        cut=["Tin, lead and zinc melt early."],
        cited=[(0, 0), (0, 1), (0, 2)],
        chunks=_METALS,
        scores=[1],
        uncovered=5,
    ),
    "second-turn-example": Expected(
        text=f"- {ZINC}\n- {TIN}\n- {LEAD} \n",
        score=0.99073017,
        cut=[f"- {ZINC}", f"- {TIN}", f"- {LEAD}"],
        cited=[(0, 2), (1, 1), (2, 0)],
        chunks=_METALS,
        scores=[0.9883382, 0.9919262, 0.9919262],
        uncovered=4,
    ),
    "stream": Expected(
        text=TIN,
        score=None,
        cut=[TIN],
        cited=[(0, 0)],
        chunks=[_PAGE],
        scores=[None],
        uncovered=0,
        searched=True,
    ),
    "stream-example": Expected(
        text=f"{TIN} {LEAD} {ZINC} \n",
        score=None,
        cut=[TIN, LEAD, ZINC],
        cited=[(0, 0), (1, 0), (2, 0)],
        chunks=[_PAGE],
        scores=[None] * 3,
        uncovered=4,
        searched=True,
    ),
    "ref": Expected(
        text=TIN,
        score=0.5,
        cut=[TIN],
        cited=[(0, 0)],
        chunks=[("0", "metals/tin", "Tin", None)],
        scores=[0.25],
        uncovered=0,
        searched=True,
        retrieval=[
            Retrieval("INLINE_CONTENT", None, None),
            Retrieval("GOOGLE_MAPS", "VERSION_UNSPECIFIED", None),
            Retrieval("SOURCE_UNSPECIFIED", None, None),
        ],
    ),
}


def message_of(sample: Any, version: ApiVersion) -> Any:
    kind = response_class(version)
    if isinstance(sample, list):
        return merge((json_format.ParseDict(one, kind()) for one in sample), kind)
    return json_format.ParseDict(sample, kind())


def test_every_response_shown_has_its_rows_here() -> None:
    assert RESPONSES.keys() == EXPECTED.keys()


@pytest.mark.parametrize("version", ["v1", "v1beta", "v1alpha"])
@pytest.mark.parametrize("name", RESPONSES)
def test_a_documented_response_becomes_its_rows(name: str, version: ApiVersion) -> None:
    sample, expected = RESPONSES[name], EXPECTED[name]
    streamed = isinstance(sample, list)
    rows = rows_of(question_of(version, "generate"), message_of(sample, version), streamed=streamed)
    (answer,) = (row for row in rows if isinstance(row, AnswerRow))
    chunks = [row for row in rows if isinstance(row, SupportChunkRow)]
    claims = [row for row in rows if isinstance(row, ClaimSupportRow)]
    assert len(rows) == 1 + len(chunks) + len(claims)

    assert (answer.answer_text, answer.role, answer.streamed) == (expected.text, "model", streamed)
    assert (answer.grounding_score, answer.warnings) == (expected.score, tuple(expected.warnings))
    assert answer.support_coverage == (len(expected.text) - expected.uncovered) / len(expected.text)
    assert answer.retrieval == tuple(expected.retrieval)
    assert answer.search_suggestions_html == (HTML if expected.searched else None)
    assert bool(answer.web_search_queries) == expected.searched

    assert [(row.source, row.uri, row.title, row.domain) for row in chunks] == list(expected.chunks)
    assert [row.chunk_index for row in chunks] == list(range(len(expected.chunks)))
    assert [(row.claim_index, row.chunk_index) for row in claims] == list(expected.cited)
    firsts = {row.claim_index: row for row in reversed(claims)}
    assert [expected.text[row.claim_start : row.claim_end] for _, row in sorted(firsts.items())] == list(
        expected.cut
    )
    assert [row.support_score for _, row in sorted(firsts.items())] == list(expected.scores)


def test_a_document_keeps_its_place_and_a_fact_its_attributes() -> None:
    rows = rows_of(question_of("v1", "generate"), message_of(RESPONSES["inline-and-search"], "v1"))
    document, fact = (row for row in rows if isinstance(row, SupportChunkRow))
    assert (document.document_id, document.page_identifier) == (MANUAL["document_id"], "2")
    assert document.source_metadata == MANUAL
    assert (fact.document_id, fact.page_identifier) == (None, None)
    assert fact.source_metadata == {"author": "A", "title": "Tin", "uri": "metals/tin"}


def test_the_blob_of_the_search_is_kept_as_bytes() -> None:
    rows = rows_of(question_of("v1", "generate"), message_of(RESPONSES["ref"], "v1"))
    (answer,) = (row for row in rows if isinstance(row, AnswerRow))
    assert answer.search_sdk_blob == b'[["tin", "u"]]'
    assert answer.web_search_queries == ("tin", "melting point")
