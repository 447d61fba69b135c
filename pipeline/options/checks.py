"""Checks parsed flags: ranges, patterns, and whether a flag has an effect in the run."""

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
    """Return the values of the flags' attributes: the given value, checked, or the default.

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
        raise UsageError(f"{shown(flag, given)} is not a valid {flag.noun}: write {flag.example}.")
    if flag.read is not None and isinstance(given, str):
        return flag.read(given)
    return given


def _number(flag: Flag, given: float) -> float:
    least = -math.inf if flag.least is None else flag.least
    most = math.inf if flag.most is None else flag.most
    if least <= given <= most and math.isfinite(given):
        return given
    kind = "whole number" if flag.kind is int else "number"
    said = f"from {_plain(least)} to {_plain(most)}" if flag.most is not None else f"from {_plain(least)} up"
    raise UsageError(f"--{flag.name}={_plain(given)} makes no sense: give a {kind} {said}.")


def _plain(number: float) -> str:
    return f"{number:g}" if isinstance(number, float) else str(number)


def usage_error(error: ValueError) -> UsageError:
    """Turn the error of a setting into a sentence about its flag."""
    said = str(error).rstrip(".")
    return UsageError(f"{said[:1].upper()}{said[1:]}.")


def shown(flag: Flag, given: object) -> str:
    """Return `--name=value` without passwords."""
    return f"--{flag.name}={without_password(str(given)) if flag.secret else given}"


def has_effect(only: Only | None, values: Mapping[str, Any]) -> bool:
    """Whether a flag that works only in some runs works in the run with these values of attributes."""
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
    Only.ARCHIVES: "is for questions from files, and this run reads Pub/Sub: leave it out.",
    Only.STREAMS: (
        "is for questions from Pub/Sub, and this run reads files: leave it out, or give --input_subscription."
    ),
    Only.GENERATING: "is for generating answers, and --mode=check generates none: leave it out.",
    Only.CHECKING: "has an effect only with --mode=check: give that, too, or leave it out.",
    Only.CHECKS: "has an effect only on checks: give --check_grounding, too, or leave it out.",
}


def refuse_without_effect(flags: Iterable[Flag], values: Mapping[str, Any]) -> None:
    """Refuse a flag that is given but has no effect in the run.

    Raises:
        UsageError: A flag has no effect.
    """
    for flag in flags:
        if (
            flag.only is not None
            and values[flag.attribute] != flag.default
            and not has_effect(flag.only, values)
        ):
            raise UsageError(f"--{flag.name} {_WHY[flag.only]}")
