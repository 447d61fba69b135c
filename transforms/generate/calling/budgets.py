"""The budgets of one process: who of its calls is paid from which, and the ledger that counts them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor

from groundrows.schemas.errors import LedgerError
from groundrows.transforms.generate.calling.budget import CHUNK, Budget, budget_scope
from groundrows.transforms.generate.ledger.base import Ledger
from groundrows.transforms.generate.settings import CallSettings

_LOGGER = logging.getLogger(__name__)


class Budgets:
    """One budget for all shards of a scope: what one of them holds in reserve another may use.

    Args:
        settings: How to call.
        ledger: What counts.
        executor: Where the ledger is asked.
        stop: Stops all calling, told why, when the ledger can't be asked.
    """

    def __init__(
        self, settings: CallSettings, ledger: Ledger, executor: Executor, stop: Callable[[str], None]
    ) -> None:
        self._settings = settings
        self._ledger = ledger
        self._executor = executor
        self._stop = stop
        self._by_scope: dict[str, Budget] = {}

    def of(self, shard: int) -> Budget | None:
        """What pays for a shard's calls; None where they cost nothing."""
        settings = self._settings
        total = settings.max_requests
        if total is None:
            return None
        scope, limit = budget_scope(settings, shard), total
        if scope in self._by_scope:
            return self._by_scope[scope]
        if scope != settings.run_id:
            limit = total // settings.pacing_shards + (shard < total % settings.pacing_shards)
        budget = self._by_scope[scope] = self._budget(scope, limit)
        return budget

    async def settle(self) -> None:
        """Give back what is reserved and not used."""
        for budget in list(self._by_scope.values()):
            await budget.settle()

    def _budget(self, scope: str, limit: int) -> Budget:
        loop = asyncio.get_running_loop()

        async def reserve(count: int) -> int:
            try:
                return await loop.run_in_executor(self._executor, self._ledger.reserve, scope, limit, count)
            except LedgerError as error:
                self._stop(str(error))
                return 0

        async def give_back(count: int) -> None:
            try:
                await loop.run_in_executor(self._executor, self._ledger.give_back, scope, count)
            except LedgerError as error:
                # Forfeited; nothing is called too often for it.
                _LOGGER.warning("%s", error)

        # Without a ledger the count may move to another worker, and a reserve would stay behind.
        return Budget(reserve, give_back, 1 if self._settings.ledger == "none" else CHUNK)
