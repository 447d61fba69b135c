"""Single values of a response as rows may hold them: what is none becomes null, and a warning says so."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from typing import Any

MOST_WARNINGS = 50
"""A row keeps this many warnings, and says how many there were beyond them."""

MOST_INDICES = 10
"""A warning names this many indices of a claim."""


def score_of(
    message: Any, field: str, warnings: list[str], place: str = "", *, is_float: bool = True
) -> float | None:
    """Return a score if it was sent and is one; reading an unset score gives 0.0, which was never sent.

    Args:
        message: The plain protobuf message that has the score.
        field: The score's name, which the warning starts with.
        warnings: Takes a warning when the score is NaN or outside [0, 1].
        place: Where the message stands, for the warning.
        is_float: Whether the field is one of 32 bits.
    """
    if not message.HasField(field):
        return None
    value: float = getattr(message, field)
    if not 0 <= value <= 1:  # also true of NaN
        warnings.append(f"{field}{place} is {value}, which is not in [0, 1]: left out.")
        return None
    return _shortest(value) if is_float else value


def enum_name(message: Any, field: str) -> str:
    """Return the value's name, or its number as text when the installed library does not know it."""
    kind: Any = type(message)
    number: int = getattr(message, field)
    return _enum_names(kind, field).get(number) or str(number)


@cache
def _enum_names(kind: Any, field: str) -> dict[int, str]:
    return {value.number: value.name for value in kind.DESCRIPTOR.fields_by_name[field].enum_type.values}


def valid_indices(
    indices: Sequence[int], chunk_count: int, claim_index: int, warnings: list[str]
) -> list[int]:
    """Return the chunks a claim cites, each once, in order, without those that do not exist."""
    if len(indices) == 1 and 0 <= indices[0] < chunk_count:  # as most claims have it
        return [indices[0]]
    distinct = list(dict.fromkeys(indices))
    if not distinct or (min(distinct) >= 0 and max(distinct) < chunk_count):
        return distinct
    wrong = [str(index) for index in distinct if not 0 <= index < chunk_count]
    named = ", ".join(wrong[:MOST_INDICES]) + (" …" if len(wrong) > MOST_INDICES else "")
    warnings.append(f"Claim {claim_index} cites chunk {named}, of {chunk_count} chunks: left out.")
    return [index for index in distinct if 0 <= index < chunk_count]


def source_metadata(chunk: Any) -> dict[str, str]:
    """Return a `FactChunk`'s source metadata by name: a protobuf map has no order of its own."""
    about = chunk.source_metadata
    return dict(sorted(about.items())) if about else {}


def shortened(warnings: Sequence[str]) -> tuple[str, ...]:
    """Return as many warnings as a row keeps."""
    if len(warnings) <= MOST_WARNINGS:
        return tuple(warnings)
    return (*warnings[:MOST_WARNINGS], f"{len(warnings) - MOST_WARNINGS} more warnings were left out.")


def _shortest(value: float) -> float:
    """Return the double with the fewest digits that is the same 32-bit float.

    The service sends 32-bit floats: 0.9 arrives as 0.8999999761581421, which `>= 0.9` would miss.
    """
    # The quicker way first. From 0.1 on, where most scores lie, floats stand closer together than decimals of
    # seven places, and below it seven places are six digits at most: none that is shorter is passed over.
    for places in (7, 8):
        short = round(value, places)
        if _FLOAT.unpack(_FLOAT.pack(short))[0] == value:
            return short
    for digits in range(6, 9):
        short = float(f"{value:.{digits}g}")
        if _FLOAT.unpack(_FLOAT.pack(short))[0] == value:
            return short
    return float(f"{value:.9g}")  # nine digits tell any two floats apart


_FLOAT = struct.Struct("<f")
