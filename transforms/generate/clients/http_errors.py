"""Turns an HTTP error (status, headers and body) into an error with one of gRPC's codes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from groundrows.schemas.codes import MESSAGE_TOO_LARGE
from groundrows.schemas.errors import CallError, NotReadableError
from groundrows.transforms.generate.clients.json_body import read_json
from groundrows.transforms.generate.clients.status import CODES, NAMES, status_error

# From the table in google.rpc's code.proto. When several codes share a status, the most general one is used.
# Statuses of proxies are added.
_BY_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "UNIMPLEMENTED",
    408: "DEADLINE_EXCEEDED",
    409: "ABORTED",
    412: "FAILED_PRECONDITION",
    413: MESSAGE_TOO_LARGE,
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_DURATION = re.compile(r"-?[0-9]{1,12}(\.[0-9]{1,9})?s")  # as protobuf writes one in JSON
_LONGEST_TEXT = 200  # characters of a body that is no status


def http_error(
    status: int, reason: str | None, headers: Mapping[str, str], body: bytes, deadline: float
) -> CallError:
    """Return the error of a call that ended with an HTTP error status.

    Args:
        status: The HTTP status.
        reason: The status's text.
        headers: The response's headers, with case-insensitive names.
        body: The response's body.
        deadline: The attempt's deadline in seconds, for the message.
    """
    if 300 <= status < 400:
        # Following a redirect would send the credentials and the prompt to another server.
        return CallError(
            "FAILED_PRECONDITION", f"HTTP {status}: the endpoint redirects to another one: correct it"
        )
    waits = _retry_after(headers)
    try:
        error = error_in(read_json(body), deadline, waits, status)
    except NotReadableError:
        error = None
    if error is not None:
        return error
    words = body.decode(errors="replace")[:_LONGEST_TEXT].split()
    message = " ".join([f"HTTP {status}", *([reason] if reason else []), *([":", *words] if words else [])])
    return status_error(_code_of(status), message.replace(" :", ":"), waits, deadline)


def error_in(
    read: object, deadline: float, retry_after: float | None = None, status: int = 500
) -> CallError | None:
    """Return the error in JSON of the form `{"error": {…}}`, or in a list of such objects; None without one.

    Args:
        read: The parsed JSON.
        deadline: The attempt's deadline in seconds, for the message.
        retry_after: Seconds that the headers ask to wait. It is used when the error itself names none.
        status: The HTTP status. It is used when the error itself has none.
    """
    elements = read if isinstance(read, list) else [read]
    told = next((one["error"] for one in elements if isinstance(one, dict) and "error" in one), None)
    if not isinstance(told, dict):
        return None
    name, number, message = told.get("status"), told.get("code"), told.get("message")
    if isinstance(name, str) and name in NAMES:
        code = name
    else:
        # The number is that of HTTP, but a server may well write its own kind.
        own = number if isinstance(number, int) else status
        code = CODES[own] if own in CODES and own else _code_of(own)
    waits = _retry_delay(told.get("details"))
    words = message if isinstance(message, str) else ""
    quota = _day_quota(told.get("details"))
    if code == "RESOURCE_EXHAUSTED" and quota is not None:
        return CallError(code, f"{words} ({quota})", day_quota=quota)
    return status_error(code, words, retry_after if waits is None else waits, deadline)


def _code_of(status: int) -> str:
    code = _BY_STATUS.get(status)
    if code is None:
        code = "INVALID_ARGUMENT" if 400 <= status < 500 else "UNAVAILABLE" if status >= 500 else "UNKNOWN"
    return code


def _day_quota(details: object) -> str | None:
    """Return the name of a daily quota that the error says is used up, or None."""
    for detail in details if isinstance(details, list) else []:
        if not isinstance(detail, dict) or not str(detail.get("@type")).endswith("/google.rpc.QuotaFailure"):
            continue
        violations = detail.get("violations")
        for violation in violations if isinstance(violations, list) else []:
            name = violation.get("quotaId") if isinstance(violation, dict) else None
            if isinstance(name, str) and "PerDay" in name:
                return name[:_LONGEST_TEXT]
    return None


def _retry_delay(details: object) -> float | None:
    """Return the seconds in the RetryInfo of an error's details, or None."""
    for detail in details if isinstance(details, list) else []:
        if not isinstance(detail, dict) or not str(detail.get("@type")).endswith("/google.rpc.RetryInfo"):
            continue
        delay = detail.get("retryDelay")
        if not isinstance(delay, str) or _DURATION.fullmatch(delay) is None:
            return None
        return max(0.0, float(delay[:-1]))
    return None


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that Retry-After asks to wait, in either of its forms (RFC 9110, 10.2.3)."""
    value = headers.get("Retry-After", "").strip()
    if value.isascii() and value.isdigit():
        return float(value)
    until = _moment(value)
    if until is None:
        return None
    # Computed with the server's clock, which may differ from ours.
    now = _moment(headers.get("Date", "")) or datetime.now(UTC)
    return max(0.0, (until - now).total_seconds())


def _moment(value: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
