"""Detects when the first element of a JSON array has arrived, while the rest is still arriving."""

from __future__ import annotations

from collections.abc import Generator

import ijson

_OPENS = frozenset({"start_map", "start_array"})
_CLOSES = frozenset({"end_map", "end_array"})


class FirstElement:
    """Reads an array in pieces, as they come from the network, until its first element is complete.

    Attributes:
        there: Whether the first element is complete.
    """

    def __init__(self) -> None:
        self.there = False
        self._readable = True
        self._parser = ijson.basic_parse_coro(self._count(), use_float=True)

    def feed(self, piece: bytes) -> bool:
        """Read the next piece; return whether the first element is complete now.

        It never is when the parser can't read the array: when it is not JSON, or has half a surrogate pair.
        """
        if piece and self._readable and not self.there:  # the parser takes an empty piece for the end
            try:
                self._parser.send(piece)
            except (ijson.JSONError, StopIteration, UnicodeError):
                self._readable = False
        return self.there

    @ijson.coroutine
    def _count(self) -> Generator[None, tuple[str, object], None]:
        event, _ = yield
        is_array, depth = event == "start_array", 1
        while True:
            event, _ = yield
            if event in _OPENS:
                depth += 1
            elif event in _CLOSES:
                depth -= 1
            if is_array and depth == 1:
                self.there = True
                return  # the rest of the piece is not needed
