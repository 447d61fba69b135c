"""Which stored answers Google Search had a part in, as their rows say; looked up by all that is expired.

What is asked here is what `expire` leaves in the rows, so that a directory in which it was killed is still
told right.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Any

from groundrows.pipeline.storage.row_files import columns_of, readable_rows

UNREADABLE = "The file {path} can't be read: {reason}; mend it, or take it away."
_BY_SEARCH = ("web", "image")
_COLUMNS = ("answer_id", "answered_at", "chunk_index", "kind", "uris_expire_at")


@dataclass(slots=True)
class Found:
    """The old answers that Google Search had a part in. They are kept as hashes, some 100 bytes each.

    Attributes:
        before: Answers from before this moment are old.
        chunks_of: Answers of which a chunk comes from the search, by id and time.
        others: Chunks of these that come from somewhere else.
        whole: Ids of answers of which all comes from the search, passages included.
        times: When these were answered.
    """

    before: datetime
    chunks_of: set[int] = field(default_factory=set)
    others: set[int] = field(default_factory=set)
    whole: set[int] = field(default_factory=set)
    times: set[datetime] = field(default_factory=set)

    def cites_search(self, claim: Mapping[str, Any]) -> bool:
        """Whether a row of `claim_supports` names a chunk that comes from the search."""
        return (
            claim["chunk_index"] is not None
            and answer_key(claim) in self.chunks_of
            and _chunk_key(claim) not in self.others
        )


def find(files: Iterable[str], before: datetime) -> Found:
    """Read the support chunks of a directory.

    Args:
        files: The files of `support_chunks`.
        before: Answers from before this moment are old.

    Raises:
        UsageError: A file can't be read.
    """
    found = Found(before)
    columns = columns_of("support_chunks", *_COLUMNS, missing={"kind": None})
    # The chunks of an answer were written together.
    for key, group in groupby(readable_rows(files, columns, UNREADABLE), answer_key):
        chunks = list(group)
        if chunks[0]["answered_at"] >= before:
            continue
        searched = [chunk for chunk in chunks if from_search(chunk)]
        if not searched:
            continue
        found.chunks_of.add(key)
        found.others.update(_chunk_key(chunk) for chunk in chunks if not from_search(chunk))
        if searched[0]["kind"] is None:
            found.whole.add(hash(searched[0]["answer_id"]))
            found.times.add(searched[0]["answered_at"])
    return found


def from_search(chunk: Mapping[str, Any]) -> bool:
    """Whether a row of `support_chunks` comes from Google Search.

    Where the service names no kinds, Google Search is the only source of a request that has it, and sets the
    time at which its links expire.
    """
    if chunk["kind"] is None:
        return chunk["uris_expire_at"] is not None
    return chunk["kind"] in _BY_SEARCH


def answer_key(row: Mapping[str, Any]) -> int:
    """What tells an answer from every other one."""
    return hash((row["answer_id"], row["answered_at"]))


def _chunk_key(row: Mapping[str, Any]) -> int:
    return hash((row["answer_id"], row["answered_at"], row["chunk_index"]))
