"""What a run says once its work is done: it can't fail any more because nobody hears it."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO


def say(text: str, stream: TextIO | None = None) -> None:
    """Print a text to stdout, or to `stream`; on a full disk, say so on stderr and go on.

    For what comes after the work: a run whose rows are written has not failed because its summary, which is
    in `run.json` too, could not be printed.
    """
    stream = stream or sys.stdout
    try:
        print(text, file=stream, flush=True)
    except OSError as error:
        drop(stream)
        if stream is not sys.stderr and not isinstance(error, BrokenPipeError):
            with suppress(OSError):
                print(f"The summary could not be printed: {error.strerror or error}.", file=sys.stderr)


def drop(stream: TextIO) -> None:
    """Let go of what a stream still holds and of all that follows, so that its end does not fail again."""
    with suppress(OSError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
