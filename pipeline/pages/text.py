"""Text of others made fit to be shown: cut where it is long, divided at its claims, linked where safe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from urllib.parse import urlsplit

# A picture for each control character but tab and line breaks: a page can't hold them as they are.
_PICTURES = {each: 0x2400 + each for each in range(32) if each not in (9, 10, 13)} | {127: 0x2421}
LONGEST_LINK = 4_000


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a text, and the positions of the spans that cover it, in their order."""

    text: str
    spans: tuple[int, ...]


def segments(text: str, spans: Sequence[tuple[int, int] | None]) -> list[Segment]:
    """Divide a text where spans begin and end; the pieces together are the text.

    Args:
        text: Any text.
        spans: Start and end of each span in code points, the end exclusive; they may overlap. One that is
            None, empty or outside of the text covers nothing; one that goes beyond its end covers the rest.
    """
    length = len(text)
    inside = [
        (position, span[0], min(span[1], length))
        for position, span in enumerate(spans)
        if span is not None and 0 <= span[0] < min(span[1], length)
    ]
    edges = sorted({0, length, *(start for _, start, _ in inside), *(end for _, _, end in inside)})
    return [
        Segment(text[low:high], tuple(at for at, start, end in inside if start <= low and high <= end))
        for low, high in pairwise(edges)
    ]


def cut(text: str, longest: int) -> str:
    """The text, or its beginning with an ellipsis when it is longer than so many characters."""
    return text if len(text) <= longest else f"{text[:longest].rstrip()}…"


def visible(text: str) -> str:
    """The text with pictures in the place of control characters, as many characters long."""
    return text.translate(_PICTURES)


def safe_link(uri: str | None) -> str | None:
    """The URI when it is one of the web's; anything else is no link, whatever it says it is."""
    if uri is None or len(uri) > LONGEST_LINK or any(char <= " " or char == "\x7f" for char in uri):
        return None
    try:
        parts = urlsplit(uri)
        # A name before the host is there to be taken for the host.
        is_plain = parts.hostname and "@" not in parts.netloc
        return uri if parts.scheme in ("http", "https") and is_plain else None
    except ValueError:
        return None
