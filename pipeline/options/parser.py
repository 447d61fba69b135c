"""Makes a command-line parser from declared flags. Its errors suggest the flag that was probably meant."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from groundrows.pipeline.options.flag import Flag
from groundrows.schemas.errors import UsageError

# The similarity, from 0 to 1, from which one name is suggested for another. It is high because Beam has about
# 170 flags, and many words are a little similar to one of them.
_ALIKE = 0.8
_ALIKE_RUNNERS = 0.85
# A shorter word is not searched for within longer names.
_SHORTEST_WORD = 4


class FlagParser(argparse.ArgumentParser):
    """A parser of declared flags that raises `UsageError` instead of printing its usage and exiting.

    Attributes:
        flags: The declared flags.
    """

    def __init__(self, *, flags: Sequence[Flag] = (), **settings: Any) -> None:
        super().__init__(
            **{"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False, **settings}
        )
        self.flags = tuple(flags)
        groups: dict[str, argparse._ArgumentGroup] = {}
        for flag in self.flags:
            if flag.group and flag.group not in groups:
                groups[flag.group] = self.add_argument_group(flag.group)
            _add(groups.get(flag.group, self), flag)

    def error(self, message: str) -> NoReturn:
        """Raise the error as one sentence."""
        raise UsageError(f"{message[:1].upper()}{message[1:]}; `{self.prog} --help` lists the flags.")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse, but refuse `--flag=--`, which Python's parser turns into a list for every flag."""
        for text in args or ():
            if text.startswith("--") and text.endswith("=--"):
                self.error(f"argument {text[:-3]}: the value -- makes no sense")
        return super().parse_known_args(args, namespace)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse. The error about an unknown flag names the most similar flag."""
        flags, stray = self.parse_known_args(args, namespace)
        if stray:
            raise stray_flag(self, stray[0])
        return flags


def _add(group: argparse._ActionsContainer, flag: Flag) -> None:
    """Add a flag to a parser. The parsed value of a flag that is not given is None, or False for a switch."""
    said = help_with_default(flag).replace("%", "%%")
    if flag.positional != "no":
        group.add_argument(
            flag.name,
            metavar=flag.metavar,
            nargs="?" if flag.positional == "optional" else None,
            help=said,
        )
        return
    names = [*([flag.short] if flag.short else ()), f"--{flag.name}"]
    if flag.is_switch:
        group.add_argument(*names, dest=flag.name, action="store_true", help=said)
        return
    group.add_argument(
        *names,
        dest=flag.name,
        action="append" if flag.repeated else "store",
        type=flag.kind,
        default=None if flag.repeated or flag.default in ("", ()) else flag.default,
        choices=flag.choices or None,
        metavar=flag.metavar,
        help=said,
    )


def help_with_default(flag: Flag) -> str:
    """Return the help text, followed by the default if there is one."""
    return f"{flag.help} Default: {flag.shown_default}." if flag.shown_default else flag.help


def stray_flag(
    parser: argparse.ArgumentParser, text: str, runners: argparse.ArgumentParser | None = None
) -> UsageError:
    """Return the error about a flag or value that no parser knows. It names the flag that was meant."""
    name = text.split("=")[0]
    if not name.startswith("-") or name == "--":
        return UsageError(f"The value {text!r} belongs to no flag: write --flag=value.")
    meant = _meant(name, _names(parser), _names(runners) if runners else ())
    hint = f"did you mean {meant}?" if meant else f"`{parser.prog} --help` lists the flags."
    return UsageError(f"There is no flag {name}: {hint}")


def _names(parser: argparse.ArgumentParser) -> list[str]:
    return sorted(name for action in parser._actions for name in action.option_strings if name[:2] == "--")


def _meant(name: str, ours: Iterable[str], runners: Iterable[str]) -> str | None:
    """Return the flag that was meant, or None. One of our flags goes before one of the runner's."""
    slip = name.lstrip("-").replace("-", "_")

    def likeness(flag: str) -> float:
        return difflib.SequenceMatcher(None, slip, flag[2:]).ratio()

    nearest = max(ours, key=likeness, default="")
    if likeness(nearest) >= _ALIKE:
        return nearest
    whole = [flag for flag in ours if len(slip) >= _SHORTEST_WORD and slip in flag[2:].split("_")]
    if len(whole) == 1:
        return whole[0]
    nearest = max(runners, key=likeness, default="")
    return nearest if likeness(nearest) >= _ALIKE_RUNNERS else None
