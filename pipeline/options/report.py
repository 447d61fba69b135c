"""The flags of `groundrows report`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from groundrows.pipeline.options.checks import values_of
from groundrows.pipeline.options.directory import run_directory, without_slash
from groundrows.pipeline.options.flag import Flag, flag, flags_of
from groundrows.pipeline.options.parser import FlagParser
from groundrows.pipeline.options.prices import price_per_1000_requests
from groundrows.pipeline.storage.uris import is_remote
from groundrows.schemas.errors import UsageError

PAGE = "report.html"
MOST_ANSWERS = 1_000

EXAMPLE = """\
examples:
  groundrows report out/first
  groundrows report out/second out/first -o comparison.html --price_per_1000_requests=2.50

The page holds the questions and answers that it shows, and loads nothing from the network. Show it only to
people who may see the run itself.
"""


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """The values of the flags.

    Attributes:
        directory: The `--output` of a run, local or `gs://`, without a slash at its end.
        earlier: The `--output` of the run to compare with, or None.
        page: Where the page is written, local or `gs://`.
        answers: The number of answers to show, those that most need a look.
        price_per_1000_requests: The price of 1,000 calls in any currency, or None.
        open_page: Whether a browser opens the page.
    """

    directory: str = run_directory()
    earlier: str | None = flag(
        None,
        Flag(
            "The --output of an earlier run, to compare it with question by question.",
            metavar="OTHER_DIR",
            positional="optional",
            read=without_slash,
        ),
    )
    page: str = flag(
        PAGE,
        Flag(
            "The page, local or gs://. An existing file is replaced.",
            name="output",
            short="-o",
            metavar="FILE",
            default_said=f"{PAGE} in the current directory",
            pattern=r"[\s\S]*\.[Hh][Tt][Mm][Ll]?",
            noun="name of a web page",
            example="a name that ends in .html",
        ),
    )
    answers: int = flag(50, Flag("Number of answers to show.", metavar="N", least=0, most=MOST_ANSWERS))
    price_per_1000_requests: float | None = price_per_1000_requests()
    open_page: bool = flag(False, Flag("Open the page in a browser.", name="open"))


def report_parser() -> FlagParser:
    """The parser of the command's flags."""
    return FlagParser(
        prog="groundrows report",
        description="Make one web page of a run: its figures, plots, failures, and the answers that most\n"
        "need a look. The run's directory is only read.",
        epilog=EXAMPLE,
        flags=flags_of(ReportOptions),
    )


def parse_report(argv: Sequence[str]) -> ReportOptions:
    """Check the flags.

    Raises:
        UsageError: One sentence about the first thing that is wrong.
    """
    options = ReportOptions(**values_of(flags_of(ReportOptions), report_parser().parse_args(list(argv))))
    if options.open_page and is_remote(options.page):
        raise UsageError(f"--open can't open {options.page}: name a local page with -o, or leave --open out.")
    return options
