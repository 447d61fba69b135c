"""The call log: one JSON line a call, written as the call arrives."""

from __future__ import annotations

import json
import os
from pathlib import Path

from groundrows.pipeline.emulator.calls import Origin


class CallLog:
    """An append-only file of JSON lines.

    Every line is one write to the file itself: a reader sees it at once, and killing this process loses
    no line that was logged. Text beyond ASCII is escaped, so that no character in a prompt can be taken
    for a line break.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        except OSError as error:
            raise ValueError(f"--call_log={path} cannot be written: {error.strerror}.") from None

    def write(
        self,
        *,
        t: float,
        origin: Origin,
        prompt: str,
        turn: int,
        code: str,
        fault: str | None,
        user_context: object = None,
        tokens: int = 0,
    ) -> None:
        """Append one call.

        Args:
            t: When it arrived, in seconds since the epoch.
            origin: What was called, and how.
            prompt: The last user turn, or the answer that is to be checked.
            turn: How many user turns the request holds; 0 for a check.
            code: The status it will be answered with, or `HANG` or `DISCONNECT`.
            fault: The fault's name, only logged when there is one: some faults are answered with `OK`.
            user_context: What was said of the user, over REST; only logged when something was.
            tokens: What its answer takes; only logged when it has one that reports them.
        """
        line: dict[str, object] = {
            "t": t,
            "method": origin.method,
            "prompt": prompt,
            "turn": turn,
            "code": code,
            "transport": origin.transport,
            "version": origin.version,
        }
        if fault is not None:
            line["fault"] = fault
        if user_context is not None:
            line["user_context"] = user_context
        if tokens:
            line["tokens"] = tokens
        data = memoryview(json.dumps(line).encode() + b"\n")
        while data:
            data = data[os.write(self._file, data) :]

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
