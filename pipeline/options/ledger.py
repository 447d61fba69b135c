"""The flags of `groundrows ledger`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from groundrows.pipeline.options.checks import values_of
from groundrows.pipeline.options.flag import Flag, flag, flags_of
from groundrows.pipeline.options.parser import FlagParser
from groundrows.schemas.errors import UsageError

EXAMPLE = """\
examples:
  groundrows ledger out/first
  groundrows ledger --ledger=sqlite:///data/answers.sqlite
  groundrows ledger redis://127.0.0.1:6379/0 --export=responses.avro
"""


@dataclass(frozen=True, slots=True)
class LedgerOptions:
    """The values of the flags.

    Attributes:
        which: A ledger's URI, the path of a SQLite ledger, or the directory of a run that keeps one.
        named: The same, given as `--ledger`. Exactly one of the two is given.
        export: The Avro file to export to, or None.
        as_json: Whether to print JSON.
    """

    which: str = flag(
        "",
        Flag(
            "The --output of a run, the path of a SQLite ledger, or a URI as for --ledger.",
            metavar="LEDGER",
            positional="optional",
        ),
    )
    named: str = flag(
        "",
        Flag(
            "Another way to name the ledger: sqlite:///PATH, redis[s]://HOST:PORT/DB, a path, or a run's "
            "directory.",
            name="ledger",
            metavar="URI",
        ),
    )
    export: str | None = flag(
        None, Flag("Write the whole ledger to this Avro file, local or gs://.", metavar="FILE")
    )
    as_json: bool = flag(False, Flag("Print one JSON object instead of text.", name="json"))

    @property
    def ledger(self) -> str:
        """The ledger, as the user named it."""
        return self.which or self.named


def ledger_parser() -> FlagParser:
    """The parser of the command's flags."""
    return FlagParser(
        prog="groundrows ledger",
        description="Show what a ledger holds, or export it. The ledger itself is not changed.",
        epilog=EXAMPLE,
        flags=flags_of(LedgerOptions),
    )


def parse_ledger(argv: Sequence[str]) -> LedgerOptions:
    """Check the flags.

    Raises:
        UsageError: One sentence about the first thing that is wrong.
    """
    options = LedgerOptions(**values_of(flags_of(LedgerOptions), ledger_parser().parse_args(list(argv))))
    if not options.ledger:
        raise UsageError(
            "Nothing says which ledger to show: name the --output of a run, or give --ledger=URI."
        )
    if options.which and options.named:
        raise UsageError("The ledger is named twice, as LEDGER and as --ledger: give one of them.")
    return options
