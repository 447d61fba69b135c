"""The three measures of reference answers, written from their published definition alone, without our code."""

from __future__ import annotations

from collections.abc import Iterable

ASCII_PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"


def words(text: str) -> list[str]:
    """SQuAD: lower case, no ASCII punctuation, no a, an and the, no white space but between words."""
    kept = "".join(character for character in text.lower() if character not in ASCII_PUNCTUATION)
    found, word = [], ""
    for character in [*kept, " "]:
        if character.isspace():
            found.append(word)
            word = ""
        else:
            word += character
    return [each for one in found for each in without_articles(one)]


def without_articles(word: str) -> list[str]:
    """Cut articles out that stand between characters of no word, as `\\b` sees them."""
    runs: list[str] = []
    for character in word:
        of_word = character.isalnum() or character == "_"
        last = runs[-1][-1] if runs else ""
        if runs and of_word == (last.isalnum() or last == "_"):
            runs[-1] += character
        else:
            runs.append(character)
    return "".join(" " if run in ("a", "an", "the") else run for run in runs).split()


def exact(answer: str, references: Iterable[str]) -> bool:
    return any(" ".join(words(answer)) == " ".join(words(one)) for one in references)


def contained(answer: str, references: Iterable[str]) -> bool:
    said = words(answer)
    for reference in references:
        wanted = words(reference)
        if not wanted and not said:
            return True
        starts = range(len(said) - len(wanted) + 1) if wanted else []
        if any(said[start : start + len(wanted)] == wanted for start in starts):
            return True
    return False


def f1(answer: str, references: Iterable[str]) -> float:
    return max(_f1(words(answer), words(one)) for one in references)


def _f1(said: list[str], wanted: list[str]) -> float:
    if not said or not wanted:
        return 1.0 if said == wanted else 0.0
    left = list(wanted)
    same = 0
    for word in said:
        if word in left:
            left.remove(word)
            same += 1
    return 2 * same / (len(said) + len(wanted))
