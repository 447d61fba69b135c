"""The flags of `groundrows ledger`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from groundrows.pipeline.options.checks import values_of
from groundrows.pipeline.options.flag import Flag, flag, flags_of
from groundrows.pipeline.options.parser import FlagParser
from groundrows.schemas.errors import UsageError
from groundrows.transforms.generate.settings import REDIS

EXAMPLE = """\
examples:
  groundrows ledger sqlite:///data/answers.sqlite
  groundrows ledger redis://127.0.0.1:6379/0 --export=responses.avro
"""


@dataclass(frozen=True, slots=True)
class LedgerOptions:
    """Which ledger to look at, where to export it to (or None), and whether to print JSON."""

    uri: str = flag(
        "",
        Flag("The ledger: sqlite:///PATH or redis[s]://HOST:PORT/DB.", metavar="URI", positional="required"),
    )
    export: str | None = flag(
        None, Flag("Write all of it to this Avro file, local or gs://.", metavar="FILE")
    )
    as_json: bool = flag(False, Flag("Print one JSON object instead of text.", name="json"))


def ledger_parser() -> FlagParser:
    """The parser of the command's flags."""
    return FlagParser(
        prog="groundrows ledger",
        description="Show what a ledger holds, or export it. The ledger itself stays as it is.",
        epilog=EXAMPLE,
        flags=flags_of(LedgerOptions),
    )


def parse_ledger(argv: Sequence[str]) -> LedgerOptions:
    """Check the flags.

    Raises:
        UsageError: One sentence about the first thing that is wrong.
    """
    options = LedgerOptions(**values_of(flags_of(LedgerOptions), ledger_parser().parse_args(list(argv))))
    if not options.uri.startswith(("sqlite:///", *REDIS)):
        raise UsageError(
            f"The URI {options.uri} names no ledger: write sqlite:///PATH or redis://HOST:PORT/DB."
        )
    return options
