"""Records bent and broken at random: valid ones, changed as JSON values and as bytes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from copy import deepcopy
from random import Random
from typing import Any

from groundrows.schemas.names import camel

Slot = tuple[Any, Any]
"""An object or a list, and the key or index of one value in it."""

_VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2**31, -(2**63), 10**400, 0.5, -1.5, 1e308, 3.5e38, math.nan, math.inf, "", " ",
    "x", "user", "model", "\ud83d", "\ude00\ud83d", "\u0000", "é" * 10_001, "0.5", [], {}, [[]], [None], {"": 0},
    {"text": "x"}, {"parts": {"text": "x"}}, "V1_INDEPENDENT",
]  # fmt: skip
_NAMES = [
    "question", "turns", "contents", "id", "facts", "metadata", "system_instruction", "groundingSpec", "parts",
    "grounding_sources", "inline_source", "searchSource", "google_search_source", "threshold", "user_context",
    "answer", "answerCandidate", "citation_threshold", "text", "role", "qestion", "ID", "", "\ud800", "x" * 100,
]  # fmt: skip
_BYTES = [
    b"\xf0\x9f\x98", b"\xed\xa0\xbd", b"\xc0\xaf", b"\x80", b"\xff", b"\x00", b"\n", b"\xef\xbb\xbf", b"\\ud83d", b"\\u",
    b"NaN", b"-Infinity", b"1e999", b"9" * 5_000, b"[" * 3_000, b'{"a":' * 3_000, b"}", b"]", b'"', b",", b":", b"{",
]  # fmt: skip


def mutated(valid: dict[str, Any], random: Random) -> bytes:
    """One record made of a valid one by one to four changes."""
    # Copies everywhere: what one record changes must not be seen by the next, nor end up inside itself.
    record = deepcopy(valid)
    for _ in range(random.choice((0, 1, 1, 1, 2, 3))):
        slots = _slots(record)
        if slots:
            random.choice(_STRUCTURE)(slots, random)
    text = json.dumps(record, ensure_ascii=random.random() < 0.5)
    body = text.encode("utf-8", "surrogatepass")
    for _ in range(random.choice((0, 0, 0, 0, 1, 2))):
        body = random.choice(_BYTEWISE)(body, random)
    return body


def _slots(value: Any) -> list[Slot]:
    found: list[Slot] = []
    waiting = [value]
    while waiting and len(found) < 500:
        each = waiting.pop()
        keys = list(each) if isinstance(each, dict) else range(len(each)) if isinstance(each, list) else ()
        for key in keys:
            found.append((each, key))
            waiting.append(each[key])
    return found


def _delete(slots: list[Slot], random: Random) -> None:
    holder, key = random.choice(slots)
    del holder[key]


def _duplicate(slots: list[Slot], random: Random) -> None:
    holder, key = random.choice(slots)
    if isinstance(holder, list):
        holder.extend([deepcopy(holder[key]) for _ in range(random.choice((1, 2, 10, 100, 200)))])
    else:
        spelled = (camel(key), key.upper(), f"{key}s", f"{key}_", random.choice(_NAMES))
        holder[random.choice(spelled)] = deepcopy(holder[key])


def _replace(slots: list[Slot], random: Random) -> None:
    holder, key = random.choice(slots)
    holder[key] = deepcopy(random.choice(_VALUES))


def _swap(slots: list[Slot], random: Random) -> None:
    (one, one_key), (other, other_key) = random.choice(slots), random.choice(slots)
    one[one_key], other[other_key] = deepcopy(other[other_key]), deepcopy(one[one_key])


def _rename(slots: list[Slot], random: Random) -> None:
    holder, key = random.choice(slots)
    if isinstance(holder, dict):
        spelled = (camel(key), key.upper(), key.title(), key[1:], key + key[-1:], key.replace("_", "-"))
        holder[random.choice((*spelled, random.choice(_NAMES)))] = holder.pop(key)


def _add(slots: list[Slot], random: Random) -> None:
    holder, _ = random.choice(slots)
    if isinstance(holder, dict):
        holder[random.choice(_NAMES)] = deepcopy(random.choice(_VALUES))
    else:
        holder.insert(random.randrange(len(holder) + 1), deepcopy(random.choice(_VALUES)))


def _nest(slots: list[Slot], random: Random) -> None:
    holder, key = random.choice(slots)
    value = holder[key]
    for _ in range(random.choice((1, 2, 98, 150))):
        value = [value] if random.random() < 0.5 else {random.choice(("a", "parts", "text")): value}
    holder[key] = value


def _cut(body: bytes, random: Random) -> bytes:
    return body[: random.randrange(len(body) + 1)]


def _flip(body: bytes, random: Random) -> bytes:
    at = random.randrange(len(body) + 1)
    return body[:at] + bytes([random.randrange(256)]) + body[at + 1 :]


def _insert(body: bytes, random: Random) -> bytes:
    at = random.randrange(len(body) + 1)
    return body[:at] + random.choice(_BYTES) + body[at:]


def _repeat(body: bytes, random: Random) -> bytes:
    start, end = sorted(random.randrange(len(body) + 1) for _ in range(2))
    return body[:end] + body[start:end] + body[end:]


def _leave_out(body: bytes, random: Random) -> bytes:
    start = random.randrange(len(body) + 1)
    return body[:start] + body[start + random.choice((1, 2, 40)) :]


_STRUCTURE: list[Callable[[list[Slot], Random], None]] = [
    _delete, _duplicate, _replace, _replace, _swap, _rename, _add, _nest,
]  # fmt: skip
_BYTEWISE: list[Callable[[bytes, Random], bytes]] = [_cut, _flip, _flip, _insert, _repeat, _leave_out]
