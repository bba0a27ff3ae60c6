"""The bridge on a real broker and scripted sources: verdicts, lineage, and what is published."""

import asyncio
from typing import Any

import pytest

from fencepost.bridge.follow import FRAMES_AT_A_TIME
from fencepost.bridge.lineage import Lineage
from fencepost.broker.embedded import EmbeddedBroker
from fencepost_schemas.sse import Frame
from kit.house import house
from kit.source import End, ScriptedSource, sse, stream
from kit.wait import until

TOKENS = {"scheme": "integer", "generation_header": "gen", "window_header": "floor"}


def source_at(url: str, **plain: Any) -> dict[str, Any]:
    return {"orders": {"url": url, "keys": "durable", "key": "/k", "plain": plain or TOKENS}}


async def test_a_proven_resume_keeps_the_generation(broker: EmbeddedBroker) -> None:
    """Header token, order and window prove all three facets; positions go on in one generation."""
    script = (
        stream(sse(("1", '{"k":"a"}'), ("2", '{"k":"b"}')), gen="g", floor="1"),
        stream(sse(("3", '{"k":"c"}')), gen="g", floor="1", end=End.HANG),
    )
    async with ScriptedSource(*script) as source, house(broker, source_at(source.url)) as home:
        await home.init()
        async with home.bridge():
            await until(lambda: _count(home, 3), "three events")

        assert await home.verdicts() == ["genesis", "resumed"]
        events = await home.events()
        assert [event.position for event in events] == ["1", "2", "3"]
        assert len({event.generation for event in events}) == 1
        assert [request.asked for request in source.requests] == [None, "2"]


async def test_what_was_read_ahead_does_not_keep_the_loop_to_itself(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a thousand events that are there at once, no more are passed on before others may run."""
    passed, most_at_once = 0, 0
    pass_on = Lineage.pass_on

    def counted(lineage: Lineage, frame: Frame) -> None:
        nonlocal passed
        passed += 1
        pass_on(lineage, frame)

    async def take_turns() -> None:
        nonlocal most_at_once
        before = passed
        while True:
            await asyncio.sleep(0)
            most_at_once = max(most_at_once, passed - before)
            before = passed

    monkeypatch.setattr(Lineage, "pass_on", counted)
    many = sse(*((str(number), "{}") for number in range(1, 1001)))
    async with (
        ScriptedSource(stream(many, end=End.HANG)) as source,
        house(broker, source_at(source.url)) as home,
    ):
        await home.init()
        others = asyncio.create_task(take_turns())
        async with home.bridge():
            await until(lambda: _count(home, 1000), "a thousand events")
        others.cancel()
    assert 1000 == passed
    # The first one was held for the verdict, and goes with the next.
    assert 1 + FRAMES_AT_A_TIME >= most_at_once


async def _count(home: Any, count: int) -> bool:
    return len(await home.events()) >= count
