"""The flags of `groundrows report`."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass

from groundrows.pipeline.options.flags import FlagParser
from groundrows.schemas.errors import UsageError

PAGE = "report.html"
MOST_ANSWERS = 1_000

EXAMPLE = """\
examples:
  groundrows report out/first
  groundrows report out/second out/first -o comparison.html --price_per_1000_requests=2.50

The page holds the questions and answers it shows, and asks nothing of the network. Show it to whom you would
show the run itself.
"""


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """A report as asked for.

    Attributes:
        directory: The `--output` of a run, local or `gs://`, without a slash at its end.
        earlier: That of the run it is compared with, or None.
        page: Where the page goes, local or `gs://`.
        answers: How many of the answers that most need a look are shown.
        price_per_1000_requests: In any currency, or None.
    """

    directory: str
    earlier: str | None
    page: str
    answers: int
    price_per_1000_requests: float | None


def report_parser() -> FlagParser:
    """The parser of the command's flags."""
    parser = FlagParser(
        prog="groundrows report",
        description="Make one web page of a run: its figures, plots, failures, and the answers that most\n"
        "need a look. The run's directory is only read.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("directory", metavar="OUTPUT_DIR", help="the --output of a run; local or gs://")
    parser.add_argument(
        "earlier",
        metavar="OTHER_DIR",
        nargs="?",
        help="an earlier run to compare it with, question by question",
    )
    parser.add_argument(
        "-o",
        "--output",
        dest="page",
        default=PAGE,
        metavar="FILE",
        help=f"the page, replaced if it is there; local or gs:// (default: {PAGE} where you are)",
    )
    parser.add_argument(
        "--answers", type=int, default=50, metavar="N", help="how many answers to show (default: 50)"
    )
    parser.add_argument("--price_per_1000_requests", type=float, metavar="PRICE", help="in any currency")
    return parser


def parse_report(argv: Sequence[str]) -> ReportOptions:
    """Check the flags.

    Raises:
        UsageError: One sentence about the first thing that is wrong.
    """
    flags = report_parser().parse_args(list(argv))
    if not flags.page.lower().endswith((".html", ".htm")):
        raise UsageError(f"--output={flags.page} is no name of a web page: end it in .html.")
    if not 0 <= flags.answers <= MOST_ANSWERS:
        raise UsageError(
            f"--answers={flags.answers} makes no sense: give a whole number from 0 to {MOST_ANSWERS:,}."
        )
    price = flags.price_per_1000_requests
    if price is not None and not (price >= 0 and math.isfinite(price)):
        raise UsageError(f"--price_per_1000_requests={price:g} is no price: give a number from 0 on.")
    return ReportOptions(
        directory=_plain(flags.directory),
        earlier=None if flags.earlier is None else _plain(flags.earlier),
        page=flags.page,
        answers=flags.answers,
        price_per_1000_requests=price,
    )


def _plain(directory: str) -> str:
    return directory.rstrip("/") or "/"
