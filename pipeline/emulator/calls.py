"""How a call comes in and how it ends, whatever API it is for and whatever transport it came by."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal, Protocol

from google.protobuf import any_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2

Transport = Literal["grpc", "rest"]
Ending = Literal["hang", "disconnect"]
# A field's path in a request, and one sentence that says what is wrong with it.
Violation = tuple[str, str]

# A stream's first part is there after this share of its time.
FIRST_PART = 1 / 3
# Details of a refusal travel over gRPC in the trailers, of which a client takes no more than 8 KiB.
MAX_VIOLATIONS = 10


class Origin(Protocol):
    """What is called, and by which way. Each API has an origin of its own."""

    @property
    def api(self) -> str:
        """The folder of the API."""

    @property
    def method(self) -> str:
        """The method's name, as the call log shows it."""

    @property
    def version(self) -> str:
        """The API's version."""

    @property
    def transport(self) -> Transport:
        """How the call came."""

    @property
    def streams(self) -> bool:
        """Whether the answer is told in parts."""

    @property
    def is_check(self) -> bool:
        """Whether the call checks an answer rather than asks for one; checks have a quota of their own."""


@dataclass(frozen=True, slots=True)
class Received:
    """A call's request, read.

    Attributes:
        request: The method's request, in the form that its API's folder reads it into.
        user_context: What came beside it as the user's context, which no message has a field for; None when
            nothing did.
    """

    request: Any
    user_context: object = None


@dataclass(frozen=True, slots=True)
class RestCall:
    """A call over REST, as its API's folder understands its path.

    Attributes:
        origin: What is called.
        read: Reads the body into a request, or refuses it.
        write: Turns a response, in the form that the API's folder makes, into the JSON that is sent.
        is_sse: Whether a stream is told as server-sent events rather than as the elements of an array.
    """

    origin: Origin
    read: Callable[[bytes], Received | Refusal]
    write: Callable[[bytes], bytes]
    is_sse: bool = False


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


@dataclass(frozen=True, slots=True)
class Refusal:
    """A call that is not answered.

    Attributes:
        code: The status code's name, such as `INVALID_ARGUMENT`.
        message: One sentence for the caller.
        details: A serialized `google.rpc.Status` of the same code and message, details included.
        retry_seconds: Whole seconds after which the call may be tried again, or None when that is not said.
    """

    code: str
    message: str
    details: bytes
    retry_seconds: int | None = None


def last_of(turns: Sequence[str]) -> tuple[str, int]:
    """What the call log shows of a conversation: the last user turn, and how many there are."""
    return (turns[-1] if turns else "", len(turns))


def refuse(code: str, message: str, *details: object) -> Refusal:
    """Build a refusal whose status carries `details`, which are `google.rpc` messages."""
    status = status_pb2.Status(code=code_pb2.Code.Value(code), message=message)
    for detail in details:
        packed = any_pb2.Any()
        packed.Pack(detail)
        status.details.append(packed)
    return Refusal(code, message, status.SerializeToString())


def bad_request(violations: Iterable[Violation]) -> Refusal:
    """Refuse a request for the given (field path, what is wrong with it) pairs; the first few are told."""
    details = error_details_pb2.BadRequest()
    for field, description in islice(violations, MAX_VIOLATIONS):
        details.field_violations.add(field=field, description=description)
    message = " ".join(
        f"{entry.field}: {entry.description}" if entry.field else entry.description
        for entry in details.field_violations
    )
    return refuse("INVALID_ARGUMENT", message, details)


def quota_exhausted(per_minute: int | None, retry_seconds: float, what: str = "requests") -> Refusal:
    """Refuse a call beyond the quota; `retry_seconds` is infinite when nothing is said of it."""
    if math.isinf(retry_seconds):
        return refuse("RESOURCE_EXHAUSTED", "The quota is used up; when a slot becomes free is not said.")
    retry = error_details_pb2.RetryInfo()
    retry.retry_delay.FromMilliseconds(math.ceil(retry_seconds * 1000))
    message = (
        f"The quota of {per_minute} {what} a minute is used up; a slot is free in {retry_seconds:.3f} s."
    )
    refusal = refuse("RESOURCE_EXHAUSTED", message, retry)
    return replace(refusal, retry_seconds=math.ceil(retry_seconds))


def day_quota_exhausted() -> Refusal:
    """Refuse a call beyond a quota of the day, as the Developer API does: with a wait that is too short."""
    quota = error_details_pb2.QuotaFailure()
    quota.violations.add(
        quota_metric="generativelanguage.googleapis.com/generate_requests_per_model_per_day",
        quota_id="GenerateRequestsPerDayPerProjectPerModel",
    )
    retry = error_details_pb2.RetryInfo()
    retry.retry_delay.FromSeconds(27)
    return refuse("RESOURCE_EXHAUSTED", "You exceeded your current quota.", quota, retry)
