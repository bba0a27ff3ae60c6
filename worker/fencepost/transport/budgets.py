"""Make the sources of one process take turns at each host that they connect to."""

import asyncio

from fencepost_policies.budget import Budget, spend

HOSTS_MAX = 1_000
"""Hosts that are remembered; past it, those are forgotten that were let alone for a while."""


class HostBudgets:
    def __init__(self, per_s: float, burst: int) -> None:
        self._per_s = per_s
        self._burst = burst
        self._budgets: dict[str, Budget] = {}

    async def turn(self, host: str) -> None:
        """Return once this host may be connected to once more."""
        now_s = asyncio.get_running_loop().time()
        if len(self._budgets) >= HOSTS_MAX and host not in self._budgets:
            self._forget(now_s)
        self._budgets[host], wait_s = spend(
            self._budgets.get(host), now_s, per_s=self._per_s, burst=self._burst
        )
        await asyncio.sleep(wait_s)

    def _forget(self, now_s: float) -> None:
        """Forget the hosts whose budget is full again: to remember them changes nothing."""
        self._budgets = {
            host: budget
            for host, budget in self._budgets.items()
            if budget.left + (now_s - budget.at_s) * self._per_s < self._burst
        }
