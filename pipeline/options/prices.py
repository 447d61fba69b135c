"""The flags for prices, which several commands have."""

from __future__ import annotations

from groundrows.pipeline.options.flag import Flag, flag


def price(of_what: str) -> float | None:
    """Declare a flag for a price. `of_what` says what has the price, and in which currency."""
    return flag(None, Flag(f"The price of {of_what}.", metavar="PRICE", least=0))


def price_per_1000_requests() -> float | None:
    """Declare `--price_per_1000_requests`."""
    return price("1,000 calls, in any currency")
