"""The bridge on a real broker and scripted sources: verdicts, lineage, and what is published."""

from typing import Any

from fencepost.broker.embedded import EmbeddedBroker
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


async def _count(home: Any, count: int) -> bool:
    return len(await home.events()) >= count
