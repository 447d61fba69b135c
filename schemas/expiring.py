"""Stored answers without what Google Search found: links and titles, search suggestions, passages.

Everything else stays: the answer and its claims, the queries, tokens and scores, and all that came from the
user's own stores. A response stays one that can be read, and each chunk keeps its place, since claims cite
chunks by their places.

Each service knows its own responses: its module `expiring` has these functions.
"""

from __future__ import annotations

import importlib
from typing import Any

from groundrows.schemas.errors import UndecodableError
from groundrows.schemas.service import DISCOVERY_ENGINE, GEMINI


def without_search(response: bytes, *, searched: bool) -> bytes:
    """A response of a ledger without what Google Search found.

    Args:
        response: The response as it was stored. A ledger does not say which service it is of.
        searched: Whether the answer is known to come from Google Search; else only what says so itself does.

    Returns:
        The same bytes where there was nothing to take out.

    Raises:
        UndecodableError: It is no service's response.
    """
    try:
        left: bytes = _module_of(GEMINI).without_search(response)
    except UndecodableError:
        left = _module_of(DISCOVERY_ENGINE).without_search(response, searched=searched)
    return left


def json_without_search(text: str, service: str | None, *, searched: bool) -> str:
    """As `without_search`, for a response in its service's JSON form; None is the first service."""
    if service == GEMINI:
        told: str = _module_of(GEMINI).json_without_search(text)
    else:
        told = _module_of(DISCOVERY_ENGINE).json_without_search(text, searched=searched)
    return told


def check_without_facts(response: bytes) -> bytes:
    """The response to a check without the passages that it cites; the same bytes where it cites none.

    Raises:
        UndecodableError: It is no response to a check.
    """
    left: bytes = _module_of(DISCOVERY_ENGINE).check_without_facts(response)
    return left


def check_json_without_facts(text: str) -> str:
    """The request or the response of a check in JSON without the passages: as `check_without_facts`."""
    told: str = _module_of(DISCOVERY_ENGINE).check_json_without_facts(text)
    return told


def _module_of(service: str) -> Any:
    # Loaded when it is needed: a service's messages take their time.
    return importlib.import_module(f"groundrows.schemas.{service}.expiring")
