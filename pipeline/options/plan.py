"""The flags of `groundrows plan`: those of a run, and prices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from groundrows.pipeline.options.flags import FlagParser, HelpFormatter, add_run_flags
from groundrows.pipeline.options.run import RunOptions, checked_options, parse_flags
from groundrows.pipeline.options.source import one_source
from groundrows.schemas.errors import UsageError

EXAMPLE = """\
example:
  groundrows plan --service=emulator --input=questions.jsonl --price_per_1000_requests=2.50
"""


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """A plan as asked for.

    Attributes:
        run: The run that is being planned; its `output` is empty when it was not given.
        price_per_1000_requests: In any currency, or None.
        price_per_million_tokens: Of request text, in the same currency, or None.
        as_json: Print one JSON object instead of text.
    """

    run: RunOptions
    price_per_1000_requests: float | None
    price_per_million_tokens: float | None
    as_json: bool


def plan_parser() -> FlagParser:
    """The parser of a plan's flags."""
    parser = FlagParser(
        prog="groundrows plan",
        description="Read an archive, call nothing, and say what a run with the same flags would do and\n"
        "cost. --output may be left out.",
        epilog=EXAMPLE,
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    add_run_flags(parser)
    plan = parser.add_argument_group("what to reckon")
    plan.add_argument("--price_per_1000_requests", type=float, metavar="PRICE", help="in any currency")
    plan.add_argument(
        "--price_per_million_tokens", type=float, metavar="PRICE", help="of request text, estimated"
    )
    plan.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object")
    return parser


def parse_plan(argv: Sequence[str]) -> PlanOptions:
    """Check a plan's flags.

    Raises:
        UsageError: One sentence about the first thing that is wrong.
    """
    flags, runner_flags = parse_flags(plan_parser(), argv)
    inputs = one_source(flags)
    if not inputs.patterns:
        raise UsageError("A plan reads archives, which can be read again: give --input=FILE.")
    for name in ("price_per_1000_requests", "price_per_million_tokens"):
        value = getattr(flags, name)
        if value is not None and not (value >= 0 and math.isfinite(value)):
            raise UsageError(f"--{name}={value:g} is no price: give a number from 0 on.")
    return PlanOptions(
        run=checked_options(flags, runner_flags, inputs),
        price_per_1000_requests=flags.price_per_1000_requests,
        price_per_million_tokens=flags.price_per_million_tokens,
        as_json=flags.as_json,
    )
