"""Every error that Groundrows raises, as one tree: `except GroundrowsError` catches them all.

An error lives here and not beside the code that raises it, so that one page shows what can go wrong. This
module imports nothing of the project but codes and counts, so that every other module can import it. Two
exceptions are no part of the tree, because nobody outside ever sees them: `Halted` of the calls' gate, which
is a signal between two modules, and the CSV reader's private one.

The message of each is meant for people: one sentence that says what is wrong, where, and what to do. It never
holds a prompt, an answer, a fact or a secret, except for `CallError`, as it says.
"""

from __future__ import annotations

import signal
from typing import Literal

from groundrows.schemas.codes import EMPTY_ANSWER, RETRYABLE_CODES
from groundrows.schemas.spending import Spent

RecordStage = Literal["parse", "validate"]


class GroundrowsError(Exception):
    """Base of every error below."""


# -- What the caller can mend


class UsageError(GroundrowsError):
    """A flag, a file or a setting is wrong, and the caller can mend it. Nothing has been called yet."""


class PortInUseError(GroundrowsError):
    """The emulator cannot open a port.

    Args:
        flag: The flag that named the port, without its dashes.
        port: The port.
    """

    def __init__(self, flag: str, port: int) -> None:
        super().__init__(flag, port)
        self.flag = flag
        self.port = port

    def __str__(self) -> str:
        return f"--{self.flag}={self.port} cannot be opened on 127.0.0.1: free it, or use 0 for a free one."


# -- Records and where they come from


class RuleError(GroundrowsError):
    """Some part of a record, or of the request defaults, breaks a rule.

    It is raised where the rule is checked, by code that knows the path but not the record it belongs to;
    whoever holds the record turns it into a `RecordError`.

    Attributes:
        code: A stable name in capitals, such as `TOO_MANY_SOURCES`.
        message: One sentence for a person: what, where, what to do. It never holds a prompt or a fact.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return self.message


class RecordError(GroundrowsError):
    """A record cannot be asked. It costs one row of failures, never the run.

    Attributes:
        code: A stable name in capitals, such as `NO_QUESTION`.
        message: One sentence for a person: what, where, what to do. It never holds a prompt or a fact.
        stage: `parse` when the bytes are no JSON object that could be read, else `validate`.
        question_id: The record's own id where it can be read, else an id derived from its content.
        metadata: The record's metadata as a JSON object, where it can be read and there is any; else None.
    """

    def __init__(
        self, code: str, message: str, stage: RecordStage, question_id: str, metadata: str | None
    ) -> None:
        super().__init__(code, message, stage, question_id, metadata)
        self.code = code
        self.message = message
        self.stage = stage
        self.question_id = question_id
        self.metadata = metadata

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class BrokenStreamError(GroundrowsError, OSError):
    """Compressed data is corrupt or breaks off. Never an EOFError: readers take that for a proper end."""


class SubscriptionError(GroundrowsError):
    """The worker cannot pull from the subscription any more."""


class PullError(GroundrowsError):
    """One pull failed, and the next one may succeed; the text is the reason, without a full stop."""


# -- Calls


LONGEST_RETRY_AFTER_SECONDS = 86_400.0


class CallError(GroundrowsError):
    """One attempt failed. An attempt is one request sent to the service.

    Attributes:
        code: The canonical status name, or one of `schemas.codes`' own.
        message: The service's own words, for people; may quote the request, so it goes into rows only.
        retry_after: Seconds the server asked to wait, at most a day; None when it did not say, or when what
            it said is no time to wait.
        day_quota: The name of a day's quota that is used up, or None. Until the next day nothing else comes
            back, whatever the server asked to wait.
        spent: What the attempt took all the same, or None where the service did not say.
    """

    def __init__(
        self,
        code: str,
        message: str,
        retry_after: float | None = None,
        day_quota: str | None = None,
        spent: Spent | None = None,
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.day_quota = day_quota
        self.spent = spent
        self.message = message
        # Servers, and proxies before them, send anything at all.
        if retry_after is not None:
            retry_after = min(retry_after, LONGEST_RETRY_AFTER_SECONDS) if retry_after >= 0 else None
        self.retry_after = retry_after

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.code in RETRYABLE_CODES or self.code == EMPTY_ANSWER


class SetupError(GroundrowsError):
    """Nothing can be called at all, because of credentials, settings or the pacing service."""


class UndecodableError(GroundrowsError, ValueError):
    """Bytes that should be a request or a response of a service are none."""


class NotReadableError(GroundrowsError, ValueError):
    """A response is not JSON, or not the JSON of the message it should be."""


class LostWorkerError(GroundrowsError):
    """A worker process is gone in the middle of a run.

    Args:
        code: Its exit code; where a signal ended it, that is the signal's number, negative or 128 beyond it.
            None where nobody knows it.
    """

    def __init__(self, code: int | None = None) -> None:
        super().__init__(code)
        self.code = code

    def __str__(self) -> str:
        number = 0 if self.code is None else -self.code if self.code < 0 else self.code - 128
        if self.code is not None and number != signal.SIGKILL:
            return (
                f"A worker process ended with exit code {self.code}; what it printed above says why, and the "
                "same command run again takes it up where it is."
            )
        how = f" by signal {number}" if number else ""
        return (
            f"A worker process was killed{how}, most likely because memory ran out: give fewer "
            "--direct_num_workers or a smaller --max_in_flight; the same command run again takes it up where "
            "it is."
        )


class StoppedError(GroundrowsError):
    """Calling has stopped in the middle of a stream: the runner must deliver its questions again."""


# -- The ledger, which stores every response as it arrives


class LedgerError(GroundrowsError):
    """The ledger cannot be used."""


class NoLedgerError(LedgerError):
    """There is no ledger at the place it was to be read from."""


# -- Rows and where they go


class RowError(GroundrowsError, ValueError):
    """A row does not fit its table. The message names table and field, and never holds the row's content.

    Attributes:
        table: The table's name.
        field: The field's name, with its place inside it where it is nested: `images[0].image.width`.
        problem: What does not fit, as the rest of a sentence that starts with the field.
    """

    def __init__(self, table: str, field: str, problem: str) -> None:
        super().__init__(table, field, problem)
        self.table = table
        self.field = field
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.table}.{self.field} {self.problem}"


class RefusedError(GroundrowsError, RuntimeError):
    """BigQuery refused rows, and they are in no table."""


class ShapeError(GroundrowsError, ValueError):
    """A table that exists cannot take our rows. The message is part of a sentence: column and problem."""


class ReleaseError(GroundrowsError, ValueError):
    """The schemas cannot be released as a version."""


class FailuresTopicError(GroundrowsError):
    """The worker cannot publish to the failures topic any more."""
