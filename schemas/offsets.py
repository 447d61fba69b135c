"""Offsets in bytes, which services send, into offsets in characters, which rows hold."""

from __future__ import annotations

from collections.abc import Iterable


def places_of(text: str, offsets: Iterable[int]) -> dict[int, int]:
    """Return what each of these offsets in bytes (UTF-8) is in characters.

    Those that lie neither between two characters nor at an end of the text are left out. The others are
    counted from one to the next: an answer can have megabytes, and its claims are few.
    """
    data = text.encode()
    places = {}
    reached = place = 0
    for offset in sorted({offset for offset in offsets if _is_between(data, offset)}):
        place += len(data[reached:offset].decode())
        reached = offset
        places[offset] = place
    return places


def _is_between(data: bytes, offset: int) -> bool:
    # A byte that goes on with a character, rather than begins one, starts with the bits 10.
    return offset == len(data) or (0 <= offset < len(data) and data[offset] & 0b1100_0000 != 0b1000_0000)
