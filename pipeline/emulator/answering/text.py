"""Sentences and words of text in any script."""

from __future__ import annotations

import re
import unicodedata

_STOP = "[.!?…؟۔।]"
_WIDE_STOP = "[。？！｡]"
_LINE_BREAK = r"[\r\n\v\f\x85\u2028\u2029]+"
_CLOSING = "[\"'”’»)\\]」』）]*+"
# Where a sentence ends: a full stop of a spaced script counts only before white space (3.14 is one number),
# one of Chinese or Japanese anywhere. The look-behinds keep a long run of dots linear to scan.
_END = re.compile(
    rf"(?<!{_STOP}){_STOP}++{_CLOSING}(?=\s|$)|(?<!{_WIDE_STOP}){_WIDE_STOP}++{_CLOSING}|{_LINE_BREAK}"
)
# A single dot after one of these, or after a lone capital (J. S. Bach), ends no sentence.
_ABBREVIATION = re.compile(r"(?<!\w)(?:[A-Z]|Mr|Mrs|Ms|Dr|St|Mt|vs|approx|e\.g|i\.e|c|ca)$")

# Scripts written without spaces between words, which are indexed by pairs of characters.
_UNSPACED = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    r"\U00020000-\U0003ffff"
)
# `\w` leaves out combining marks, which are letters' parts in Arabic, Hebrew and the Indic scripts.
_MARKS = (
    r"\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"
    r"\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u0900-\u0963\u0966-\u0dff"
)
_WORD = re.compile(rf"([{_UNSPACED}]+)|((?:(?![{_UNSPACED}])[\w{_MARKS}])+)")
_POSSESSIVE = re.compile(r"['’]s\b")

# English words that carry no subject; without them "What is the capital of Peru?" asks for capital, Peru.
_STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        """a about above after all also am an and any are as asked at be because been before being below
        between both but by call called came can come could did do does doing done down during each ever
        exactly explain find for from further gave get give given go had has have having he her here hers
        him his how i if in into is it its itself just kind know known let like make made many may me mean
        might more most much must my name named no nor not of off on one only or other our out over own
        please same say shall she should so some such take tell than that the their them then there these
        they this those through to too under until up very was we were what when where which while who whom
        whose why will with would you your""",
    )
)


def sentences(text: str) -> list[str]:
    """The sentences of a text in order, each a stretch of it without the white space around.

    Splits after . ! ? … and their Arabic, Urdu, Devanagari, Chinese and Japanese fellows and at line breaks.
    """
    found = []
    start = 0
    for end in _END.finditer(text):
        if end[0] == "." and _ABBREVIATION.search(text, max(start, end.start() - 8), end.start()):
            continue
        found.append(text[start : end.end()].strip())
        start = end.end()
    found.append(text[start:].strip())
    return [sentence for sentence in found if sentence]


def words(text: str) -> list[str]:
    """The words of a text that carry its subject, folded so that spellings of one word meet.

    Folding is NFKC, case and the English plural. English stop words are left out. A run of a script
    without spaces gives its overlapping pairs of characters.
    """
    found: list[str] = []
    folded = _POSSESSIVE.sub("", unicodedata.normalize("NFKC", text).casefold())
    for unspaced, spaced in _WORD.findall(folded):
        if spaced:
            if spaced not in _STOP_WORDS:
                found.append(_singular(spaced))
        elif len(unspaced) == 1:
            found.append(unspaced)
        else:
            found.extend(unspaced[i : i + 2] for i in range(len(unspaced) - 1))
    return found


def _singular(word: str) -> str:
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is", "news")):
        return word
    return word[:-3] + "y" if word.endswith("ies") and len(word) > 4 else word[:-1]


def count_tokens(text: str) -> int:
    """About how many tokens a model makes of a text: one a word, one a character of unspaced scripts."""
    return sum(len(unspaced) + bool(spaced) for unspaced, spaced in _WORD.findall(text))
