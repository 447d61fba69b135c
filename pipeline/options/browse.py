"""The flags of `groundrows browse`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from groundrows.pipeline.options.checks import values_of
from groundrows.pipeline.options.flag import Flag, flag, flags_of
from groundrows.pipeline.options.parser import FlagParser

EXAMPLE = """\
examples:
  groundrows browse out/first
  groundrows browse out/second out/first --port=8000 --no_open

It serves on this machine alone, until Ctrl-C. The first time it makes an index, which it keeps in the run's
directory; verdicts are kept there, too.
"""


def _directory(text: str) -> str:
    return text.rstrip("/") or "/"


@dataclass(frozen=True, slots=True)
class BrowseOptions:
    """What is to be read.

    Attributes:
        directory: The `--output` of a run, local or `gs://`, without a slash at its end.
        earlier: That of the run it is compared with, or None.
        port: The port on 127.0.0.1; 0 takes a free one.
        no_open: Whether no browser is opened.
    """

    directory: str = flag(
        "",
        Flag(
            "The --output of a run, local or gs://.",
            metavar="OUTPUT_DIR",
            positional="required",
            read=_directory,
        ),
    )
    earlier: str | None = flag(
        None,
        Flag(
            "The --output of an earlier run, to read both side by side.",
            metavar="OTHER_DIR",
            positional="optional",
            read=_directory,
        ),
    )
    port: int = flag(
        0,
        Flag("The port on 127.0.0.1.", metavar="PORT", least=0, most=65_535, default_said="one that is free"),
    )
    no_open: bool = flag(False, Flag("Do not open the page in a browser."))


def browse_parser() -> FlagParser:
    """The parser of the command's flags."""
    return FlagParser(
        prog="groundrows browse",
        description="Read all answers of a run in a browser: search, filter, sort, compare with another\n"
        "run, and say which are right.",
        epilog=EXAMPLE,
        flags=flags_of(BrowseOptions),
    )


def parse_browse(argv: Sequence[str]) -> BrowseOptions:
    """Check the flags.

    Raises:
        UsageError: One sentence about the first thing that is wrong.
    """
    return BrowseOptions(**values_of(flags_of(BrowseOptions), browse_parser().parse_args(list(argv))))
