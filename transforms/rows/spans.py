"""Where an answer's claims stand in it, when a service sends only their wording."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Sequence

from groundrows.schemas.response import Span

TINY = 4
"""A claim of fewer characters, or one without a letter or digit (`**`), matches almost anywhere."""


def locate(answer_text: str, claims: Sequence[str]) -> list[Span | None]:
    """Return each claim's span in `answer_text`, or None where it is not found.

    A span's text equals its claim but for white space, which the service adds, changes and loses (before an
    emoji, say); it never starts or ends with white space. Claims are taken in order, so that the second of
    two identical ones is the second occurrence: each is looked for from the end of the one before, word for
    word, then without regard to white space, and then in the same two ways from the start, as claims do come
    out of order. An empty claim has no span.

    A tiny claim is only looked for after the claims before it, and never moves on where the next one is
    looked for: its occurrence may well lie beyond that next claim.
    """
    text = _Text(answer_text)
    spans: list[Span | None] = []
    cursor = tiny_cursor = 0
    for claim in claims:
        wanted = claim.strip()
        span: Span | None = None
        if not wanted:
            pass
        elif _is_tiny(wanted):
            span = text.find_from(wanted, tiny_cursor)
            if span is not None:
                tiny_cursor = span[1]
        else:
            span = text.find_from(wanted, cursor) or text.find_before(wanted, cursor)
            if span is not None:
                cursor = tiny_cursor = span[1]
        spans.append(span)
    return spans


def coverage(length: int, spans: Sequence[Span]) -> float | None:
    """Return the share of `length` characters that lie in `spans`, each counted once; None of none."""
    if not length:
        return None
    covered = reached = 0
    for start, end in sorted(spans):
        if end > reached:
            covered += end - max(start, reached)
            reached = end
    return covered / length


def _is_tiny(claim: str) -> bool:
    # Most claims start with a letter; looking at one character first is half of the time of finding a claim.
    return len(claim) < TINY or not (claim[0].isalnum() or any(map(str.isalnum, claim)))


class _Text:
    """A text that can be searched with and without regard to white space."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._bare: _Bare | None = None  # built when first needed: most claims are found word for word
        self._missing: dict[str, int] = {}  # from where on each is not found: `**` comes often

    def find_from(self, wanted: str, start: int) -> Span | None:
        """Find the first occurrence that begins at `start` or later."""
        missing_from = self._missing.get(wanted)
        if missing_from is not None and start >= missing_from:
            return None
        at = self._text.find(wanted, start)
        if at >= 0:
            return at, at + len(wanted)
        span = self._without_space().find(wanted, start, None)
        if span is None:
            self._missing[wanted] = start
        return span

    def find_before(self, wanted: str, end: int) -> Span | None:
        """Find the first occurrence that begins before `end`."""
        at = self._text.find(wanted, 0, end + len(wanted) - 1)
        if at >= 0:
            return at, at + len(wanted)
        return self._without_space().find(wanted, 0, end)

    def _without_space(self) -> _Bare:
        if self._bare is None:
            self._bare = _Bare(self._text)
        return self._bare


class _Bare:
    """A text without its white space, and where each of its words stood with it."""

    def __init__(self, text: str) -> None:
        words: list[str] = []
        self._places = array("q")  # of each word in the text
        self._starts = array("q", [0])  # of each word in the bare text, and the bare text's length
        bare_length = 0
        for match in re.finditer(r"\S+", text):
            word = match[0]
            words.append(word)
            bare_length += len(word)
            self._places.append(match.start())
            self._starts.append(bare_length)
        self._bare = "".join(words)

    def find(self, wanted: str, start: int, before: int | None) -> Span | None:
        """Find the first occurrence but for white space that begins from `start` on and before `before`."""
        bare = "".join(wanted.split())
        end = len(self._bare) if before is None else self._bare_place(before) + len(bare) - 1
        at = self._bare.find(bare, self._bare_place(start), end)
        if at < 0:
            return None
        return self._place(at), self._place(at + len(bare) - 1) + 1

    def _bare_place(self, place: int) -> int:
        """Map a place in the text to the bare text; one in white space to the word after it."""
        word = bisect_right(self._places, place) - 1
        if word < 0:
            return 0
        return min(self._starts[word] + place - self._places[word], self._starts[word + 1])

    def _place(self, bare_place: int) -> int:
        word = bisect_right(self._starts, bare_place) - 1
        return self._places[word] + bare_place - self._starts[word]
