"""Extractive answers: the sentences that fit a question best, what supports them, and how well.

An answer here is in no API's form. Each API's folder writes it into its own messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from groundrows.pipeline.emulator.answering.retrieval import Hit, Passage
from groundrows.pipeline.emulator.answering.text import words

NOTHING_FOUND = "The sources hold nothing that answers this question."
UNGROUNDED = "This answer is not grounded: no source was consulted for it."

MAX_ANSWER_SENTENCES = 3
# A further sentence belongs to the answer when it fits nearly as well as the best one.
NEARLY_AS_GOOD = 0.75
# A passage supports a claim it does not hold verbatim when it shares this much of the claim's words.
SUPPORTING_OVERLAP = 0.6
MAX_SUPPORTING_CHUNKS = 3


@dataclass(frozen=True, slots=True)
class Cited:
    """A hit together with the index, in the request, of the source it came from."""

    source: int
    hit: Hit


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage that an answer cites, and the index in the request of the source it came from."""

    source: int
    passage: Passage


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence of an answer.

    Attributes:
        text: The sentence.
        chunks: Indices of the chunks that support it, at least one; the one it was taken from comes first.
        score: How well they support it, in (0, 1].
    """

    text: str
    chunks: tuple[int, ...]
    score: float


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer.

    Attributes:
        text: The claims, with a space between two.
        claims: Its sentences, none when nothing was found.
        chunks: What they cite, each once, in the order of the first citation.
        score: The claims' scores, weighted by their length; None without claims.
    """

    text: str
    claims: tuple[Claim, ...] = ()
    chunks: tuple[Chunk, ...] = ()
    score: float | None = None


def answers_from(found: Sequence[Cited], count: int, otherwise: str) -> list[Answer]:
    """Make `count` answers, each of the sentences that those before it left out, as long as there are any.

    Args:
        found: The fitting sentences of all sources.
        count: How many answers.
        otherwise: The text of each answer when nothing was found.
    """
    left = list(found)
    answers = []
    for _ in range(count):
        answers.append(_compose(left) if left else Answer(otherwise))
        told = {claim.text for claim in answers[-1].claims}
        left = [cited for cited in left if cited.hit.sentence not in told] or left
    return answers


def _compose(found: Sequence[Cited]) -> Answer:
    """One answer: the best sentences, the chunks they cite and a score for each."""
    found = sorted(found, key=lambda cited: -cited.hit.relevance)  # stable: BM25's order among equals
    enough = NEARLY_AS_GOOD * found[0].hit.relevance
    best: dict[str, Cited] = {}
    for cited in found:
        if cited.hit.relevance >= enough and len(best) < MAX_ANSWER_SENTENCES:
            best.setdefault(cited.hit.sentence, cited)

    index_of: dict[Chunk, int] = {}
    claims = []
    for sentence, cited in best.items():
        overlaps = _supporting(cited, found)
        chunks = tuple(index_of.setdefault(chunk, len(index_of)) for chunk in overlaps)
        overlap = sum(overlaps.values()) / len(overlaps)
        claims.append(Claim(sentence, chunks, round(overlap * (1 + cited.hit.relevance) / 2, 4)))
    characters = sum(len(claim.text) for claim in claims)
    score = round(sum(claim.score * len(claim.text) for claim in claims) / characters, 4)
    return Answer(" ".join(best), tuple(claims), tuple(index_of), score)


def _supporting(claim: Cited, found: Sequence[Cited]) -> dict[Chunk, float]:
    """The chunks that support a claim, its own first, each with the share of the claim's words it holds."""
    claimed = frozenset(words(claim.hit.sentence))
    supporting = {Chunk(claim.source, claim.hit.passage): 1.0}
    for other in found:
        overlap = len(claimed & other.hit.passage.words) / len(claimed)
        if overlap >= SUPPORTING_OVERLAP and len(supporting) < MAX_SUPPORTING_CHUNKS:
            supporting.setdefault(Chunk(other.source, other.hit.passage), overlap)
    return supporting
