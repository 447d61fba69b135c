"""Where supported stretches stand in an answer: offsets in bytes of a part → characters of the whole text.

Offsets are taken only where the bytes there equal the stretch's text: services and the parts they count in
differ, and a wrong place is worse than none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from groundrows.schemas.offsets import places_of
from groundrows.schemas.response import Span


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch as the service names it.

    Attributes:
        text: Its wording; empty when it was not sent.
        part: The number of the part that its offsets count in, thoughts included.
        start: Where it starts in bytes.
        end: Where it ends in bytes, exclusive; 0 when it was not sent.
    """

    text: str
    part: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Place:
    """A stretch's wording and where it stands, None where that is to be found by its words."""

    text: str
    span: Span | None


class Places:
    """The parts of an answer, in which stretches are looked up.

    Args:
        parts: The texts of all parts in order; None for one that is no part of the answer, as a thought.
        whole_first: Whether offsets count from the start of the whole text, as they do in a stream.
    """

    def __init__(self, parts: Sequence[str | None], *, whole_first: bool) -> None:
        self.text = "".join([part for part in parts if part is not None])
        self._data = self.text.encode()
        self._whole_first = whole_first
        self._starts: dict[int, tuple[int, int]] = {}
        at = 0
        for index, part in enumerate(parts):
            if part is not None:
                end = at + len(part.encode())
                self._starts[index] = (at, end)
                at = end

    def find(self, segments: Iterable[Segment], warnings: list[str]) -> list[Place]:
        """Place stretches, in order; a warning tells how many did not stand where they were said to."""
        found = [self._find(segment) for segment in segments]
        offsets = places_of(self.text, [offset for one in found if one.span for offset in one.span])
        elsewhere = sum(one.how == "elsewhere" for one in found)
        by_words = sum(one.how == "words" for one in found)
        wordless = sum(one.how == "wordless" for one in found)
        if elsewhere:
            warnings.append(
                f"{_claims(elsewhere)} offsets that fit another part of the answer than the one they name: "
                "placed there."
            )
        if by_words:
            warnings.append(
                f"{_claims(by_words)} offsets that fit no part of the answer: looked for by the words."
            )
        if wordless:
            warnings.append(f"{_claims(wordless)} no text: it is what stands at the offsets.")
        return [
            Place(one.text, None if one.span is None else (offsets[one.span[0]], offsets[one.span[1]]))
            for one in found
        ]

    def _find(self, segment: Segment) -> _Found:
        if not segment.text:
            return self._wordless(segment)
        wanted = segment.text.encode()
        if segment.end:
            for how, base, limit in self._bases(segment.part):
                start, end = base + segment.start, base + segment.end
                if end <= limit and self._data[start:end] == wanted:
                    return _Found(segment.text, (start, end), how)
        return _Found(segment.text, None, "words")

    def _wordless(self, segment: Segment) -> _Found:
        """A stretch without words: what its offsets say of the part that they name, if that is a text."""
        base, limit = self._starts.get(segment.part, (0, 0))
        start, end = base + segment.start, base + segment.end
        if start < end <= limit:
            try:
                return _Found(self._data[start:end].decode(), (start, end), "wordless")
            except UnicodeDecodeError:
                pass
        return _Found("", None, "words")

    def _bases(self, part: int) -> list[tuple[str, int, int]]:
        """Where offsets may count from, in the order in which that is tried, and how far they may reach."""
        whole = ("named" if self._whole_first else "elsewhere", 0, len(self._data))
        named = [("named", *self._starts[part])] if part in self._starts else []
        others = [("elsewhere", *bounds) for index, bounds in self._starts.items() if index != part]
        return [whole, *named, *others] if self._whole_first else [*named, *others, whole]


@dataclass(frozen=True, slots=True)
class _Found:
    text: str
    span: tuple[int, int] | None
    how: str


def _claims(count: int) -> str:
    return "1 claim has" if count == 1 else f"{count} claims have"
