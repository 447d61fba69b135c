"""The flags of `groundrows ledger`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from groundrows.pipeline.options.flags import FlagParser
from groundrows.schemas.errors import UsageError

EXAMPLE = """\
examples:
  groundrows ledger sqlite:///data/answers.sqlite
  groundrows ledger redis://127.0.0.1:6379/0 --export=responses.avro
"""


@dataclass(frozen=True, slots=True)
class LedgerOptions:
    """Which ledger to look at, where to export it to (or None), and whether to print JSON."""

    uri: str
    export: str | None
    as_json: bool


def ledger_parser() -> FlagParser:
    """The parser of the command's flags."""
    parser = FlagParser(
        prog="groundrows ledger",
        description="Show what a ledger holds, or export it. The ledger itself stays as it is.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("uri", metavar="URI", help="sqlite:///PATH or redis://HOST:PORT/DB")
    parser.add_argument("--export", metavar="FILE", help="write all of it to an Avro file; local or gs://")
    parser.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object")
    return parser


def parse_ledger(argv: Sequence[str]) -> LedgerOptions:
    """Check the flags.

    Raises:
        UsageError: One sentence about the first thing that is wrong.
    """
    flags = ledger_parser().parse_args(list(argv))
    if not flags.uri.startswith(("sqlite:///", "redis://")):
        raise UsageError(
            f"The URI {flags.uri} names no ledger: write sqlite:///PATH or redis://HOST:PORT/DB."
        )
    return LedgerOptions(flags.uri, flags.export, flags.as_json)
