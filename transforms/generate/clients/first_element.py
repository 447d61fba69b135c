"""When the first element of a JSON array is there, while the array is still arriving."""

from __future__ import annotations

from collections.abc import Generator

import ijson

_OPENS = frozenset({"start_map", "start_array"})
_CLOSES = frozenset({"end_map", "end_array"})


class FirstElement:
    """Watches an array arrive, in pieces cut wherever the network cuts them, until its first element has.

    Attributes:
        there: Whether the first element is complete.
    """

    def __init__(self) -> None:
        self.there = False
        self._readable = True
        self._parser = ijson.basic_parse_coro(self._count(), use_float=True)

    def feed(self, piece: bytes) -> bool:
        """Look at the next piece; says whether the first element is there now.

        What the parser can't read has none: what is no JSON, and half of a surrogate pair in JSON.
        """
        if piece and self._readable and not self.there:  # nothing would mean the end
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
                return  # what else is in the piece need not be looked at
