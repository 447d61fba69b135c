"""Turns an unexpected error into one sentence: what failed, where, and what to do."""

from __future__ import annotations

import re

from groundrows.schemas.errors import LedgerError, LostWorkerError, SetupError
from groundrows.schemas.wording import one_line, reason_of

# Beam raises a copy of an error, and adds the name of the step to the copy's text.
_STEP = re.compile(r" ?\[while running '(?P<step>[^']*?)(?:-ptransform-\d+)?'\]")
# Names of exception classes that Beam puts before a message, and the class name of an operating system error.
_NAMES = re.compile(r"^(?:RuntimeError: )*(?:\w+: (?=\[Errno))?")
_TELLING = (LedgerError, SetupError)


def sentence_of(error: BaseException) -> str:
    """Return the sentence for an unexpected error."""
    found = _STEP.search(str(error))
    cause = _unwrapped(error)
    if isinstance(cause, _TELLING):
        return one_line(cause)
    if "Channel closed prematurely" in str(error):  # Beam's message about a lost worker
        return str(LostWorkerError())
    where = f" at step '{found['step']}'" if found else ""
    said = _last_line(str(cause)) if _STEP.search(str(cause)) else one_line(reason_of(cause))
    if isinstance(cause, OSError) or "[Errno" in said:
        return f"The run failed{where}: {said}; fix that and run the same command again to continue."
    return f"The run failed{where}: {said}; please report it. GROUNDROWS_TRACEBACK=1 shows the traceback."


def _unwrapped(error: BaseException) -> BaseException:
    """Return the original error behind Beam's copies of it."""
    while _STEP.search(str(error)):
        below = error.__cause__ or error.__context__
        if below is None:
            break
        error = below
    return error


def _last_line(text: str) -> str:
    """Return the message in the last line of a worker's traceback."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return _NAMES.sub("", _STEP.sub("", lines[-1])) if lines else "an error without a text"
