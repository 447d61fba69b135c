"""Makes text from the data safe to show in a page: long text is cut, and only safe URIs become links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from urllib.parse import urlsplit

# A visible symbol for each control character except tab and line breaks. HTML can't hold control characters.
_PICTURES = {each: 0x2400 + each for each in range(32) if each not in (9, 10, 13)} | {127: 0x2421}
LONGEST_LINK = 4_000


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a text, and the indices of the spans that cover it, in order."""

    text: str
    spans: tuple[int, ...]


def segments(text: str, spans: Sequence[tuple[int, int] | None]) -> list[Segment]:
    """Divide a text into pieces where spans begin and end.

    Args:
        text: Any text.
        spans: Start and end of each span in code points; the end is exclusive. Spans may overlap. A span that
            is None, empty or outside the text covers nothing. A span that goes beyond the end of the text
            covers the rest of it.
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
    """Return the text; when it has more than `longest` characters, its beginning and an ellipsis."""
    return text if len(text) <= longest else f"{text[:longest].rstrip()}…"


def visible(text: str) -> str:
    """Return the text with a visible symbol in place of each control character."""
    return text.translate(_PICTURES)


def safe_link(uri: str | None) -> str | None:
    """Return the URI when it is an http(s) URI that is safe to link to; otherwise None."""
    if uri is None or len(uri) > LONGEST_LINK or any(char <= " " or char == "\x7f" for char in uri):
        return None
    try:
        parts = urlsplit(uri)
        # A user name before the host, as in good.example@bad.example, can be mistaken for the host.
        is_plain = parts.hostname and "@" not in parts.netloc
        return uri if parts.scheme in ("http", "https") and is_plain else None
    except ValueError:
        return None
