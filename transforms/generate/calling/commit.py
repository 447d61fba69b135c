"""Group commit: what arrives while the ledger is at work is handed to it together, as soon as it is free."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Generic, TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

LINGER_SECONDS = 0.002


class GroupCommit(Generic[_Item, _Result]):
    """Turns many small requests of the ledger into few, without holding any of them back for long.

    Args:
        work: Does what a group asks for, blocking; returns a result for each, in their order.
        executor: Where `work` runs; one thread, so that writes never overtake each other.
    """

    def __init__(self, work: Callable[[Sequence[_Item]], Sequence[_Result]], executor: Executor) -> None:
        self._work = work
        self._executor = executor
        self._waiting: list[tuple[_Item, asyncio.Future[_Result]]] = []
        self._writer: asyncio.Task[None] | None = None

    async def put(self, item: _Item) -> _Result:
        """Return what becomes of the item, once it is done: a stored entry is durable.

        Raises:
            LedgerError: It could not be done.
        """
        done: asyncio.Future[_Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, done))
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write_all())
        return await done

    async def flush(self) -> None:
        """Return when everything handed in so far is done, or could not be."""
        while self._writer is not None:
            await asyncio.shield(self._writer)

    async def _write_all(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            # What arrives together is a millisecond or two apart. Writing each alone cost a tenth of the CPU
            # of a process that makes a thousand calls a second.
            await asyncio.sleep(LINGER_SECONDS)
            group, self._waiting = self._waiting, []
            try:
                results = await loop.run_in_executor(self._executor, self._work, [item for item, _ in group])
            except Exception as error:
                for _, done in group:
                    if not done.done():
                        done.set_exception(error)
                continue
            for (_, done), result in zip(group, results, strict=True):
                if not done.done():
                    done.set_result(result)
        self._writer = None
