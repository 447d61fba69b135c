"""What a flag is, and how one is declared: at the attribute of the options that it sets.

    max_in_flight: int = flag(64, Flag("Maximum number of calls in flight.", metavar="N", least=1, most=MOST))

Name, type and default are the attribute's. The parser, the checks, `--help`, `docs/flags.md`, the Flex
Templates, the shell completion, the report's replay command and `run.json` all read the declaration, so
nothing else lists flags.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from typing import Any, Literal, TypeVar, get_args, get_type_hints

T = TypeVar("T")

# What a number may be at most: databases and clocks take no more.
MOST = 1_000_000_000
DAY_SECONDS = 86_400


class Only(Enum):
    """Where alone a flag has an effect; elsewhere it is refused."""

    ARCHIVES = "questions from files"
    STREAMS = "questions from Pub/Sub"
    GENERATING = "--mode=generate"
    CHECKING = "--mode=check"
    CHECKS = "--mode=check or --check_grounding"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A flag as a parameter of a Flex Template.

    Attributes:
        kind: As Dataflow names it. A switch is always BOOLEAN, and a flag with choices always ENUM.
        required: Whether the template's form insists on it.
        in_stream: Whether the template for streams has it; by default unless the flag is for archives only.
    """

    kind: str = "TEXT"
    required: bool = False
    in_stream: bool = True


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag of a command.

    `flags_of` fills in `attribute`, `kind`, `default`, `group`, and `name` unless the declaration gives one.

    Attributes:
        help: What it does, in whole sentences.
        name: As written, without the dashes.
        attribute: The attribute that it sets.
        kind: `bool` for a switch, else `int`, `float` or `str`.
        default: The attribute's value when the flag is left out.
        group: The heading it stands under; empty for a command that has few flags.
        metavar: How its value is shown.
        default_said: The default in words, where it depends on something.
        choices: The values that it takes, or none for any.
        least, most: The range of a number; None for no bound.
        pattern: A regular expression that the whole value matches. JavaScript and Java must read it too.
        noun, example: What such a value is, and what one looks like; for the sentence that refuses others.
        empty: What an empty value does: it is kept, or counts as left out, or is refused.
        read: From the checked value to the attribute's; raises `UsageError`.
        repeated: Whether it may be given several times; the attribute is a tuple.
        only: Where alone it has an effect.
        secret: Whether the value may hold a password, which is never shown.
        names_source: Whether it says where questions come from, which a replay knows by itself.
        replayed: Whether the report's replay command repeats it.
        template: The parameter that it is in the Flex Templates, or None to keep it out of them.
        positional: Whether it is given without a name, and then whether it may be left out.
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
        """The default for people, empty when there is nothing to say."""
        if self.default_said or self.default in (None, False, "", ()):
            return self.default_said
        return f"{self.default:g}" if isinstance(self.default, float) else str(self.default)


def flag(default: T, declared: Flag) -> T:
    """Declare the flag that sets an attribute of an options dataclass.

    Args:
        default: The attribute's value when the flag is left out.
        declared: Everything else; name, type and default are filled in by `flags_of`.
    """
    # The dataclass makes a default of the field; the type checker is told of the default alone.
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
    return str  # whatever is made of the text afterwards
