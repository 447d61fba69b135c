"""Rows without what Google Search found, a file at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from groundrows.pipeline.expire.found import UNREADABLE, Found, answer_key, from_search
from groundrows.pipeline.storage.row_files import readable_rows, rewrite_rows
from groundrows.schemas.errors import UndecodableError, UsageError
from groundrows.schemas.expiring import check_json_without_facts, json_without_search
from groundrows.schemas.tables import TABLES

LINKS, SUGGESTIONS, TEXTS, RESPONSES = "links", "search_suggestions", "chunk_texts", "responses"
KINDS = (LINKS, SUGGESTIONS, TEXTS, RESPONSES)
"""What is removed: links with titles, suggestions, passages, and parts of stored requests and responses."""

Values = dict[str, Any]
Clear = Callable[[Values, Found], tuple[Values, Counter[str]]]
"""Gives for a row the columns that change, and how much of each kind that removes."""


def expire_file(path: str, table: str, found: Found, half: str) -> Counter[str]:
    """Rewrite a file of rows, unless nothing in it is to be removed; it changes all at once.

    Args:
        path: The file.
        table: Its table, one of `CLEARED`.
        found: The old answers that Google Search had a part in.
        half: The new file's name until it is whole.

    Returns:
        How many `rows` changed, and how much of each of `KINDS` was removed.

    Raises:
        UsageError: The file can't be read, or a newer version wrote it.
    """
    clear = CLEARED[table]
    if not any(_cleared(row, clear, found)[1] for row in readable_rows([path], None, UNREADABLE)):
        return Counter()
    removed: Counter[str] = Counter()
    rewrite_rows(path, _rewritten(path, table, found, removed), table, half)
    return removed


def _rewritten(path: str, table: str, found: Found, removed: Counter[str]) -> Iterator[Values]:
    known = {field["name"] for field in TABLES[table].schema["fields"]}
    for row in readable_rows([path], None, UNREADABLE):
        if not row.keys() <= known:
            raise UsageError(
                f"The file {path} has columns that this version does not know, so it can't be rewritten: use "
                "the version of Groundrows that wrote it."
            )
        new, counted = _cleared(row, CLEARED[table], found)
        removed.update(counted)
        yield new


def _cleared(row: Values, clear: Clear, found: Found) -> tuple[Values, Counter[str]]:
    changes, counted = clear(row, found)
    if not changes:
        return row, counted
    return {**row, **changes}, Counter({**counted, "rows": 1})


def _answers(row: Values, found: Found) -> tuple[Values, Counter[str]]:
    changes: Values = {}
    counted: Counter[str] = Counter()
    if row["answered_at"] >= found.before:
        return changes, counted
    for column in ("search_suggestions_html", "search_sdk_blob"):
        if row[column] is not None:
            changes[column] = None
            counted[SUGGESTIONS] = 1
    searched = row["uris_expire_at"] is not None
    if searched or answer_key(row) in found.chunks_of:
        for column in ("images", "videos"):
            if row[column]:
                counted[LINKS] += len(row[column])
                changes[column] = []
    service = row.get("service")
    _change_json(
        row,
        "response_json",
        lambda text: json_without_search(text, service, searched=searched),
        changes,
        counted,
    )
    return changes, counted


def _chunks(row: Values, found: Found) -> tuple[Values, Counter[str]]:
    if row["answered_at"] >= found.before or not from_search({"kind": None, **row}):
        return {}, Counter()
    links = {"uri": None, "title": None, "domain": None, "document_id": None, "page_identifier": None}
    links_there = bool(row["source_metadata"]) or any(row[name] is not None for name in links)
    changes: Values = {**links, "source_metadata": {}} if links_there else {}
    counted = Counter({LINKS: 1} if links_there else {})
    if row["chunk_text"]:
        changes["chunk_text"] = ""
        counted[TEXTS] = 1
    return changes, counted


def _claims(row: Values, found: Found) -> tuple[Values, Counter[str]]:
    links_there = row["chunk_uri"] is not None or row["chunk_title"] is not None
    if not links_there or not found.cites_search(row):
        return {}, Counter()
    return {"chunk_uri": None, "chunk_title": None}, Counter({LINKS: 1})


def _checks(row: Values, found: Found) -> tuple[Values, Counter[str]]:
    """The check of an answer is as old as the answer, whose passages it repeats."""
    changes: Values = {}
    counted: Counter[str] = Counter()
    if hash(row["answer_id"]) not in found.whole:
        return changes, counted
    bare: Values = {"uri": None, "title": None, "domain": None, "source_metadata": {}}
    citations = [{**one, **bare, "chunk_text": "", "fact_text": None} for one in row["citations"]]
    if citations != row["citations"]:
        changes["citations"] = citations
        counted[TEXTS] = sum(bool(one["chunk_text"] or one["fact_text"]) for one in row["citations"])
        counted[LINKS] = sum(any(one[name] for name in bare) for one in row["citations"])
    for column in ("request_json", "response_json"):
        _change_json(row, column, check_json_without_facts, changes, counted)
    return changes, counted


def _change_json(
    row: Values, column: str, clear: Callable[[str], str], changes: Values, counted: Counter[str]
) -> None:
    """Clear a request or response that a row repeats; one that can't be read can't be cleared, and goes."""
    text = row[column]
    if text is None:
        return
    try:
        left = clear(text)
    except UndecodableError:
        left = None
    if left != text:
        changes[column] = left
        counted[RESPONSES] += 1


CLEARED: dict[str, Clear] = {
    "support_chunks": _chunks,
    "claim_supports": _claims,
    "grounding_checks": _checks,
    "answers": _answers,
}
"""The tables that repeat what a search found. A failure's record is the user's own."""
