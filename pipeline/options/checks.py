"""From parsed flags to values: ranges, patterns, and whether a flag has an effect where it is given."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from groundrows.pipeline.options.flag import Flag, Only
from groundrows.pipeline.options.source import source_kind
from groundrows.pipeline.storage.uris import without_password
from groundrows.schemas.errors import UsageError


def values_of(flags: Iterable[Flag], given: argparse.Namespace) -> dict[str, Any]:
    """The attributes' values: what was given, checked, and the default of what was not.

    Raises:
        UsageError: One sentence about the first value that is wrong.
    """
    return {flag.attribute: _value(flag, getattr(given, flag.name, None)) for flag in flags}


def _value(flag: Flag, given: Any) -> Any:
    if given is None or (given == "" and flag.empty == "absent"):
        return flag.default
    if flag.repeated:
        return tuple(given)
    if flag.kind in (int, float):
        return _number(flag, given)
    if given == "" and flag.empty == "refused":
        raise UsageError(f"--{flag.name} is empty: give it a value, or leave it out.")
    if flag.pattern is not None and not re.fullmatch(flag.pattern, given):
        raise UsageError(f"{shown(flag, given)} is no {flag.noun}: write {flag.example}.")
    if flag.read is not None and isinstance(given, str):
        return flag.read(given)
    return given


def _number(flag: Flag, given: float) -> float:
    least = -math.inf if flag.least is None else flag.least
    most = math.inf if flag.most is None else flag.most
    if least <= given <= most and math.isfinite(given):  # a NaN is in no range
        return given
    kind = "whole number" if flag.kind is int else "number"
    said = f"from {_plain(least)} to {_plain(most)}" if flag.most is not None else f"from {_plain(least)} up"
    raise UsageError(f"--{flag.name}={_plain(given)} makes no sense: give a {kind} {said}.")


def _plain(number: float) -> str:
    return f"{number:g}" if isinstance(number, float) else str(number)


def usage_error(error: ValueError) -> UsageError:
    """An error of a setting as one of the flag that gave it: a sentence of its own."""
    said = str(error).rstrip(".")
    return UsageError(f"{said[:1].upper()}{said[1:]}.")


def shown(flag: Flag, given: object) -> str:
    """`--name=value` as it may be shown."""
    return f"--{flag.name}={without_password(str(given)) if flag.secret else given}"


def has_effect(only: Only | None, values: Mapping[str, Any]) -> bool:
    """Whether a flag that works only in some runs does so in the run that has these values of attributes."""
    kind = source_kind(values.get)
    is_stream = kind is not None and not kind.bounded
    is_check = values.get("mode") == "check"
    return {
        None: True,
        Only.ARCHIVES: not is_stream,
        Only.STREAMS: is_stream,
        Only.GENERATING: not is_check,
        Only.CHECKING: is_check,
        Only.CHECKS: is_check or bool(values.get("check_grounding")),
    }[only]


_WHY = {
    Only.ARCHIVES: "is for questions from files, and these come from Pub/Sub: leave it out.",
    Only.STREAMS: (
        "is for questions from Pub/Sub, and these are in files: leave it out, or give --input_subscription."
    ),
    Only.GENERATING: "is for generating, and --mode=check generates nothing: leave it out.",
    Only.CHECKING: "is for --mode=check: give that too, or leave it out.",
    Only.CHECKS: "is for checks: give --check_grounding too, or leave it out.",
}


def refuse_without_effect(flags: Iterable[Flag], values: Mapping[str, Any]) -> None:
    """Refuse what differs from its default but would do nothing.

    Raises:
        UsageError: It names the flag and why it does nothing.
    """
    for flag in flags:
        if (
            flag.only is not None
            and values[flag.attribute] != flag.default
            and not has_effect(flag.only, values)
        ):
            raise UsageError(f"--{flag.name} {_WHY[flag.only]}")
