"""How two texts differ, word by word."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

# Finding what two texts share takes the product of their lengths; of longer ones only the ends are compared.
MOST_WORDS = 2_000
_WORDS = re.compile(r"\s+|\w+|[^\w\s]+")

Kind = Literal["same", "gone", "new"]


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a text, and whether the other text has it, too."""

    text: str
    kind: Kind


def differing(before: str, after: str) -> tuple[list[Piece], list[Piece]]:
    """Both texts in pieces; the pieces of each together are the text."""
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    left: list[Piece] = []
    right: list[Piece] = []
    for kind, low, high, start, end in _opcodes(old, new):
        if high > low:
            left.append(Piece("".join(old[low:high]), "same" if kind == "equal" else "gone"))
        if end > start:
            right.append(Piece("".join(new[start:end]), "same" if kind == "equal" else "new"))
    return left, right


def _opcodes(old: list[str], new: list[str]) -> list[tuple[str, int, int, int, int]]:
    if max(len(old), len(new)) <= MOST_WORDS:
        return list(SequenceMatcher(None, old, new, autojunk=False).get_opcodes())
    shortest = min(len(old), len(new))
    begins = next((at for at in range(shortest) if old[at] != new[at]), shortest)
    left = shortest - begins
    ends = next((at for at in range(left) if old[-1 - at] != new[-1 - at]), left)
    return [
        ("equal", 0, begins, 0, begins),
        ("replace", begins, len(old) - ends, begins, len(new) - ends),
        ("equal", len(old) - ends, len(old), len(new) - ends, len(new)),
    ]
