"""A join that nobody knows: what it lost is found by the next resume, and published late.

The scripted sources hold a log of numbered events; each reply is what a server makes of it.
"""

from typing import Any

import pytest

from fencepost.broker.embedded import EmbeddedBroker
from fencepost_schemas.reason import Reason
from fencepost_schemas.verdict import Gap
from kit.house import House, house
from kit.source import End, Reply, ScriptedSource, sse, stream
from kit.wait import until

REFUSAL = Reply(status=410, headers={"content-type": "text/plain"})


def log(*numbers: int, end: End = End.CLOSE) -> Reply:
    """Return a reply of these events, each with its own number as key."""
    return stream(sse(*((str(n), f'{{"k":"{n}"}}') for n in numbers)), end=end)


def source_at(url: str, **plain: Any) -> dict[str, Any]:
    return {"orders": {"url": url, "keys": "durable", "key": "/k", "plain": plain}}


async def published(home: House, *numbers: int) -> None:
    expected = [str(number) for number in numbers]

    async def so() -> bool:
        return [event.key for event in await home.events()] == expected

    await until(so, f"{expected} to be published")


async def test_what_a_join_lost_comes_with_the_next_resume(broker: EmbeddedBroker) -> None:
    """4 and 5 fell between replayed and live events; they are published late, and told."""
    script = (
        log(1, 2, 3),
        log(2, 3, 6, 7),
        log(2, 3, 4, 5, 6, 7, 8, end=End.HANG),
    )
    async with ScriptedSource(*script) as source, house(broker, source_at(source.url)) as home:
        await home.init()
        async with home.bridge():
            await published(home, 1, 2, 3, 6, 7, 4, 5, 8)

        assert ["genesis", "resumed", "resumed"] == await home.verdicts()
        first, _, third = await home.records()
        assert Reason.JOIN_RECOVERED in third.verdict.reasons
        generation = first.generation
        assert Gap(generation, "3", generation, "6", exact=True) == third.join_gap
        assert third.gap is None
        assert {generation} == {event.generation for event in await home.events()}
        assert [None, "1", "1"] == [request.asked for request in source.requests]


async def test_what_came_late_is_where_it_belongs_from_then_on(broker: EmbeddedBroker) -> None:
    """The marks follow the log, not the order of publishing: the resume after that is proven."""
    script = (
        log(1, 2),
        log(2, 5),
        log(2, 3, 4, 5),
        log(2, 3, 4, 5, 6),
        log(2, 3, 4, 5, 6, 7, end=End.HANG),
    )
    async with ScriptedSource(*script) as source, house(broker, source_at(source.url)) as home:
        await home.init()
        async with home.bridge():
            await published(home, 1, 2, 5, 3, 4, 6, 7)

        assert {"genesis", "resumed"} == set(await home.verdicts())
        assert [3, 4, 5, 6] == [int(mark.position.id) for mark in (await home.cursor()).ring][2:6]


async def test_a_join_that_lost_nothing_is_covered_without_a_word(broker: EmbeddedBroker) -> None:
    """Everything published since comes back: nothing twice, no gap."""
    script = (log(1, 2, 3), log(2, 3, 4, 5), log(2, 3, 4, 5, 6, end=End.HANG))
    async with ScriptedSource(*script) as source, house(broker, source_at(source.url)) as home:
        await home.init()
        async with home.bridge():
            await published(home, 1, 2, 3, 4, 5, 6)

        third = (await home.records())[2]
        assert Reason.JOIN_COVERED in third.verdict.reasons
        assert (None, None) == (third.gap, third.join_gap)


@pytest.mark.parametrize("answer", [REFUSAL, log(6, 7, 8, end=End.HANG)], ids=["refused", "missed"])
async def test_a_log_that_no_longer_reaches_so_far_leaves_a_gap(
    broker: EmbeddedBroker, answer: Reply
) -> None:
    """The seam is proven from later marks; of the join before it nobody can say."""
    script = (
        log(1, 2, 3),
        log(2, 3, *range(4, 14)),
        answer,
        answer,
        log(13, 14, end=End.HANG),
    )
    async with ScriptedSource(*script) as source, house(broker, source_at(source.url)) as home:
        await home.init()
        async with home.bridge():
            await published(home, *range(1, 15))

        third = (await home.records())[2]
        assert "resumed" == third.verdict.kind
        assert Reason.JOIN_UNCOVERED in {fact.reason for fact in third.verdict.facts}
        assert Gap(third.generation, "3", third.generation, "13") == third.join_gap
        assert [None, "1", "1", "6", "12"] == [request.asked for request in source.requests]


