"""The command that asks failed records again, with the flags that the run had."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from groundrows.pipeline.options.replay import replay_parser

# A replay's own flags, one that matters on a terminal only, the ledger, which a replay finds by itself, and
# those of streams, which a replay is not.
_OWN = {
    "failures",
    "codes",
    "only_retryable",
    "max_generations",
    "output",
    "append",
    "overwrite",
    "quiet",
    "ledger",
    "id_attribute",
    "timestamp_attribute",
    "stop_when_idle",
    "window_seconds",
    "output_shards",
}
# A run has a pace for checks, whether it makes any or not.
_OF_CHECKS = {"check_requests_per_minute", "citation_threshold"}


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
    own = _OWN if flags.get("check_grounding") or flags.get("mode") == "check" else _OWN | _OF_CHECKS
    for action in replay_parser()._actions:
        name = action.dest
        if name in own or name not in flags or flags[name] in (None, action.default, [], ()):
            continue
        words += _flag(f"--{name}", flags[name], repeated=isinstance(action.default, list))
    words += [f"--output={directory}", "--append"]
    return [shlex.quote(word) for word in words]


def _flag(name: str, value: Any, *, repeated: bool) -> list[str]:
    if value is True:
        return [name]
    if isinstance(value, list):
        each = [str(item) for item in value]
        return [f"{name}={item}" for item in each] if repeated else [f"{name}={shlex.join(each)}"]
    return [f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"]
