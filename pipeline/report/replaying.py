"""The command that asks failed records again, with the flags that the run had."""

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
    """The words, fit for a shell, of the command that replays the failures of one code into their directory.

    Args:
        directory: The run's directory as given.
        code: The failures' code.
        flags: `flags` of `run.json`, as far as they are known.
        only_retryable: Whether to leave out those that fail the same way again.
    """
    words = ["groundrows", "replay", f"--failures={directory}", f"--codes={code}"]
    if only_retryable:
        words.append("--only_retryable")
    for flag in replay_flags():
        # A run has a pace for checks, whether it makes any or not: such a flag would be refused.
        if flag.replayed and flag.attribute in flags and has_effect(flag.only, flags):
            words += _words(flag, flags[flag.attribute])
    words += [f"--output={directory}", "--append"]
    return [shlex.quote(word) for word in words]


def _words(flag: Flag, value: Any) -> list[str]:
    """The flag as written; nothing when it has its default. `run.json` has a list where we have a tuple."""
    if value in (None, flag.default, []):
        return []
    if flag.is_switch:
        return [f"--{flag.name}"]
    if flag.repeated:
        return [f"--{flag.name}={item}" for item in value]
    if isinstance(value, list | tuple):
        value = shlex.join(map(str, value))
    return [f"--{flag.name}={value:g}" if isinstance(value, float) else f"--{flag.name}={value}"]
