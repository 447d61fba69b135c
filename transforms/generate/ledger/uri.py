"""From `--ledger` to a ledger."""

from __future__ import annotations

from transforms.generate.ledger.base import Ledger, LedgerError
from transforms.generate.ledger.memory import MemoryLedger


def open_ledger(uri: str) -> Ledger:
    """Open what the URI names: `sqlite:///PATH`, `redis://HOST:PORT/DB` or `none`.

    Raises:
        LedgerError: The URI is of no known kind, or what it names can't be used.
    """
    if uri == "none":
        return MemoryLedger()
    if uri.startswith("sqlite:///"):
        from transforms.generate.ledger.sqlite import SqliteLedger

        return SqliteLedger(uri.removeprefix("sqlite://"))
    if uri.startswith("redis://"):
        from transforms.generate.ledger.redis import RedisLedger

        return RedisLedger(uri)
    raise LedgerError(f"--ledger={uri} is no ledger: use sqlite:///PATH, redis://HOST:PORT/DB or none.")
