"""What is peculiar to Google Search: when it is worth a search, the query, the suggestions, sites left out.

Everything here follows from the prompt or the domain alone, so that the same request always gets the same
answer.
"""

from __future__ import annotations

import html
import json
from base64 import b64encode
from dataclasses import dataclass
from hashlib import blake2b
from urllib.parse import quote_plus

MAX_QUERY_CHARACTERS = 120


@dataclass(frozen=True, slots=True)
class Suggestions:
    """What a client must show beside an answer that Google Search grounded.

    Attributes:
        query: The query that was searched for.
        html: The search suggestions, ready to be shown.
        blob: The same as base64 of JSON: a list of [query, link] pairs.
    """

    query: str
    html: str
    blob: bytes


def suggestions_for(prompt: str) -> Suggestions | None:
    """The suggestions for a prompt; None for a prompt in which nothing is asked."""
    query = " ".join(prompt.split()).rstrip("?？؟!.。 ")[:MAX_QUERY_CHARACTERS]
    if not query:
        return None
    link = f"https://search.example/?q={quote_plus(query)}"
    rendered = (
        "<style>.suggestion{border:1px solid;border-radius:1em;padding:.3em .8em}</style>\n"
        '<div class="suggestions">'
        f'<a class="suggestion" href="{html.escape(link)}">{html.escape(query)}</a></div>'
    )
    return Suggestions(query, rendered, b64encode(json.dumps([[query, link]]).encode()))


def prediction(prompt: str) -> float:
    """How much a prompt is said to gain from Google Search: a number in [0, 1] of the prompt alone.

    A multiple of 1/1024, so that a 32-bit field in the response holds the very number compared here.
    """
    return int.from_bytes(blake2b(prompt.encode(), digest_size=8).digest(), "big") % 1025 / 1024


def phishing_confidence(domain: str) -> float:
    """How sure the search is said to be that a site is out for phishing: of the domain alone, in [0, 100).

    The scale is the one on which the API numbers its thresholds, 30 for low up to 100. Two sites in three are
    below all of them.
    """
    drawn = int.from_bytes(blake2b(domain.encode(), digest_size=8).digest(), "big") / 2**64
    return 100 * drawn**3
