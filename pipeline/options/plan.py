"""The flags of `groundrows plan`: those of a run, and prices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from groundrows.pipeline.options.checks import values_of
from groundrows.pipeline.options.flag import MOST, Flag, flag, flags_of
from groundrows.pipeline.options.parser import FlagParser
from groundrows.pipeline.options.prices import price, price_per_1000_requests
from groundrows.pipeline.options.run import RunOptions, checked_options, parse_flags, run_flags
from groundrows.pipeline.options.source import check_one_source
from groundrows.schemas.errors import UsageError

EXAMPLE = """\
example:
  groundrows plan --service=emulator --input=questions.jsonl --price_per_1000_requests=2.50
"""


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The values of the flags.

    Attributes:
        run: The run to plan. Its `output` is empty when `--output` was not given.
        price_per_1000_requests: The price of 1,000 calls in any currency, or None.
        price_per_million_tokens: The price of a million tokens of request text in that currency, or None.
        expected_answer_tokens: Number of tokens per answer, thoughts included.
        expected_searches: Number of searches per call that may search.
        as_json: Print one JSON object instead of text.
        latency_given: Whether the command line says how long a call is expected to take.
    """

    GROUP: ClassVar[str] = "what to estimate"

    run: RunOptions
    price_per_1000_requests: float | None = price_per_1000_requests()
    price_per_million_tokens: float | None = price(
        "a million tokens of request text; the number of tokens is estimated"
    )
    expected_answer_tokens: int = flag(
        500,
        Flag(
            "How many tokens an answer is expected to take, thoughts included. Only for a service that "
            "reports tokens (Gemini).",
            metavar="N",
            least=1,
            most=MOST,
        ),
    )
    expected_searches: float = flag(
        1.0,
        Flag("How many searches a call that may search is expected to make.", metavar="N", least=0, most=100),
    )
    as_json: bool = flag(False, Flag("Print one JSON object instead of text.", name="json"))
    latency_given: bool = False


def plan_parser() -> FlagParser:
    """The parser of a plan's flags."""
    return FlagParser(
        prog="groundrows plan",
        description="Read an archive and, without making a call, estimate what a run with the same flags\n"
        "would do and cost. --output may be left out.",
        epilog=EXAMPLE,
        flags=run_flags() + flags_of(PlanOptions),
    )


def parse_plan(argv: Sequence[str]) -> PlanOptions:
    """Check a plan's flags.

    Raises:
        UsageError: One sentence about the first thing that is wrong.
    """
    given, runner_flags = parse_flags(plan_parser(), argv)
    check_one_source(given)
    run = checked_options(run_flags(), given, runner_flags, needs_output=False)
    if run.is_stream:
        raise UsageError("A plan reads archives, which can be read again: give --input=FILE.")
    own = values_of(flags_of(PlanOptions), given)
    if run.prices is not None and any(own[name] is not None for name in own if name.startswith("price_")):
        raise UsageError("--prices stands in for --price_per_…: leave one of the two kinds out.")
    own["latency_given"] = any(word.partition("=")[0] == "--expected_latency_seconds" for word in argv)
    return PlanOptions(run=run, **own)
