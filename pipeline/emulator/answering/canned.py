"""What the canned answer says in every API's form."""

from __future__ import annotations

CLAIMS = (
    "A measuring run asks the same kind of question many times over.",
    "Every one of its questions gets this same answer of five sentences.",
    "Each sentence is a claim, and each claim cites a chunk of its own.",
    "The chunks are about as long as those a search usually returns.",
    "Nothing in this answer depends on what was asked.",
)
CHUNK_CHARACTERS = 300
