"""The budgets of one process, which the ledger counts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial

from groundrows.schemas.errors import LedgerError
from groundrows.transforms.generate.calling.budget import CHUNK, Budget, budget_scope
from groundrows.transforms.generate.calling.unit_budget import Purse, UnitBudget
from groundrows.transforms.generate.ledger.base import Ledger
from groundrows.transforms.generate.settings import CallSettings

_LOGGER = logging.getLogger(__name__)


def unit_limits(settings: CallSettings) -> dict[str, int | None]:
    """The limits of the budgets in tokens and in searches, by their flags, in the order of a `Cost`."""
    return {"max_tokens": settings.max_tokens, "max_searches": settings.max_searches}


def has_budget(settings: CallSettings) -> bool:
    """Whether anything bounds what the whole run may take."""
    return any(limit is not None for limit in (settings.max_requests, *unit_limits(settings).values()))


def count_name(run_id: str, flag: str) -> str:
    """Under which name a ledger counts what a run has spent of such a budget."""
    return f"{run_id} {flag}"


class Budgets:
    """Finds the budget of a shard. Shards with the same scope share a budget and its reserved calls.

    Args:
        settings: The settings of the calls.
        ledger: The ledger, which counts the calls.
        executor: Runs the ledger's operations.
        stop: Stops all calling with a reason. It is called when the ledger can't be used.

    Attributes:
        purse: The budgets of tokens and searches, one of each for the whole run.
    """

    def __init__(
        self, settings: CallSettings, ledger: Ledger, executor: Executor, stop: Callable[[str], None]
    ) -> None:
        self._settings = settings
        self._ledger = ledger
        self._executor = executor
        self._stop = stop
        self._by_scope: dict[str, Budget] = {}
        self.purse = Purse(
            tuple(
                (flag, unit, UnitBudget(limit, partial(self._count, count_name(settings.run_id, flag))))
                for unit, (flag, limit) in enumerate(unit_limits(settings).items())
                if limit is not None
            )
        )

    def of(self, shard: int) -> Budget | None:
        """Return the budget of a shard's calls; None when they have no budget."""
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
        """Give back the calls that are reserved and not used."""
        for budget in list(self._by_scope.values()):
            await budget.settle()
        await self.purse.flush()

    async def _count(self, name: str, units: int) -> int | None:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._executor, self._ledger.count, name, units)
        except LedgerError as error:
            self._stop(str(error))
            return None

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
                # These calls are lost to the run, which is safe: it makes fewer calls, not more.
                _LOGGER.warning("%s", error)

        # Without a ledger, the count may move to another worker, and reserved calls would be lost.
        return Budget(reserve, give_back, 1 if self._settings.ledger == "none" else CHUNK)
