"""Flags, and how one is declared: at the attribute that it sets in an options dataclass.

    max_in_flight: int = flag(64, Flag("Maximum number of calls in flight.", metavar="N", least=1, most=MOST))

The attribute gives the flag its name, type and default. The parser, the checks, `--help`, `docs/flags.md`,
the Flex Templates, the shell completion, the report's replay command and `run.json` all read the declaration.
So flags are not listed in any other place.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from typing import Any, Literal, TypeVar, get_args, get_type_hints

T = TypeVar("T")

# The default upper bound of numbers. Larger ones could overflow in databases and clocks.
MOST = 1_000_000_000
DAY_SECONDS = 86_400


class Only(Enum):
    """The runs in which a flag has an effect. In other runs the flag is refused."""

    ARCHIVES = "questions from files"
    STREAMS = "questions from Pub/Sub"
    GENERATING = "--mode=generate"
    CHECKING = "--mode=check"
    CHECKS = "--mode=check or --check_grounding"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A flag as a parameter of a Flex Template.

    Attributes:
        kind: Dataflow's name of the type. It is always BOOLEAN for a switch and ENUM for a flag with choices.
        required: Whether the template requires it.
        in_stream: Whether the template for streams has it. The default is yes, except for flags that are for
            archives only.
        choices: The values that a job may have, where these are not all of the flag's.
    """

    kind: str = "TEXT"
    required: bool = False
    in_stream: bool = True
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag of a command.

    `flags_of` fills in `attribute`, `kind`, `default`, `group`, and `name` unless the declaration gives one.

    Attributes:
        help: What it does, in whole sentences.
        name: Its name, without the dashes.
        attribute: The attribute that it sets.
        kind: `bool` for a switch, else `int`, `float` or `str`.
        default: The attribute's value when the flag is left out.
        group: Its heading in the help; empty for a command that has few flags.
        metavar: The placeholder of its value in the help.
        default_said: A description of the default, when it depends on something.
        choices: The allowed values, or none when every value is allowed.
        least, most: The range of a number; None for no bound.
        pattern: A regular expression for the whole value. It must also be valid in JavaScript and Java.
        noun, example: What the value is, and an example of it. The error about a wrong value says both.
        empty: What to do with an empty value: keep it, treat it as left out, or refuse it.
        read: Converts the checked value to the attribute's value; raises `UsageError`.
        repeated: Whether it may be given several times. The attribute is then a tuple.
        only: The runs in which it has an effect; None for all.
        secret: Whether the value may hold a password, which is never shown.
        names_source: Whether it says where questions come from. A replay has no such flag.
        replayed: Whether the report's replay command repeats it.
        template: Its parameter in the Flex Templates, or None when they don't have it.
        positional: Whether it is given without a name, and whether it is required or optional then.
        short: A second name of one letter.
    """

    help: str
    name: str = ""
    attribute: str = ""
    kind: type = str
    default: Any = None
    group: str = ""
    metavar: str | None = None
    default_said: str = ""
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    pattern: str | None = None
    noun: str = ""
    example: str = ""
    empty: Literal["kept", "absent", "refused"] = "kept"
    read: Callable[[str], Any] | None = None
    repeated: bool = False
    only: Only | None = None
    secret: bool = False
    names_source: bool = False
    replayed: bool = True
    template: Parameter | None = Parameter()
    positional: Literal["no", "required", "optional"] = "no"
    short: str = ""

    @property
    def is_switch(self) -> bool:
        """Whether it takes no value."""
        return self.kind is bool

    @property
    def shown_default(self) -> str:
        """The default in words; empty when there is none."""
        if self.default_said or self.default in (None, False, "", ()):
            return self.default_said
        return f"{self.default:g}" if isinstance(self.default, float) else str(self.default)


def flag(default: T, declared: Flag) -> T:
    """Declare the flag that sets an attribute of an options dataclass.

    Args:
        default: The attribute's value when the flag is left out.
        declared: Everything else; name, type and default are filled in by `flags_of`.
    """
    # The return type is the attribute's type, so that the type checker accepts the assignment.
    made: Any = field(default=default, metadata={"flag": declared})
    return made  # type: ignore[no-any-return]


@cache
def flags_of(options: type) -> tuple[Flag, ...]:
    """The flags that an options dataclass and its bases declare, in the order of its fields.

    The heading of a flag is the `GROUP` of the class that declares it.
    """
    hints = get_type_hints(options)
    flags = []
    for each in dataclasses.fields(options):
        if "flag" in each.metadata:
            declared: Flag = each.metadata["flag"]
            room = next(
                kind for kind in options.__mro__ if each.name in vars(kind).get("__annotations__", ())
            )
            flags.append(
                dataclasses.replace(
                    declared,
                    name=declared.name or each.name,
                    attribute=each.name,
                    kind=_kind(hints[each.name]),
                    default=each.default,
                    group=getattr(room, "GROUP", ""),
                )
            )
    return tuple(flags)


def _kind(annotation: Any) -> type:
    for kind in (bool, int, float):
        if kind in (annotation, *get_args(annotation)):
            return kind
    return str  # `Flag.read` may convert the text
