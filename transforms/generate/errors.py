"""What a call can end as, other than a response.

Which codes are worth another attempt follows the service's published error model
(https://cloud.google.com/apis/design/errors) with two exceptions that only look retryable: a message
larger than a limit arrives as RESOURCE_EXHAUSTED, and a response that can't be decoded as INTERNAL. Both
would come out the same for ever, and be paid for each time.
"""

from __future__ import annotations

RETRYABLE_CODES = frozenset(
    {"UNAVAILABLE", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED", "ABORTED", "INTERNAL", "UNKNOWN"}
)

# Codes of our own, for ends that the service has no name for.
NOT_ATTEMPTED = "NOT_ATTEMPTED"
UNDECODABLE_RESPONSE = "UNDECODABLE_RESPONSE"
MESSAGE_TOO_LARGE = "MESSAGE_TOO_LARGE"
INTERNAL_ERROR = "INTERNAL_ERROR"


class CallError(Exception):
    """One attempt failed.

    Attributes:
        code: The canonical status name, or one of this module's own.
        message: The service's own words, for people; may quote the request, so it goes into rows only.
        retry_after: Seconds the server asked to wait, or None when it did not say.
    """

    def __init__(self, code: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.retry_after = retry_after

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.code in RETRYABLE_CODES


class SetupError(Exception):
    """Nothing can be called at all; the text is one sentence for a person."""
