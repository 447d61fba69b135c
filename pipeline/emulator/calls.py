"""How a call comes in, and how it is answered, whatever transport it came by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from groundrows.pipeline.emulator.status import Refusal
from groundrows.schemas.discoveryengine.messages import ApiVersion, Pb, request_class

MethodName = Literal["GenerateGroundedContent", "StreamGenerateGroundedContent", "CheckGrounding"]
GrpcVersion = Literal["v1", "v1beta"]  # v1alpha is REST alone
Transport = Literal["grpc", "rest"]
Ending = Literal["hang", "disconnect"]

# A stream's first part is there after this share of its time.
FIRST_PART = 1 / 3


@dataclass(frozen=True, slots=True)
class Origin:
    """What is called, and by which way.

    Attributes:
        method: The method's name, without package or service.
        version: The API's version.
        transport: How the call came.
    """

    method: MethodName
    version: ApiVersion
    transport: Transport

    @property
    def request_class(self) -> type[Pb]:
        """The message that the call's request is."""
        return request_class(self.version, "check" if self.method == "CheckGrounding" else "generate")


@dataclass(frozen=True, slots=True)
class Received:
    """A call's request, read.

    Attributes:
        request: The method's request message.
        user_context: What came beside it as the user's context, which no message has a field for; None when
            nothing did.
    """

    request: Any
    user_context: object = None


@dataclass(frozen=True, slots=True)
class Reply:
    """How a call is to be answered.

    Attributes:
        delay_seconds: When the outcome is due, counted from the call's arrival.
        outcome: A serialized response; a refusal; or `hang` (never answer) or `disconnect` (cut the
            connection).
        before: The parts of a stream that go before the outcome, serialized; empty for any other call.
    """

    delay_seconds: float
    outcome: bytes | Refusal | Ending
    before: tuple[bytes, ...] = ()

    def due(self) -> Iterator[tuple[float, bytes]]:
        """Every part before the outcome with the seconds after which it is due, evenly spread."""
        step = (1 - FIRST_PART) / max(1, len(self.before))
        for position, part in enumerate(self.before):
            yield self.delay_seconds * (FIRST_PART + step * position), part
