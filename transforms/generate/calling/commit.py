"""Group commit: requests that arrive while the ledger is busy are passed to it together afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Generic, TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

LINGER_SECONDS = 0.002


class GroupCommit(Generic[_Item, _Result]):
    """Combines many small requests to the ledger into few, with little delay.

    Args:
        work: Does the requests of a group and blocks; returns the results in the same order.
        executor: Runs `work`. It has one thread, so that the order of writes is kept.
    """

    def __init__(self, work: Callable[[Sequence[_Item]], Sequence[_Result]], executor: Executor) -> None:
        self._work = work
        self._executor = executor
        self._waiting: list[tuple[_Item, asyncio.Future[_Result]]] = []
        self._writer: asyncio.Task[None] | None = None

    async def put(self, item: _Item) -> _Result:
        """Wait until the request is done, and return its result. A stored entry is durable then.

        Raises:
            LedgerError: The request could not be done.
        """
        done: asyncio.Future[_Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, done))
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write_all())
        return await done

    async def flush(self) -> None:
        """Wait until all requests so far are done or have failed."""
        while self._writer is not None:
            await asyncio.shield(self._writer)

    async def _write_all(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            # Responses often arrive a millisecond or two apart. Writing each one alone took a tenth of the
            # CPU time at a thousand calls per second.
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
