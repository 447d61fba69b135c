"""The full-text index: SQLite's FTS5 over questions, answers, claims and passages, in several parts.

The texts themselves are not kept in it. A part is a database of its own, so that several are filled, and
searched, at the same time.
"""

from __future__ import annotations

import os
import re
import sqlite3
import unicodedata
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from groundrows.schemas.errors import UsageError

COLUMNS = ("question", "answer", "claim", "source")
PARTS = 2
Document = tuple[int, str, str, str, str]
"""Number of an entry, then its texts in the order of `COLUMNS`."""
Numbers = npt.NDArray[np.uint32]

# Words gathered in memory before they are written.
_GATHERED_BYTES = 48 << 20
_CACHE_KIB = 16 << 10
LONGEST_QUERY = 1_000
MOST_WORDS = 32

# Scripts that put no space between words: each of their characters counts as a word.
_UNSPACED = re.compile(
    "([\u0e00-\u0e7f\u0e80-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff])"
)
# A field's name with a colon, then words in quotes or one word; a minus before it says "not".
_TERM = re.compile(r'(?P<no>-)?(?:(?P<field>[a-z]+):)?(?:"(?P<phrase>[^"]*)"?|(?P<word>[^\s"]+))')


def part(folder: str, number: int) -> str:
    """The file of a part."""
    return os.path.join(folder, f"words-{number}.sqlite")


def spaced(text: str) -> str:
    """The text with spaces around the characters of scripts that have none between words."""
    return text if text.isascii() else _UNSPACED.sub(r" \1 ", text)


class Writer:
    """Fills one part of an index."""

    def __init__(self, path: str) -> None:
        # The part is written in one thread after the other, never in two at a time.
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        # It appears when it is whole, so nothing needs to survive a crash on the way.
        for setting in ("journal_mode = OFF", "synchronous = OFF", f"cache_size = -{_CACHE_KIB}"):
            self._db.execute(f"PRAGMA {setting}")
        self._db.execute(
            f"CREATE VIRTUAL TABLE words USING fts5({', '.join(COLUMNS)}, content = '', columnsize = 0, "
            'tokenize = "unicode61 remove_diacritics 2")'
        )
        self._db.execute(f"INSERT INTO words (words, rank) VALUES ('hashsize', {_GATHERED_BYTES})")
        self._db.execute("BEGIN")

    def add(self, documents: Iterable[Document]) -> None:
        """Add documents, best in the order of their numbers."""
        self._db.executemany(
            f"INSERT INTO words (rowid, {', '.join(COLUMNS)}) VALUES (?, ?, ?, ?, ?)",
            (
                (number, spaced(question), spaced(answer), spaced(claim), spaced(source))
                for number, question, answer, claim, source in documents
            ),
        )

    def close(self) -> None:
        """Write what is gathered."""
        self._db.execute("COMMIT")
        self._db.close()


def expression(text: str) -> str | None:
    """What a person typed, as FTS5 reads it; None where there is no word in it.

    All words must be there, anywhere in an answer. Words in quotes stand together, `word*` begins with it,
    `-word` is not there, and `question:word` stands in the question; so do `answer:`, `claim:` and `source:`.

    Raises:
        UsageError: It is too long.
    """
    if len(text) > LONGEST_QUERY:
        raise UsageError(f"The search is longer than {LONGEST_QUERY:,} characters: shorten it.")
    wanted: list[str] = []
    unwanted: list[str] = []
    for found in _TERM.finditer(text):
        field, said = found["field"], found["phrase"] if found["phrase"] is not None else found["word"]
        if field is not None and field not in COLUMNS:
            field, said = None, f"{field} {said}"
        begins = found["word"] is not None and said.endswith("*")
        words = _words(said)
        if not words:
            continue
        term = '"' + " ".join(words) + '"' + (" *" if begins else "")
        (unwanted if found["no"] else wanted).append(f"{field} : {term}" if field else term)
    if len(wanted) + len(unwanted) > MOST_WORDS:
        raise UsageError(f"The search has more than {MOST_WORDS} words: leave some out.")
    if not wanted:
        return None
    asked = " AND ".join(f"({each})" for each in wanted)
    return f"({asked})" + "".join(f" NOT ({each})" for each in unwanted)


def _words(text: str) -> list[str]:
    """The words of a text, divided as FTS5 does: into runs of letters, digits and marks."""
    kept = "".join(char if char.isalnum() or _is_mark(char) else " " for char in spaced(text))
    return [word for word in kept.split() if any(char.isalnum() for char in word)]


def _is_mark(char: str) -> bool:
    return unicodedata.category(char) in ("Mn", "Mc", "Co")


@dataclass(frozen=True, slots=True)
class Hits:
    """Numbers of the entries that a search finds, and of those whose question has all the words."""

    found: Numbers
    in_question: Numbers


class Reader:
    """Searches an index. It may be used from several threads."""

    def __init__(self, folder: str) -> None:
        self._paths = [part(folder, number) for number in range(PARTS)]
        self._pool = ThreadPoolExecutor(2 * PARTS, thread_name_prefix="words")

    def close(self) -> None:
        """Let go of the threads."""
        self._pool.shutdown()

    def search(self, text: str) -> Hits | None:
        """The entries that hold what a person typed; None where there is no word in it.

        Raises:
            UsageError: It is too long.
        """
        asked = expression(text)
        if asked is None:
            return None
        found = [self._pool.submit(_numbers, path, asked) for path in self._paths]
        first = [self._pool.submit(_numbers, path, f"question : {asked}") for path in self._paths]
        return Hits(_joined([each.result() for each in found]), _joined([each.result() for each in first]))


def _numbers(path: str, asked: str) -> Numbers:
    # A connection opens in a fraction of a millisecond, and belongs to its thread.
    with closing(sqlite3.connect(f"file:{quote(path)}?mode=ro&immutable=1", uri=True)) as db:
        # One text is fetched in a tenth of the time of a row for each number.
        (joined,) = db.execute(
            "SELECT group_concat(rowid) FROM words WHERE words MATCH ?", (asked,)
        ).fetchone()
    if joined is None:
        return np.empty(0, dtype=np.uint32)
    return np.array(joined.split(","), dtype=np.uint32) if len(joined) < 64 else _parsed(joined)


def _parsed(joined: str) -> Numbers:
    return np.fromstring(joined, dtype=np.int64, sep=",").astype(np.uint32)


def _joined(parts: Sequence[Numbers]) -> Numbers:
    numbers = np.concatenate(parts)
    numbers.sort()
    return numbers
