"""A second candidate, for a prompt that has a word for it: `candidate` or `candidates`."""

from __future__ import annotations

from groundrows.pipeline.emulator.text import words

CANDIDATE_WORDS = frozenset({"candidate"})  # as `words` folds them


def wanted_candidates(prompt: str) -> int:
    """How many candidates the answer to a prompt, the last user turn, has: two or, mostly, one."""
    return 1 if CANDIDATE_WORDS.isdisjoint(words(prompt)) else 2
