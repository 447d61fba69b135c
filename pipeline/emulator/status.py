"""Refusals with google.rpc details, as the service sends them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice

from google.protobuf import any_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2

# Over gRPC they travel in the trailers, of which a client takes no more than 8 KiB.
MAX_VIOLATIONS = 10


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


def refuse(code: str, message: str, *details: object) -> Refusal:
    """Build a refusal whose status carries `details`, which are `google.rpc` messages."""
    status = status_pb2.Status(code=code_pb2.Code.Value(code), message=message)
    for detail in details:
        packed = any_pb2.Any()
        packed.Pack(detail)
        status.details.append(packed)
    return Refusal(code, message, status.SerializeToString())


def bad_request(violations: Iterable[tuple[str, str]]) -> Refusal:
    """Refuse a request for the given (field path, what is wrong with it) pairs; the first few are told."""
    details = error_details_pb2.BadRequest()
    for field, description in islice(violations, MAX_VIOLATIONS):
        details.field_violations.add(field=field, description=description)
    message = " ".join(
        f"{entry.field}: {entry.description}" if entry.field else entry.description
        for entry in details.field_violations
    )
    return refuse("INVALID_ARGUMENT", message, details)


def quota_exhausted(per_minute: int | None, retry_seconds: float) -> Refusal:
    """Refuse a call beyond the quota; `retry_seconds` is infinite when nothing is said of it."""
    if math.isinf(retry_seconds):
        return refuse("RESOURCE_EXHAUSTED", "The quota is used up; when a slot becomes free is not said.")
    retry = error_details_pb2.RetryInfo()
    retry.retry_delay.FromMilliseconds(math.ceil(retry_seconds * 1000))
    message = (
        f"The quota of {per_minute} requests a minute is used up; a slot is free in {retry_seconds:.3f} s."
    )
    refusal = refuse("RESOURCE_EXHAUSTED", message, retry)
    return replace(refusal, retry_seconds=math.ceil(retry_seconds))
