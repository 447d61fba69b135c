"""Single values of a response as rows may hold them: what is none becomes null, and a warning says so."""

from __future__ import annotations

from collections.abc import Sequence

MOST_WARNINGS = 50
"""A row keeps this many warnings, and says how many there were beyond them."""

MOST_INDICES = 10
"""A warning names this many indices of a claim."""


def score_of(sent: float | None, name: str, warnings: list[str], place: str = "") -> float | None:
    """Return a score if it is one.

    Args:
        sent: The score as the service sent it, or None.
        name: What it is, which the warning starts with.
        warnings: Takes a warning when the score is NaN or outside [0, 1].
        place: Where it stands, for the warning.
    """
    if sent is None or 0 <= sent <= 1:
        return sent
    warnings.append(f"{name}{place} is {sent}, which is not in [0, 1]: left out.")  # NaN, too
    return None


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


def shortened(warnings: Sequence[str]) -> tuple[str, ...]:
    """Return as many warnings as a row keeps."""
    if len(warnings) <= MOST_WARNINGS:
        return tuple(warnings)
    return (*warnings[:MOST_WARNINGS], f"{len(warnings) - MOST_WARNINGS} more warnings were left out.")
