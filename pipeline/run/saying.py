"""Prints what a run says after its work. A failure to print does not fail the run."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO


def say(text: str, stream: TextIO | None = None) -> None:
    """Print a text to stdout, or to `stream`. When that fails, say so on stderr and go on.

    This is for text after the work. The rows and `run.json` are written by then, so a full disk or a closed
    pipe behind stdout must not make the run fail.
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
    """Discard what a stream still buffers and all later writes, so that closing it can't fail again."""
    with suppress(OSError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
