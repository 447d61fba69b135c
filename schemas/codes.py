"""The codes that a call can end with, other than a response; failure rows carry them.

Which codes are worth another attempt follows the service's published error model
(https://cloud.google.com/apis/design/errors) with two exceptions that only look retryable: a message
larger than a limit arrives as RESOURCE_EXHAUSTED, and a response that can't be decoded as INTERNAL. A second
attempt would end the same way, and would be paid for as well.
"""

from __future__ import annotations

RETRYABLE_CODES = frozenset(
    {"UNAVAILABLE", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED", "ABORTED", "INTERNAL", "UNKNOWN"}
)

EMPTY_ANSWER = "EMPTY_ANSWER"
"""A response without an answer, for a reason that may pass: the service did its work and is to be paid.

It is worth an attempt or two more, and says nothing against the service."""

# Codes of our own, for ends that the service has no name for.
NOT_ATTEMPTED = "NOT_ATTEMPTED"
# A worker's alone, and in no row: the message may be another worker's by now, which asks its question.
LEFT_TO_ANOTHER = "LEFT_TO_ANOTHER"
UNDECODABLE_RESPONSE = "UNDECODABLE_RESPONSE"
MESSAGE_TOO_LARGE = "MESSAGE_TOO_LARGE"
RESPONSE_TOO_LARGE = "RESPONSE_TOO_LARGE"
INTERNAL_ERROR = "INTERNAL_ERROR"
