"""A question record: the contract with whoever writes the archive."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Question:
    """A record that can be asked: every rule of the service that can be checked beforehand was checked.

    Attributes:
        question_id: The record's `id`, or an id derived from its content.
        turns: The user's turns, in order; at least one. With `contents`, the last user turn alone.
        request: A serialized `GenerateGroundedContentRequest` of `api_version` for the first turn, whole
            but for the location; map fields in a deterministic order.
        api_version: `v1`, `v1beta` or `v1alpha` (whose messages are v1's).
        user_context: The record's `user_context` as JSON, which only REST can carry; else None.
        metadata: The record's metadata as a JSON object, or None.
        record: The record's bytes as read.
        origin: The record's origin.
    """

    question_id: str
    turns: tuple[str, ...]
    request: bytes
    api_version: str
    user_context: str | None
    metadata: str | None
    record: bytes
    origin: str
