"""One process takes turns at a host: how many connections it sees, and when."""

import asyncio

import pytest

from fencepost import ports
from fencepost.settings import Bridge
from fencepost.transport.budgets import HOSTS_MAX, HostBudgets
from fencepost.transport.http import HttpTransport
from kit.source import Reply, Request, ScriptedSource
from kit.ways import source_at


class Clocked(ScriptedSource):
    """Notes when it was asked, and sends everybody away."""

    def __init__(self) -> None:
        super().__init__()
        self.at_s: list[float] = []

    async def _respond(self, number: int, request: Request, writer: asyncio.StreamWriter) -> None:
        self.at_s.append(asyncio.get_running_loop().time())
        await self._send(Reply(status=503), writer)


async def test_many_sources_at_one_host() -> None:
    """Thirty that begin at once are one burst, and then come at the rate."""
    http = HttpTransport(Bridge(connects_per_s=20.0, connects_burst=5))
    async with Clocked() as source:
        ways = [http.of(f"orders-{number}", source_at(source.url)) for number in range(30)]

        async def ask(way: ports.Way) -> None:
            async with way.open(ports.Request("GET", source.url, {})) as response:
                assert 503 == response.status

        began_s = asyncio.get_running_loop().time()
        try:
            await asyncio.gather(*map(ask, ways))
        finally:
            await http.close()
        assert 30 == len(source.at_s)
        for number, at_s in enumerate(sorted(source.at_s)):
            assert at_s - began_s >= (number - 4) / 20.0 - 0.01


async def test_each_redirect_is_a_connection() -> None:
    """A source that redirects in a loop spends its own host's budget."""
    http = HttpTransport(Bridge(connects_per_s=10.0, connects_burst=1))
    moved = Reply(status=307, headers={"location": "/again"})
    async with ScriptedSource(moved) as source:
        began_s = asyncio.get_running_loop().time()
        request = ports.Request("GET", source.url, {})
        try:
            with pytest.raises(ports.SourceUnreachable, match="redirects more than"):
                async with http.of("orders", source_at(source.url)).open(request):
                    pass
        finally:
            await http.close()
        assert asyncio.get_running_loop().time() - began_s >= 0.49


async def test_hosts_are_not_remembered_for_ever() -> None:
    """A redirect may name any host, so those that were let alone are forgotten."""
    budgets = HostBudgets(1e6, 1)
    for number in range(3 * HOSTS_MAX):
        await budgets.turn(f"host-{number}")
    assert len(budgets._budgets) <= HOSTS_MAX + 1
