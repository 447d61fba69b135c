"""What every reader yields: a record, or the failure that stands in its place."""

from __future__ import annotations

from groundrows.schemas.jsontext import derived_id
from groundrows.schemas.outcome import Failure
from groundrows.schemas.record import Record

Item = Record | Failure

MAX_RECORD_BYTES = 64 << 20
"""A longer line or row is never held whole; it becomes a failure."""

LFS_POINTER = b"version https://git-lfs.github.com/spec/"
"""How a file begins that Git LFS has left in the place of the real one."""

LFS_ADVICE = "it is a Git LFS pointer, and the file itself is not here; run `git lfs pull`"

KEPT_BYTES = 64 << 10
"""How much of a record that is too long its failure row keeps."""


def read_failure(origin: str, code: str, message: str, record: bytes = b"") -> Failure:
    """A failure of stage `read`: `record` is what was read of it, its id comes from that or from `origin`."""
    return Failure(
        question_id=derived_id(record or origin.encode()),
        turn_index=0,
        stage="read",
        code=code,
        message=message,
        retryable=False,
        attempts=0,
        origin=origin,
        record=record,
        metadata=None,
    )


def too_large(origin: str, start: bytes, hint: str = "") -> Failure:
    """The failure of a record over `MAX_RECORD_BYTES`, of which `start` is the beginning."""
    return read_failure(
        origin,
        "TOO_LARGE",
        f"The record at {origin} is longer than {MAX_RECORD_BYTES >> 20} MiB and was skipped{hint}; the "
        f"failure row keeps its first {KEPT_BYTES >> 10} KiB.",
        start[:KEPT_BYTES],
    )
