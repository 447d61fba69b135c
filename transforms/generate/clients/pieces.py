"""How many pieces a response consists of, counted before it is decoded.

Each piece (a message, or an element of a list) takes some hundred bytes of memory when it is decoded, and as
few as two bytes when it is sent. So the limit of a response's bytes bounds its memory only together with a
limit of its pieces. Honest responses are far from it: their pieces have texts.
"""

from __future__ import annotations

from functools import cache
from typing import Any

BYTES_A_PIECE = 32
"""A response may have one piece for each so many of the bytes that it may have."""
_SHORTEST_PIECE = 2

# The ways in which a field is sent.
_VARINT, _EIGHT_BYTES, _WITH_LENGTH, _FOUR_BYTES = 0, 1, 2, 5


def most_pieces(most_bytes: int) -> int:
    """The most pieces of a response that may have so many bytes."""
    return most_bytes // BYTES_A_PIECE


def json_has_more(body: bytes, most: int) -> bool:
    """Whether a body of JSON consists of more objects and lists than so many.

    Brackets within texts count too: to tell them apart would take as long as to decode it.
    """
    return len(body) >= _SHORTEST_PIECE * most and body.count(b"{") + body.count(b"[") > most


class Pieces:
    """Counts the pieces of messages that arrive one after another and are one response together.

    Args:
        most: The most pieces that they may have.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._left = most
        self._bytes = 0

    def are_too_many(self, data: bytes, descriptor: Any) -> bool:
        """Whether there are too many with this message.

        What can't be read is not counted any further: to decode it will fail as well.

        Args:
            data: The message as it was sent.
            descriptor: The message's descriptor, which says what is a message within it.
        """
        self._bytes += len(data)
        if self._bytes >= _SHORTEST_PIECE * self._most:  # or else it can't have so many
            try:
                self._left -= _count(data, descriptor, self._left)
            except IndexError:
                return False
        return self._left < 0


def _count(data: bytes, descriptor: Any, most: int) -> int:
    """Count the fields of a message and of all messages within it, up to one more than `most`.

    Raises:
        IndexError: It is no message: it ends within a field, or a field is sent in no known way.
    """
    count = 0
    waiting = [(0, len(data), descriptor)]
    while waiting:
        at, end, kind = waiting.pop()
        within = _messages_within(kind)
        while at < end:
            tag, at = _varint(data, at)
            count += 1
            if count > most:
                return count
            way = tag & 7
            if way == _WITH_LENGTH:
                size, at = _varint(data, at)
                if at + size > end:
                    raise IndexError
                if tag >> 3 in within:
                    waiting.append((at, at + size, within[tag >> 3]))
                at += size
            elif way == _VARINT:
                _, at = _varint(data, at)
            elif way == _EIGHT_BYTES:
                at += 8
            elif way == _FOUR_BYTES:
                at += 4
            else:
                raise IndexError
    return count


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise IndexError


@cache
def _messages_within(descriptor: Any) -> dict[int, Any]:
    """The descriptors of the messages within a message, by the number of their field."""
    return {field.number: field.message_type for field in descriptor.fields if field.message_type is not None}
