"""The interface every backend fits behind: one request in, one response or one typed error out."""

from __future__ import annotations

from typing import Protocol


class Client(Protocol):
    """A backend. Used from one event loop only."""

    async def generate(self, request: bytes, deadline: float) -> bytes:
        """Ask once.

        Args:
            request: A serialized request message, location included.
            deadline: Seconds after which the attempt is cut.

        Returns:
            The serialized response message; it was seen to decode.

        Raises:
            CallError: The attempt failed, for whatever reason.
        """
        ...

    async def close(self) -> None:
        """Give back connections."""
        ...
