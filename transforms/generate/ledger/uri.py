"""Opens the ledger that `--ledger` names."""

from __future__ import annotations

from groundrows.schemas.errors import LedgerError
from groundrows.transforms.generate.ledger.base import Ledger
from groundrows.transforms.generate.ledger.memory import MemoryLedger
from groundrows.transforms.generate.settings import REDIS


def open_ledger(uri: str, read_only: bool = False) -> Ledger:
    """Open a ledger.

    Args:
        uri: `sqlite:///PATH`, `redis://HOST:PORT/DB` or `none`.
        read_only: Open an existing ledger only to read it. Nothing is created or changed.

    Raises:
        LedgerError: The URI has none of these forms, or the ledger can't be used.
        NoLedgerError: `read_only` is true and there is no ledger.
    """
    if uri == "none":
        return MemoryLedger()
    if uri.startswith("sqlite:///"):
        from groundrows.transforms.generate.ledger.sqlite import SqliteLedger

        return SqliteLedger(uri.removeprefix("sqlite://"), read_only)
    if uri.startswith(REDIS):
        from groundrows.transforms.generate.ledger.redis import RedisLedger

        return RedisLedger(uri, read_only=read_only)
    raise LedgerError(f"--ledger={uri} is not a ledger: use sqlite:///PATH, redis://HOST:PORT/DB or none.")
