"""Two bridges on one source, without a roster between them: the newer one owns it, and the older
one is refused whole.
"""

import json

from fencepost.broker.embedded import EmbeddedBroker
from fencepost.errors import Fenced
from kit.house import House, house
from kit.log import LogSource
from kit.orders import orders, see
from kit.source import End, ScriptedSource, stream
from kit.wait import until


async def _places(home: House) -> list[tuple[str, str]]:
    return [(event.generation, event.position) for event in await home.events()]


async def test_a_second_bridge_takes_over(broker: EmbeddedBroker) -> None:
    """The first one stops at its next write, with a line that says why; nothing comes twice."""
    async with LogSource() as source, house(broker, orders(source.url)) as home:
        await home.init()
        await source.add("a", "b")
        async with home.bridge() as first:
            await see(home, 2)
            async with home.bridge() as second:
                await source.asked_times(2)
                await source.add("c", "d")
                await until(first.done, "the end of the first")
                await see(home, 4)
                assert not second.done()

            fenced = first.exception()
            assert isinstance(fenced, Fenced)
            owner = (await home.cursor()).owner
            assert (
                f"orders: its cursor was written by another ({owner}), so this "
                "bridge no longer has it"
            ) == str(fenced)
        assert ["a", "b", "c", "d"] == [json.loads(one.payload)["k"] for one in await home.events()]
        assert 4 == len(set(await _places(home)))


async def test_an_overtaken_batch_is_refused_whole(broker: EmbeddedBroker) -> None:
    """The older bridge writes after the take-over: not one event of its batch is stored."""
    idle = stream(gen="g1", floor="1", end=End.HANG)
    async with (
        LogSource() as source,
        ScriptedSource(idle) as elsewhere,
        house(broker, orders(source.url)) as home,
        house(broker, orders(elsewhere.url)) as other,
    ):
        await home.init()
        await source.add("a")
        async with home.bridge() as first:
            await see(home, 1)
            async with other.bridge():
                await elsewhere.asked_times(1)
                before = await home.cursor()
                await source.add(*(f"late-{number}" for number in range(20)))
                await until(first.done, "the end of the first")

                assert isinstance(first.exception(), Fenced)
                assert 1 == len(await home.events())
                assert before == await home.cursor()
