"""Several bridge processes with one configuration: each source is followed by one of them, always.

Real processes on a real broker; one is killed, one is told to stop, one is frozen past its lease.
"""

import asyncio
import json
import signal
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from fencepost.broker.embedded import EmbeddedBroker
from fencepost_policies.ownership import owner_of
from fencepost_schemas.subject import SOURCES
from kit.command import Command, configure, started
from kit.house import House, house
from kit.log import LogSource
from kit.orders import TOKENS, orders
from kit.source import Reply, ScriptedSource
from kit.wait import until

LEASE_S = 3.0
BRIDGE = {"lease_s": LEASE_S, "renew_s": 0.6}
TAKEN_OVER_S = LEASE_S + 3.0
"""The lease, and what a machine with something else to do needs to look and connect."""


async def followed(home: House) -> dict[str, str]:
    """Return which living bridge follows each source."""
    found, now_ms = await home.roster(), await home.connection.clock_ms(SOURCES)
    owners = {source: owner_of(found, source, now_ms) for source in found.claims}
    return {source: owner for source, owner in owners.items() if owner}


async def spread(home: House, *counts: int, limit_s: float = 30.0) -> dict[str, str]:
    """Return who follows what, once the bridges have so many sources each."""

    async def there() -> bool:
        return sorted(counts) == sorted(Counter((await followed(home)).values()).values())

    await until(there, f"bridges with {counts} sources", limit_s)
    return await followed(home)


async def keys(home: House, source: str) -> list[str]:
    return [json.loads(event.payload)["k"] for event in await home.events(source)]


async def see_keys(home: House, source: str, *expected: str, limit_s: float = 30.0) -> None:
    async def there() -> bool:
        return list(expected) == await keys(home, source)

    await until(there, f"{expected} of {source}", limit_s)


async def test_bridges_share_and_take_over(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """Divided evenly; a killed one is replaced within its lease, a stopped one at once. No event is
    missed, and none comes twice.
    """
    async with AsyncExitStack() as stack:
        logs = {f"s{number}": await stack.enter_async_context(LogSource()) for number in range(6)}
        sources: dict[str, Any] = {}
        for name, log in logs.items():
            sources[name] = orders(log.url, plain=TOKENS)["orders"]
        home = await stack.enter_async_context(house(broker, sources))
        await home.init()
        configure(tmp_path, broker.url, sources, bridge=BRIDGE)
        commands: list[Command] = []
        names: list[str] = []
        for count in (1, 2, 3):
            commands.append(await stack.enter_async_context(started("bridge", folder=tmp_path)))
            owners = await spread(home, *[6 // count] * count)
            (new,) = set(owners.values()) - set(names)
            names.append(new)
        for log in logs.values():
            await log.add("a")
        for name in logs:
            await see_keys(home, name, "a")

        commands[0].signal(signal.SIGKILL)
        await commands[0].ended()
        for log in logs.values():
            await log.add("b")
        for name in logs:
            await see_keys(home, name, "a", "b", limit_s=TAKEN_OVER_S)
        owners = await spread(home, 3, 3)
        assert set(names[1:]) == set(owners.values())

        commands[1].signal(signal.SIGTERM)
        assert 0 == (await commands[1].ended()).code
        assert {names[2]} >= set((await followed(home)).values()), "it was given up at once"
        for log in logs.values():
            await log.add("c")
        for name in logs:
            await see_keys(home, name, "a", "b", "c")
            assert {names[2]} == {(await home.cursor(name)).owner}
            verdicts = await home.verdicts(name)
            assert {"genesis", "resumed"} >= set(verdicts), verdicts


async def test_a_frozen_bridge_comes_back_to_nothing(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """Overtaken while it was stopped, it is refused by the cursor, lets go, and is there to help;
    the source stays where it is.
    """
    async with LogSource() as source, house(broker, orders(source.url)) as home:
        await home.init()
        configure(tmp_path, broker.url, orders(source.url), bridge=BRIDGE)
        async with started("bridge", folder=tmp_path) as frozen:
            await source.add("a", "b")
            await see_keys(home, "orders", "a", "b")
            (old,) = set((await followed(home)).values())
            frozen.signal(signal.SIGSTOP)
            async with started("bridge", folder=tmp_path) as successor:
                await source.add("c", "d")
                await see_keys(home, "orders", "a", "b", "c", "d", limit_s=TAKEN_OVER_S)
                (new,) = set((await followed(home)).values())
                assert old != new
                frozen.signal(signal.SIGCONT)

                async def back() -> bool:
                    return {old, new} == set((await home.roster()).members)

                await until(back, "the frozen bridge among the others")
                requests = len(source.requests)
                for key in ("e", "f", "g"):
                    await source.add(key)
                    await asyncio.sleep(BRIDGE["renew_s"])  # it has all the time to play with it
                await see_keys(home, "orders", *"abcdefg")
                assert {new} == set((await followed(home)).values())
                assert new == (await home.cursor()).owner
                assert 2 == requests == len(source.requests), "neither asked the source again"
                assert "written by another" not in successor.err

                # It is of use again: the other one goes, and it takes the source back.
                successor.signal(signal.SIGTERM)
                assert 0 == (await successor.ended()).code
                await source.add("h")
                await see_keys(home, "orders", *"abcdefgh")
                assert {old} == set((await followed(home)).values())
        assert {"genesis", "resumed"} == set(await home.verdicts())


async def test_a_source_that_stopped_is_not_handed_around(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """Each process tries it once, when it begins; what else there is, is followed on."""
    async with (
        ScriptedSource(Reply(status=401)) as shut,
        LogSource() as source,
    ):
        sources = {**orders(source.url), "shut": orders(shut.url)["orders"]}
        async with house(broker, sources) as home:
            await home.init()
            configure(tmp_path, broker.url, sources, bridge=BRIDGE)

            async def known() -> bool:
                return "shut" in (await home.roster()).stops

            async with started("bridge", folder=tmp_path) as first:
                await until(known, "the reason in the roster")
                async with started("bridge", folder=tmp_path):
                    await spread(home, 1)

                    async def both() -> bool:
                        return 2 == len((await home.roster()).members)

                    await until(both, "two bridges")
                    await shut.asked_times(2)
                    await until(known, "the reason in the roster again")
                    await asyncio.sleep(3 * BRIDGE["lease_s"])
                    assert 2 == len(shut.requests)
                    await source.add("a")
                    await see_keys(home, "orders", "a")
                first.signal(signal.SIGTERM)
                assert 0 == (await first.ended()).code
            assert "answered 401" in (await home.roster()).stops["shut"].reason
