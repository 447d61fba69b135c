"""A record as it was read, before anything is known about it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Record:
    """One question record, whole and unparsed.

    Attributes:
        body: The record as JSON bytes. For line formats these are the file's own bytes without the line
            break; for CSV, Avro and Parquet they are the row as a JSON object, so that a failure row can
            be asked again whatever the archive's format was.
        origin: Where it came from, for people: `gs://bucket/questions.jsonl:17` (file and line, or file
            and row number counted from 1), or a subscription and message id.
        history: How it failed before, when it is being replayed: a line per earlier failure, oldest first.
        attributes: What came beside the body with a Pub/Sub message, as a JSON object; else None. It ends up
            in the metadata, under `pubsub`.
    """

    body: bytes
    origin: str
    history: tuple[str, ...] = ()
    attributes: str | None = None
