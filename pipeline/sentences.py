"""What ended a run, as one sentence: what failed, where, and what to do."""

from __future__ import annotations

import re

from groundrows.schemas.errors import LedgerError, LostWorkerError, SetupError
from groundrows.schemas.wording import one_line, reason_of

# Beam copies the error it passes on and writes the step into the copy's text.
_STEP = re.compile(r" ?\[while running '(?P<step>[^']*?)(?:-ptransform-\d+)?'\]")
# What wraps an error in a worker's text; before the system's own words its name says nothing either.
_NAMES = re.compile(r"^(?:RuntimeError: )*(?:\w+: (?=\[Errno))?")
_TELLING = (LedgerError, SetupError)


def sentence_of(error: BaseException) -> str:
    """The sentence for an error that nobody expected."""
    found = _STEP.search(str(error))
    cause = _unwrapped(error)
    if isinstance(cause, _TELLING):
        return one_line(cause)
    if "Channel closed prematurely" in str(error):  # as Beam says it, in this mode and others
        return str(LostWorkerError())
    where = f" at step '{found['step']}'" if found else ""
    said = _last_line(str(cause)) if _STEP.search(str(cause)) else one_line(reason_of(cause))
    if isinstance(cause, OSError) or "[Errno" in said:
        return f"The run failed{where}: {said}; see to that and run the same command again to go on."
    return f"The run failed{where}: {said}; GROUNDROWS_TRACEBACK=1 shows where, please report it."


def _unwrapped(error: BaseException) -> BaseException:
    """The error below Beam's copies of it."""
    while _STEP.search(str(error)):
        below = error.__cause__ or error.__context__
        if below is None:
            break
        error = below
    return error


def _last_line(text: str) -> str:
    """What is said at the end of the text of a worker's traceback."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return _NAMES.sub("", _STEP.sub("", lines[-1])) if lines else "an error without a text"
