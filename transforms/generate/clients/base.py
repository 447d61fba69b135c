"""The interface every backend fits behind: one request in, one response or one typed error out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from groundrows.schemas.spending import Spent


@dataclass(frozen=True, slots=True)
class Call:
    """What goes out.

    Attributes:
        request: A serialized request message of the method that the client was made for, addressed.
        user_context: JSON that no message has a field for; only REST can carry it.
    """

    request: bytes
    user_context: str | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back, whole.

    Attributes:
        response: The serialized response message; it was seen to decode. The parts of a stream are merged.
        first_part_ms: Milliseconds until a streamed response's first part was there, else None.
        unread_json: The response's own JSON, where the message could not hold all of it, else None.
        spent: What the call took, or None where the service does not say.
    """

    response: bytes
    first_part_ms: float | None = None
    unread_json: str | None = None
    spent: Spent | None = None


class Client(Protocol):
    """A backend. Used from one event loop only."""

    async def ask(self, call: Call, deadline: float) -> Reply:
        """Ask once.

        Args:
            call: What to ask.
            deadline: Seconds after which the attempt is cut.

        Raises:
            CallError: The attempt failed, for whatever reason.
        """
        ...

    async def close(self) -> None:
        """Give back connections."""
        ...
