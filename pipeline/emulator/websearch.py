"""What a Google Search answer carries beside its chunks: the queries and the search suggestions."""

from __future__ import annotations

import html
import json
from base64 import b64encode
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
