"""How well an answer agrees with the reference answers of its record.

Texts are compared after the normalisation of the SQuAD evaluation (Rajpurkar et al., "SQuAD: 100,000+
Questions for Machine Comprehension of Text", EMNLP 2016, section 6.1; script `evaluate-v2.0.py` at
https://rajpurkar.github.io/SQuAD-explorer/), which evaluations of open-domain question answering share (Lee
et al., "Latent Retrieval for Weakly Supervised Open Domain Question Answering", ACL 2019): lower case, ASCII
punctuation removed, the words a, an and the removed, white space made one space. Exact match and F1 are
SQuAD's. Containment is for answers in whole sentences, which are rarely an exact match: the reference stands
somewhere in the answer, word for word. Each measure is the best over the references.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")


@dataclass(frozen=True, slots=True)
class Agreement:
    """How an answer compares with the references.

    Attributes:
        exact: Whether the normalised answer equals a normalised reference.
        contained: Whether the words of a normalised reference stand side by side in the normalised answer.
        f1: Harmonic mean of precision and recall over the normalised words, from 0 to 1.
    """

    exact: bool
    contained: bool
    f1: float


def agreement(answer_text: str, references: Sequence[str]) -> Agreement | None:
    """Compare an answer with its references; None without any reference."""
    if not references:
        return None
    answer = normalised_words(answer_text)
    wanted = [normalised_words(reference) for reference in references]
    return Agreement(
        exact=answer in wanted,
        contained=any(_contains(answer, words) for words in wanted),
        f1=max(_f1(answer, words) for words in wanted),
    )


def normalised_words(text: str) -> list[str]:
    """Return the words that are compared."""
    return _ARTICLE.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split()


def _contains(answer: list[str], words: list[str]) -> bool:
    if not words:  # a reference such as "The" says nothing, so that only an answer of nothing agrees
        return not answer
    return f" {' '.join(words)} " in f" {' '.join(answer)} "


def _f1(answer: list[str], words: list[str]) -> float:
    if not answer or not words:
        return float(answer == words)
    shared = (Counter(answer) & Counter(words)).total()
    if not shared:
        return 0.0
    precision, recall = shared / len(answer), shared / len(words)
    return 2 * precision * recall / (precision + recall)
