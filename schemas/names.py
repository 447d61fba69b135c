"""Names of fields: which unknown one is a slip of the pen for a known one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import lru_cache

# One letter away from a known name, yet names in their own right that archives of questions do use.
_ORDINARY = frozenset({"contexts", "usercontent"})
# Words that tables use for columns of their own. Beside a question they are no slip for a known field.
ORDINARY_BESIDE_A_QUESTION = frozenset({"content", "fact", "question", "questions", "turn", "turns"})
_LONG = 13  # letters from which two slips are still a slip
_SHORT = 6  # letters below which a changed letter makes another word: facts, faces, facets


def camel(name: str) -> str:
    """The camelCase form of a snake_case name."""
    head, *tail = name.split("_")
    return head + "".join(word.capitalize() for word in tail)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like `name`, for a message about a name that is refused anyway; None if none is."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return close[0] if close else None


@lru_cache(maxsize=4096)
def near_miss(name: str, known: frozenset[str]) -> str | None:
    """The known name that `name` was surely meant to be, or None for a name in its own right.

    Upper case, `_`, `-` and spaces do not count. Beyond that a near miss is, on names of the same first
    letter: the letters in another order between the same ends (`questoin`), a letter missing or doubled
    (`qestion`, `fact`), a letter added or changed in names of at least six letters (`metadeta`), and two such
    slips in names of at least thirteen (`genration_specs`). Names of two or three letters have too many
    neighbours: only spelling them `ID` is a miss. A name with a digit (`question2`) is never one.
    """
    plain = plain_name(name)
    if plain in _ORDINARY:
        return None
    return next((k for k in sorted(known) if name != k and _is_slip(plain, plain_name(k))), None)


@lru_cache(maxsize=4096)
def plain_name(name: str) -> str:
    """The name without what people spell differently: upper case, `_`, `-` and spaces."""
    return name.lower().replace("_", "").replace("-", "").replace(" ", "")


def _is_slip(name: str, known: str) -> bool:
    if name == known:
        return True
    if len(known) < 4 or abs(len(name) - len(known)) > 2 or not name or name[0] != known[0]:
        return False
    if any(c.isdigit() for c in name):
        return False
    if name[-1] == known[-1] and sorted(name) == sorted(known):
        return True
    slips = 0
    for kind, i, i_end, j, j_end in difflib.SequenceMatcher(None, known, name, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        slips += max(i_end - i, j_end - j)
        doubled = kind == "insert" and name[j] == known[i - 1]
        if len(known) < _SHORT and not (kind == "delete" or doubled):
            return False
    return slips <= (2 if len(known) >= _LONG else 1)
