"""What is held back before the verdict: dropped, or judged in the end on what was shown."""

import asyncio
import json
from typing import Any

import pytest

from fencepost.broker.embedded import EmbeddedBroker
from fencepost_schemas.verdict import Gap
from kit.house import house
from kit.orders import TWO, live, orders, see, see_verdicts
from kit.source import End, Reply, ScriptedSource, stream


async def test_a_connection_that_breaks_before_its_verdict_leaves_nothing(
    broker: EmbeddedBroker,
) -> None:
    """Frames were held and the connection broke: no record, no event, and the same position asked.

    Without an id of its own the frame says nothing of the position, so it is held.
    """
    script = (
        TWO,
        stream(b'data: {"k":"lost"}\n\n', gen="g", floor="1", end=End.BREAK),
        live(("3", '{"k":"c"}'), gen="g", floor="1"),
    )
    async with ScriptedSource(*script) as source, house(broker, orders(source.url)) as home:
        await home.init()
        async with home.bridge():
            await see(home, 3)

        assert ["genesis", "resumed"] == await home.verdicts()
        assert ["a", "b", "c"] == [json.loads(event.payload)["k"] for event in await home.events()]
        assert [None, "2", "2"] == [request.asked for request in source.requests]


async def test_what_is_held_is_judged_when_the_connection_ends_well(broker: EmbeddedBroker) -> None:
    """A proper end is the last word of a connection: what it held is judged on what was shown."""
    script = (
        TWO,
        stream(b'data: {"k":"c"}\n\n', gen="g", floor="1"),
        stream(gen="g", floor="1", end=End.HANG),
    )
    async with ScriptedSource(*script) as source, house(broker, orders(source.url)) as home:
        await home.init()
        async with home.bridge():
            await source.asked_times(3)

        assert ["genesis", "unverifiable"] == await home.verdicts()
        assert 3 == len(await home.events())


@pytest.mark.parametrize("silent_first", [False, True])
async def test_what_is_held_is_judged_at_the_deadline(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, silent_first: bool
) -> None:
    """An event that says nothing of its position is judged and stored without another byte.

    The time counts from the first held frame, however long the connection was silent before it.
    """
    monkeypatch.setattr("fencepost.bridge.approach.HELD_S_MAX", 0.1)
    live = _LateSource(TWO, silent_first=silent_first)
    async with live as source, house(broker, orders(source.url)) as home:
        await home.init()
        async with home.bridge():
            await see(home, 3)

        assert ["genesis", "unverifiable"] == await home.verdicts()


class _LateSource(ScriptedSource):
    """Sends its second answer's only event at once, or after the deadline would have passed."""

    def __init__(self, first: Reply, *, silent_first: bool) -> None:
        late = stream(b'data: {"k":"c"}\n\n', gen="g", floor="1", end=End.HANG)
        super().__init__(first, late)
        self.silent_first = silent_first

    async def _send(self, reply: Reply, writer: Any) -> None:
        if reply is self.script[1] and self.silent_first:
            head = (
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ngen: g\r\nfloor: 1\r\n\r\n"
            )
            writer.write(head + b": nothing yet\n\n")
            await writer.drain()
            await asyncio.sleep(0.3)  # three times the deadline, so that it is surely over
            writer.write(reply.body[0])
            await writer.drain()
            await self._cut.wait()
            return
        await super()._send(reply, writer)


async def test_a_contradiction_without_an_event_is_judged_at_the_deadline(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another generation in the header is news by itself: recorded with a gap that is open."""
    monkeypatch.setattr("fencepost.bridge.approach.HELD_S_MAX", 0.1)
    script = (TWO, stream(gen="h", floor="1", end=End.HANG))
    async with ScriptedSource(*script) as source, house(broker, orders(source.url)) as home:
        await home.init()
        async with home.bridge():
            await see_verdicts(home, 2)

        first, second = await home.records()
        assert Gap(first.generation, "2", second.generation, "") == second.gap
