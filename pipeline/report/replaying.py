"""Makes the command that asks failed records again, with the flags of the run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from groundrows.pipeline.options.checks import has_effect
from groundrows.pipeline.options.flag import Flag
from groundrows.pipeline.options.run import replay_flags


def replay_command(
    directory: str, code: str, flags: Mapping[str, Any], *, only_retryable: bool = False
) -> list[str]:
    """Return the words of the command that replays the failures of one code, quoted for a shell.

    Args:
        directory: The run's directory, as the user gave it. The answers are added to it.
        code: The failures' code.
        flags: The entry `flags` of `run.json`, as far as it is known.
        only_retryable: Whether to leave out failures that will fail in the same way again.
    """
    words = ["groundrows", "replay", f"--failures={directory}", f"--codes={code}"]
    if only_retryable:
        words.append("--only_retryable")
    for flag in replay_flags():
        # `run.json` holds flags that have no effect in this run, such as the rate limit of checks when the
        # run makes none. The command would be refused with them.
        if flag.replayed and flag.attribute in flags and has_effect(flag.only, flags):
            words += _words(flag, flags[flag.attribute])
    words += [f"--output={directory}", "--append"]
    return [shlex.quote(word) for word in words]


def _words(flag: Flag, value: Any) -> list[str]:
    """Return the flag as it is written in a command; empty when it has its default.

    `run.json` holds a list where the options hold a tuple.
    """
    if value in (None, flag.default, []):
        return []
    if flag.is_switch:
        return [f"--{flag.name}"]
    if flag.repeated:
        return [f"--{flag.name}={item}" for item in value]
    if isinstance(value, list | tuple):
        value = shlex.join(map(str, value))
    return [f"--{flag.name}={value:g}" if isinstance(value, float) else f"--{flag.name}={value}"]