async def test_an_old_log_that_differs_behind_the_join_is_another_one(
    broker: EmbeddedBroker,
) -> None:
    """Restored from a backup at the seam: the marks before it are right, the rest is not."""
    forked = stream(
        sse(("2", '{"k":"2"}'), ("3", '{"k":"3"}'), ("4", '{"k":"x"}'), ("5", '{"k":"y"}')),
        end=End.HANG,
    )
    script = (log(1, 2, 3), log(2, 3, 4, 5), forked, forked)
    async with ScriptedSource(*script) as source, house(broker, source_at(source.url)) as home:
        await home.init()
        async with home.bridge():

            async def so() -> bool:
                keys = [event.key for event in await home.events()]
                return keys == ["1", "2", "3", "4", "5", "x", "y"]

            await until(so, "the other log to be published")

        third = (await home.records())[2]
        assert "reoriginated" == third.verdict.kind
        assert Reason.OVERLAP_OTHER_BYTES in third.verdict.reasons
        assert third.gap is not None
        assert ("5", "4") == (third.gap.after_position, third.gap.before_position)


async def test_an_event_without_an_id_has_no_place_to_come_late_to(
    broker: EmbeddedBroker,
) -> None:
    """Its position would be another's; the stream is taken for another one, which loses nothing."""
    bare = b'event: task\ndata: {"k":"bare"}\n\n'
    lost = stream(sse(("2", '{"k":"2"}')), bare, sse(("3", '{"k":"3"}')), end=End.HANG)
    script = (log(1, 2), log(2, 3), lost, lost)
    async with ScriptedSource(*script) as source, house(broker, source_at(source.url)) as home:
        await home.init()
        async with home.bridge():

            async def so() -> bool:
                return "bare" in [event.key for event in await home.events()]

            await until(so, "the event without an id to be published")

        assert "reoriginated" == (await home.verdicts())[2]


async def test_a_crash_among_what_comes_late_loses_none_of_it(broker: EmbeddedBroker) -> None:
    """The cursor keeps the old seam until all of it is stored, so the next bridge looks again."""
    late = range(10, 1000)
    script = (
        log(1, 2, 3),
        log(2, 3, 1000, 1001),
        log(2, 3, *late, 1000, 1001, end=End.HANG),
    )
    stored: list[str] = []

    def reached(point: str) -> None:
        stored.append(point)
        if stored.count("batch_stored") == _STORED_MAX and point == "batch_stored":
            raise RuntimeError("killed")

    async with ScriptedSource(*script) as source, house(broker, source_at(source.url)) as home:
        await home.init()
        async with home.bridge(reached) as bridge:
            with pytest.raises(RuntimeError, match="killed"):
                await bridge
        halfway = len(await home.events())
        assert 5 < halfway < 5 + len(late)
        async with home.bridge():

            async def all_there() -> bool:
                return len(await home.events()) >= 5 + len(late)

            await until(all_there, "all that came late")

        keys = [int(event.key or "") for event in await home.events()]
        assert sorted(keys) == [1, 2, 3, *late, 1000, 1001]
        assert {"genesis", "resumed"} == set(await home.verdicts())


_STORED_MAX = 4
"""Take-over, two connections, and the first batch of what comes late."""


async def test_a_known_join_keeps_no_seam(broker: EmbeddedBroker) -> None:
    """Where the source declares an atomic join there is nothing to look at again."""
    script = (log(1, 2, 3), log(2, 3, 4), log(3, 4, 5, end=End.HANG))
    sources = source_at("", join="atomic")
    async with ScriptedSource(*script) as source:
        sources["orders"]["url"] = source.url
        async with house(broker, sources) as home:
            await home.init()
            async with home.bridge():
                await source.asked_times(3)
                assert None is (await home.cursor()).seam
