"""Packs a ledger's entry into one value: fixed fields, the model, the question's ID, and the response.

The model comes early and the response last, so that the first few hundred bytes and the size are enough to
count an entry. Entries of streams, and entries with JSON that the message can't hold, have a second form with
further fields before the response. All others have the form that earlier versions can read, too.
"""

from __future__ import annotations

import math
import struct
from datetime import UTC, datetime, timedelta

import zstandard

from groundrows.transforms.generate.ledger.base import Entry, ModelSummary
from groundrows.transforms.generate.ledger.packing import pack, unpack

_MAGIC = b"GRe1"
_MAGIC_WITH_MORE = b"GRe2"
# Magic, turn, attempts, latency, asked and answered in microseconds since 1970, lengths of model and id.
_HEAD = struct.Struct(">4sIIdqqII")
# Milliseconds until the first part, NaN for none, and the packed JSON's length, 0 for none.
_MORE = struct.Struct(">dI")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def pack_entry(entry: Entry) -> bytes:
    """Pack an entry without its key, under which it is stored."""
    model, question = entry.model_id.encode(), entry.question_id.encode()
    more = b""
    if entry.first_part_ms is not None or entry.unread_json is not None:
        unread = b"" if entry.unread_json is None else pack(entry.unread_json.encode())
        first_part = math.nan if entry.first_part_ms is None else entry.first_part_ms
        more = _MORE.pack(first_part, len(unread)) + unread
    head = _HEAD.pack(
        _MAGIC_WITH_MORE if more else _MAGIC,
        entry.turn_index,
        entry.attempts,
        entry.latency_ms,
        (entry.asked_at - _EPOCH) // _MICROSECOND,
        (entry.answered_at - _EPOCH) // _MICROSECOND,
        len(model),
        len(question),
    )
    return b"".join((head, model, question, more, pack(entry.response)))


def unpack_entry(key: bytes, value: bytes) -> Entry:
    """Undo `pack_entry`.

    Raises:
        ValueError: The value is damaged, or was not written by `pack_entry`.
    """
    turn_index, attempts, latency_ms, asked, answered, model_size, question_size = _fields(value)
    question_at = _HEAD.size + model_size
    response_at = question_at + question_size
    try:
        question_id = value[question_at:response_at].decode()
        first_part_ms = unread_json = None
        if value.startswith(_MAGIC_WITH_MORE):
            first_part, unread_size = _MORE.unpack_from(value, response_at)
            unread_at = response_at + _MORE.size
            response_at = unread_at + unread_size
            first_part_ms = None if math.isnan(first_part) else first_part
            unread_json = unpack(value[unread_at:response_at]).decode() if unread_size else None
        return Entry(
            key=key,
            question_id=question_id,
            turn_index=turn_index,
            model_id=value[_HEAD.size : question_at].decode(),
            response=unpack(value[response_at:]),
            attempts=attempts,
            latency_ms=latency_ms,
            asked_at=_moment(asked),
            answered_at=_moment(answered),
            first_part_ms=first_part_ms,
            unread_json=unread_json,
        )
    except (zstandard.ZstdError, OverflowError, UnicodeDecodeError, struct.error):
        raise ValueError("the value is damaged") from None


def summary_of(beginning: bytes, size: int) -> ModelSummary | None:
    """Return the totals of one entry from its first bytes; None when these don't contain the model's name.

    Args:
        beginning: The first bytes of the value, or all of them.
        size: The size of the whole value in bytes.

    Raises:
        ValueError: The value was not written by `pack_entry`.
    """
    _, _, _, asked, _, model_size, question_size = _fields(beginning)
    stored = size - _HEAD.size - model_size - question_size
    model = beginning[_HEAD.size : _HEAD.size + model_size]
    if stored < 0:
        raise ValueError("the value is damaged")
    if len(model) < model_size:
        return None
    try:
        return ModelSummary(model.decode(), 1, stored, _moment(asked), _moment(asked))
    except (OverflowError, UnicodeDecodeError):
        raise ValueError("the value is damaged") from None


def _fields(value: bytes) -> tuple[int, int, float, int, int, int, int]:
    if len(value) < _HEAD.size or not value.startswith((_MAGIC, _MAGIC_WITH_MORE)):
        raise ValueError("the value is not an entry of a ledger")
    _, *fields = _HEAD.unpack_from(value)
    turn_index, attempts, latency_ms, asked, answered, model_size, question_size = fields
    return turn_index, attempts, latency_ms, asked, answered, model_size, question_size


def _moment(micros: int) -> datetime:
    return _EPOCH + micros * _MICROSECOND
