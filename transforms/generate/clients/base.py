"""The interface of a client: it sends one request, and returns one response or raises one typed error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from groundrows.schemas.spending import Spent


@dataclass(frozen=True, slots=True)
class Call:
    """A request to send.

    Attributes:
        request: The serialized request message, with the resource that it is addressed to.
        user_context: JSON that has no field in the message. Only REST can send it.
    """

    request: bytes
    user_context: str | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete response.

    Attributes:
        response: The serialized response message. It can be decoded. The parts of a stream are merged.
        first_part_ms: Milliseconds until the first part of a streamed response arrived; None for others.
        unread_json: The response's JSON when the message can't hold all of it, else None.
        spent: What the call took, or None where the service does not say.
    """

    response: bytes
    first_part_ms: float | None = None
    unread_json: str | None = None
    spent: Spent | None = None


class Client(Protocol):
    """Calls a service. Used from one event loop only."""

    async def ask(self, call: Call, deadline: float) -> Reply:
        """Make one attempt.

        Args:
            call: The request.
            deadline: Seconds after which the attempt is cancelled.

        Raises:
            CallError: The attempt failed.
        """
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...
