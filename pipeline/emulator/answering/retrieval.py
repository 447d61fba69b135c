"""Finding the sentences that fit a question: BM25 ranks them, the question's covered share judges them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from rank_bm25 import BM25Plus

from groundrows.pipeline.emulator.answering.text import words

# Sentences that an answer is made of, at most.
MAX_HITS = 12
# Earlier turns only say what "it" in the last one means: all of them together weigh half of it.
EARLIER_WEIGHT = 0.5
# A sentence that covers less of the question than this answers another question.
MIN_RELEVANCE = 0.5


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of text that can be cited.

    Attributes:
        text: The whole text.
        sentences: Its sentences, each a part of `text`.
        title: Its document's title, or empty.
        uri: Where it came from, or empty.
        domain: The domain of `uri`, or empty.
        metadata: Further (key, value) pairs for the chunk's source metadata.
        words: The folded words of `text`.
    """

    text: str
    sentences: tuple[str, ...]
    title: str = ""
    uri: str = ""
    domain: str = ""
    metadata: tuple[tuple[str, str], ...] = ()
    words: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", frozenset(words(self.text)))


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked, in distinct folded words.

    Attributes:
        latest: The words of the last user turn.
        earlier: Words of the turns before it that are not in the last one.
    """

    latest: tuple[str, ...]
    earlier: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hit:
    """A sentence that fits a question.

    Attributes:
        sentence: The sentence, verbatim.
        passage: Where it stands.
        relevance: The share of the question's weight that the sentence's words cover, in (0, 1].
    """

    sentence: str
    passage: Passage
    relevance: float


def of_first_documents(hits: Sequence[Hit], most: int) -> list[Hit]:
    """The hits in the first so many documents."""
    documents = list(dict.fromkeys(hit.passage.uri for hit in hits))[:most]
    return [hit for hit in hits if hit.passage.uri in documents]


def to_query(turns: Sequence[str]) -> Query:
    """Turn the user's turns, oldest first, into a query."""
    latest = dict.fromkeys(words(turns[-1]))
    earlier = dict.fromkeys(word for turn in turns[:-1] for word in words(turn) if word not in latest)
    return Query(tuple(latest), tuple(earlier))


class SentenceIndex:
    """The sentences of some passages, ready to be ranked against questions."""

    def __init__(self, passages: Iterable[Passage]) -> None:
        self._places: list[tuple[str, Passage]] = []
        self._containing: dict[str, list[int]] = {}
        indexed: list[list[str]] = []
        for passage in passages:
            for sentence in passage.sentences:
                if found := words(sentence):
                    for word in dict.fromkeys(found):
                        self._containing.setdefault(word, []).append(len(indexed))
                    self._places.append((sentence, passage))
                    indexed.append(found)
        # BM25+ because its weights stay positive for any number of sentences, one included; Okapi's turn
        # negative for a word in more than half of them, which is most words when three facts are given.
        self._bm25 = BM25Plus(indexed) if indexed else None

    def rank(self, query: Query, limit: int) -> list[Hit]:
        """The best fitting sentences, best first, at most `limit`; none when nothing fits."""
        if self._bm25 is None:
            return []
        relevance = self._relevance(self._bm25, query)
        fitting = sorted(place for place, share in relevance.items() if share >= MIN_RELEVANCE)
        scores = np.array(self._bm25.get_batch_scores(query.latest, fitting))
        scores += EARLIER_WEIGHT * np.array(self._bm25.get_batch_scores(query.earlier, fitting))
        order = np.argsort(-scores, kind="stable")[:limit].tolist()
        hits = []
        for place in (fitting[i] for i in order):
            sentence, passage = self._places[place]
            hits.append(Hit(sentence, passage, relevance[place]))
        return hits

    def _relevance(self, bm25: BM25Plus, query: Query) -> dict[int, float]:
        """The share of the query that each sentence covers, by its place."""
        latest = self._covered(bm25, query.latest)
        earlier = self._covered(bm25, query.earlier)
        if not query.latest:  # "And why is that?"
            return earlier
        if not query.earlier:
            return latest
        return {
            place: (share + EARLIER_WEIGHT * earlier.get(place, 0.0)) / (1 + EARLIER_WEIGHT)
            for place, share in latest.items()
        }

    def _covered(self, bm25: BM25Plus, asked: Sequence[str]) -> dict[int, float]:
        """The share of some words that each sentence covers; the rarer a word is, the more it counts."""
        # An unknown word counts half of the rarest known: it may be the subject, which the sentences then
        # know nothing of, or just a word like "what" in a language whose stop words are not listed.
        unknown = math.log(len(self._places) + 1) / 2
        weights = [bm25.idf.get(word, unknown) for word in asked]
        covered: dict[int, float] = {}
        for word, weight in zip(asked, weights, strict=True):
            for place in self._containing.get(word, ()):
                covered[place] = covered.get(place, 0.0) + weight
        return {place: weight / sum(weights) for place, weight in covered.items()}
