"""What is peculiar to a search of the web: sites left out, the queries, and the search suggestions."""

from __future__ import annotations

import html
import json
from base64 import b64encode
from hashlib import blake2b
from typing import Any
from urllib.parse import quote_plus

MAX_QUERY_CHARACTERS = 120


def describe_search(metadata: Any, prompt: str) -> None:
    """Add the queries and the search entry point for a prompt to a candidate's grounding metadata."""
    query = " ".join(prompt.split()).rstrip("?？؟!.。 ")[:MAX_QUERY_CHARACTERS]
    if not query:
        return
    metadata.web_search_queries.append(query)
    link = f"https://search.example/?q={quote_plus(query)}"
    metadata.search_entry_point.rendered_content = (
        "<style>.suggestion{border:1px solid;border-radius:1em;padding:.3em .8em}</style>\n"
        '<div class="suggestions">'
        f'<a class="suggestion" href="{html.escape(link)}">{html.escape(query)}</a></div>'
    )
    metadata.search_entry_point.sdk_blob = b64encode(json.dumps([[query, link]]).encode())


def may_show(search: Any, domain: str) -> bool:
    """Whether a search of the web that is set up in this way may show a site; v1's never leave one out."""
    if domain in getattr(search, "exclude_domains", ()):
        return False
    blocked_from = getattr(search, "blocking_confidence", 0)
    return not blocked_from or phishing_confidence(domain) < blocked_from


def phishing_confidence(domain: str) -> float:
    """How sure the search is said to be that a site is out for phishing: of the domain alone, in [0, 100).

    The scale is the one on which the API numbers its thresholds, 30 for low up to 100. Two sites in three are
    below all of them.
    """
    drawn = int.from_bytes(blake2b(domain.encode(), digest_size=8).digest(), "big") / 2**64
    return 100 * drawn**3
