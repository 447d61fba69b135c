"""Filters: what is asked for, as conditions on the table `entries`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from groundrows.pipeline.browse.asked import METADATA, RANGES, Asked
from groundrows.pipeline.browse.pairs import STANDINGS
from groundrows.pipeline.browse.verdicts import VERDICTS
from groundrows.schemas.errors import UsageError

# What may make one look: value, name, condition.
MARKS = {
    "no_source": ("no source", "kind = 'answer' AND sources = 0"),
    "unsupported": ("claims without support", "unsupported > 0"),
    "partly": ("text partly supported", "coverage < 1"),
    "warnings": ("warnings", "warnings > 0"),
    "conversation": ("a later turn", "turn > 0"),
    "supported_and_wrong": (
        "supported and wrong",
        "NOT reference_contained AND claims > 0 AND unsupported = 0",
    ),
    "right_and_unsupported": (
        "right and unsupported",
        "reference_contained AND (claims = 0 OR unsupported > 0)",
    ),
    "reference_exact": ("equals the reference", "reference_exact"),
    "reference_contained": ("contains the reference", "reference_contained"),
    "reference_missed": ("does not contain the reference", "NOT reference_contained"),
}
# Facets that are a column each, with their titles and how a value is said.
COLUMNS = {
    "kind": ("Outcome", {"answer": "answered", "failure": "failed"}),
    "code": ("Failure", {}),
    "model": ("Model", {}),
    "service": ("Service", {}),
    "run_id": ("Run", {}),
}
UNJUDGED = "none"


def narrowed(asked: Asked, *, searched: bool) -> tuple[str, list[Any]]:
    """What is asked for as a condition on `entries` and the values in it.

    Args:
        asked: What is asked for.
        searched: Whether the table `hits` holds the numbers of the entries that the words find.

    Raises:
        UsageError: A filter is none.
    """
    conditions: list[str] = []
    values: list[Any] = []
    if searched:
        conditions.append("no IN (SELECT no FROM hits)")
    by_facet: dict[str, list[str]] = {}
    for facet, value in asked.filters:
        by_facet.setdefault(facet, []).append(value)
    for facet, wanted in by_facet.items():
        said, more = condition(facet, wanted)
        conditions.append(said)
        values += more
    for bounds, sign in ((asked.least, ">="), (asked.most, "<=")):
        for name, bound in bounds:
            if name in RANGES:
                conditions.append(f"{name} {sign} ?")
                values.append(bound)
            else:
                conditions.append(f"no IN (SELECT no FROM this.fields WHERE name = ? AND number {sign} ?)")
                values += [name.removeprefix(METADATA), bound]
    return " AND ".join(conditions) or "true", values


def condition(facet: str, values: Sequence[str]) -> tuple[str, list[Any]]:
    """What a facet's filter asks of `entries`: any of the values.

    Raises:
        UsageError: There is no such facet or value.
    """
    marks = ", ".join("?" * len(values))
    if facet == "mark":
        if unknown := [each for each in values if each not in MARKS]:
            raise UsageError(f"There is no filter {unknown[0]!r}: go back to all answers.")
        return "(" + " OR ".join(f"({MARKS[each][1]})" for each in values) + ")", []
    if facet in COLUMNS:
        return f"{facet} IN ({marks})", list(values)
    if facet == "verdict":
        judged = f"no IN (SELECT no FROM memory.verdicts WHERE verdict IN ({marks}))"
        if UNJUDGED in values:
            said = ", ".join(f"'{each}'" for each in VERDICTS)
            unjudged = f"no NOT IN (SELECT no FROM memory.verdicts WHERE verdict IN ({said}))"
            judged = f"({judged} OR kind = 'answer' AND {unjudged})"
        return judged, list(values)
    if facet == "domain":
        return f"no IN (SELECT no FROM this.domains WHERE domain IN ({marks}))", list(values)
    if facet == "beside":
        if unknown := [each for each in values if each not in STANDINGS]:
            raise UsageError(f"There is no filter {unknown[0]!r}: go back to all answers.")
        return f"no IN (SELECT no FROM memory.pairs WHERE {' OR '.join(values)})", []
    if facet.startswith(METADATA):
        name = facet.removeprefix(METADATA)
        return (
            f"no IN (SELECT no FROM this.fields WHERE name = ? AND value IN ({marks}))",
            [name, *values],
        )
    raise UsageError(f"There is no filter {facet!r}: go back to all answers.")
