"""From `--ledger` to a ledger."""

from __future__ import annotations

from groundrows.schemas.errors import LedgerError
from groundrows.transforms.generate.ledger.base import Ledger
from groundrows.transforms.generate.ledger.memory import MemoryLedger
from groundrows.transforms.generate.settings import REDIS


def open_ledger(uri: str, read_only: bool = False) -> Ledger:
    """Open what the URI names: `sqlite:///PATH`, `redis://HOST:PORT/DB` or `none`.

    Args:
        uri: The URI.
        read_only: Open what is there to read it alone; nothing is made, and it stays as it is.

    Raises:
        LedgerError: The URI is of no known kind, or what it names can't be used.
        NoLedgerError: It is to be read and is not there.
    """
    if uri == "none":
        return MemoryLedger()
    if uri.startswith("sqlite:///"):
        from groundrows.transforms.generate.ledger.sqlite import SqliteLedger

        return SqliteLedger(uri.removeprefix("sqlite://"), read_only)
    if uri.startswith(REDIS):
        from groundrows.transforms.generate.ledger.redis import RedisLedger

        return RedisLedger(uri, read_only=read_only)
    raise LedgerError(f"--ledger={uri} is no ledger: use sqlite:///PATH, redis://HOST:PORT/DB or none.")
