"""Group commit: responses that arrive while one write is under way are written together by the next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor

from groundrows.transforms.generate.ledger.base import Entry

LINGER_SECONDS = 0.002


class GroupCommit:
    """Turns many small writes into few, without holding any of them back for long.

    Args:
        write: Stores entries, durably, blocking.
        executor: Where `write` runs; one thread, so that writes never overtake each other.
    """

    def __init__(self, write: Callable[[Sequence[Entry]], None], executor: Executor) -> None:
        self._write = write
        self._executor = executor
        self._waiting: list[tuple[Entry, asyncio.Future[None]]] = []
        self._writer: asyncio.Task[None] | None = None

    async def put(self, entry: Entry) -> None:
        """Return when the entry is durable.

        Raises:
            LedgerError: It could not be stored.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((entry, done))
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write_all())
        await done

    async def flush(self) -> None:
        """Return when everything handed in so far is durable, or could not be stored."""
        while self._writer is not None:
            await asyncio.shield(self._writer)

    async def _write_all(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            # What arrives together is a millisecond or two apart. Writing each alone cost a tenth of the CPU
            # of a process that makes a thousand calls a second.
            await asyncio.sleep(LINGER_SECONDS)
            group, self._waiting = self._waiting, []
            error: Exception | None = None
            try:
                await loop.run_in_executor(self._executor, self._write, [entry for entry, _ in group])
            except Exception as failed:
                error = failed
            for _, done in group:
                if done.done():
                    continue
                if error is None:
                    done.set_result(None)
                else:
                    done.set_exception(error)
        self._writer = None
