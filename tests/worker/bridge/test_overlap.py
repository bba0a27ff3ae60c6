"""The overlap probe through the bridge: on servers that say nothing of continuity."""

from typing import Any

import pytest

from fencepost.broker.embedded import EmbeddedBroker
from fencepost_schemas.reason import Reason
from kit.house import House, house
from kit.source import End, Reply, ScriptedSource, sse, stream
from kit.wait import until

FIRST = stream(sse(("1", '{"k":"a"}'), ("2", '{"k":"b"}'), ("3", '{"k":"c"}')))


def source_at(url: str, **plain: Any) -> dict[str, Any]:
    plain = {"scheme": "integer", **plain}
    return {"orders": {"url": url, "keys": "durable", "key": "/k", "plain": plain}}


async def published(home: House, *keys: str) -> None:
    async def so() -> bool:
        return [event.key for event in await home.events()] == list(keys)

    await until(so, f"{keys} to be published")


async def test_what_we_had_comes_back_and_is_not_published_again(broker: EmbeddedBroker) -> None:
    """The log that we read from gives back its events byte for byte: a proven resume."""
    script = (
        FIRST,
        stream(sse(("2", '{"k":"b"}'), ("3", '{"k":"c"}'), ("4", '{"k":"d"}')), end=End.HANG),
    )
    async with ScriptedSource(*script) as source, house(broker, source_at(source.url)) as home:
        await home.init()
        async with home.bridge():
            await published(home, "a", "b", "c", "d")

        assert ["genesis", "resumed"] == await home.verdicts()
        assert [None, "1"] == [request.asked for request in source.requests]
        assert 1 == len({event.generation for event in await home.events()})


async def test_a_resume_is_proven_without_a_new_event(broker: EmbeddedBroker) -> None:
    """Nothing was missed: the repeats alone prove it, and the verdict does not wait."""
    script = (FIRST, stream(sse(("2", '{"k":"b"}'), ("3", '{"k":"c"}')), end=End.HANG))
    async with ScriptedSource(*script) as source, house(broker, source_at(source.url)) as home:
        await home.init()
        async with home.bridge():

            async def judged() -> bool:
                return await home.verdicts() == ["genesis", "resumed"]

            await until(judged, "a verdict")

        assert ["a", "b", "c"] == [event.key for event in await home.events()]


async def test_an_id_with_other_bytes_is_another_log(broker: EmbeddedBroker) -> None:
    """A restarted counter that has passed our ids looks perfect from the last id on."""
    afresh = sse(("2", '{"k":"x"}'), ("3", '{"k":"y"}'), ("4", '{"k":"z"}'))
    script = (FIRST, stream(afresh, end=End.HANG), stream(afresh, end=End.HANG))
    async with ScriptedSource(*script) as source, house(broker, source_at(source.url)) as home:
        await home.init()
        async with home.bridge():
            await published(home, "a", "b", "c", "x", "y", "z")

        first, second = await home.records()
        assert "reoriginated" == second.verdict.kind
        assert Reason.OVERLAP_OTHER_BYTES in second.verdict.reasons
        assert second.gap is not None
        assert ("3", "2") == (second.gap.after_position, second.gap.before_position)
        assert first.generation == second.gap.after_generation


async def test_a_server_that_holds_little_is_asked_from_the_last_but_one(
    broker: EmbeddedBroker,
) -> None:
    """The oldest mark is evicted, the last one is not: still a proven resume, nothing lost."""
    script = (
        FIRST,
        stream(sse(("3", '{"k":"c"}'), ("4", '{"k":"d"}')), end=End.HANG),
        stream(sse(("3", '{"k":"c"}'), ("4", '{"k":"d"}')), end=End.HANG),
    )
    async with ScriptedSource(*script) as source, house(broker, source_at(source.url)) as home:
        await home.init()
        async with home.bridge():
            await published(home, "a", "b", "c", "d")

        assert ["genesis", "resumed"] == await home.verdicts()
        assert [None, "1", "2"] == [request.asked for request in source.requests]


async def test_what_the_first_connection_brought_is_not_lost_with_the_second(
    broker: EmbeddedBroker,
) -> None:
    """Both probes miss: the generation begins with what the first one brought, all of it."""
    script = (
        FIRST,
        stream(sse(("7", '{"k":"g"}'), ("8", '{"k":"h"}')), end=End.HANG),
        stream(sse(("8", '{"k":"h"}')), end=End.HANG),
    )
    async with ScriptedSource(*script) as source, house(broker, source_at(source.url)) as home:
        await home.init()
        async with home.bridge():
            await published(home, "a", "b", "c", "g", "h")

        _, second = await home.records()
        assert "reoriginated" == second.verdict.kind
        assert Reason.OVERLAP_MISSED in second.verdict.reasons


async def test_a_refused_second_probe_leaves_the_first_to_be_judged(
    broker: EmbeddedBroker,
) -> None:
    """A server that takes one connection at a time answers 409 to the second."""
    script = (
        FIRST,
        stream(sse(("7", '{"k":"g"}')), end=End.HANG),
        Reply(status=409, headers={"content-type": "text/plain"}),
    )
    async with ScriptedSource(*script) as source, house(broker, source_at(source.url)) as home:
        await home.init()
        async with home.bridge():
            await published(home, "a", "b", "c", "g")

        assert ["genesis", "reoriginated"] == await home.verdicts()


async def test_silence_counts_after_three_probes(broker: EmbeddedBroker) -> None:
    """Nothing that was owed comes, from the oldest mark or the last but one: three times, then a
    connection that asks for nothing."""
    silence = stream(b": hi\n\n", end=End.HANG)
    script = (FIRST, *[silence] * 6, stream(sse(("9", '{"k":"i"}')), end=End.HANG))
    sources = source_at("", overlap="on")
    async with ScriptedSource(*script) as source:
        sources["orders"]["url"] = source.url
        async with house(broker, sources, bridge={"overlap_s": 0.1}) as home:
            await home.init()
            async with home.bridge():
                await published(home, "a", "b", "c", "i")

            _, second = await home.records()
            assert "unverifiable" == second.verdict.kind
            assert Reason.OVERLAP_SILENT in second.verdict.reasons
            asked = [request.asked for request in source.requests]
            assert [None, "1", "2", "1", "2", "1", "2", None] == asked


async def test_a_silent_server_is_asked_from_the_last_but_one(broker: EmbeddedBroker) -> None:
    """One that holds little may take an old id without a word; a later one proves the resume."""
    script = (
        FIRST,
        stream(b": hi\n\n", end=End.HANG),
        stream(sse(("3", '{"k":"c"}'), ("4", '{"k":"d"}')), end=End.HANG),
    )
    sources = source_at("")
    async with ScriptedSource(*script) as source:
        sources["orders"]["url"] = source.url
        async with house(broker, sources, bridge={"overlap_s": 0.1}) as home:
            await home.init()
            async with home.bridge():
                await published(home, "a", "b", "c", "d")

            assert ["genesis", "resumed"] == await home.verdicts()


async def test_a_refused_oldest_mark_is_not_a_reset_yet(broker: EmbeddedBroker) -> None:
    """A server that refuses what it no longer holds is asked from a later mark before judging."""
    refusal = Reply(status=400, headers={"content-type": "text/plain"})
    script = (FIRST, refusal, stream(sse(("3", '{"k":"c"}'), ("4", '{"k":"d"}')), end=End.HANG))
    async with ScriptedSource(*script) as source, house(broker, source_at(source.url)) as home:
        await home.init()
        async with home.bridge():
            await published(home, "a", "b", "c", "d")

        assert ["genesis", "resumed"] == await home.verdicts()
        assert [None, "1", "2"] == [request.asked for request in source.requests]


def reset_then(*events: tuple[str, str]) -> Reply:
    return stream(b"event: gone\nid: 4\ndata: {}\n\n" + sse(*events), end=End.HANG)


async def test_a_refusal_in_the_stream_is_not_a_reset_yet(broker: EmbeddedBroker) -> None:
    """django-eventstream says in an event that the oldest mark is gone; a later one is not."""
    script = (
        FIRST,
        reset_then(),
        stream(sse(("3", '{"k":"c"}'), ("4", '{"k":"d"}')), end=End.HANG),
    )
    async with ScriptedSource(*script) as source:
        sources = source_at(source.url, reset_events=["gone"])
        async with house(broker, sources) as home:
            await home.init()
            async with home.bridge():
                await published(home, "a", "b", "c", "d")

            assert ["genesis", "resumed"] == await home.verdicts()
            assert [None, "1", "2"] == [request.asked for request in source.requests]


async def test_refused_in_the_stream_from_every_mark_is_a_reset(broker: EmbeddedBroker) -> None:
    script = (FIRST, reset_then(("5", '{"k":"e"}')), reset_then())
    async with ScriptedSource(*script) as source:
        sources = source_at(source.url, reset_events=["gone"])
        async with house(broker, sources) as home:
            await home.init()
            async with home.bridge():

                async def there() -> bool:
                    return "e" in [event.key for event in await home.events()]

                await until(there, "what came behind the reset")

            _, second = await home.records()
            assert "reoriginated" == second.verdict.kind
            assert Reason.RESET_EVENT in second.verdict.reasons
            assert [None, "1", "2"] == [request.asked for request in source.requests]


async def test_refused_from_every_mark_is_a_reset(broker: EmbeddedBroker) -> None:
    """Then it is asked without an id, and the two answers are judged together."""
    refusal = Reply(status=410, headers={"content-type": "text/plain"})
    script = (FIRST, refusal, refusal, stream(sse(("9", '{"k":"i"}')), end=End.HANG))
    async with ScriptedSource(*script) as source, house(broker, source_at(source.url)) as home:
        await home.init()
        async with home.bridge():
            await published(home, "a", "b", "c", "i")

        _, second = await home.records()
        assert "reoriginated" == second.verdict.kind
        assert Reason.RESET_STATUS in second.verdict.reasons
        assert [None, "1", "2", None] == [request.asked for request in source.requests]


@pytest.mark.parametrize(
    ("events", "plain"),
    [
        ((("1", '{"k":"a"}'), ("2", '{"k":"a"}')), {}),
        ((("1", '{"k":"a"}'),), {}),
        ((("1", '{"k":"a"}'), ("2", '{"k":"b"}')), {"overlap": "off"}),
    ],
    ids=["payloads all alike", "one event only", "switched off"],
)
async def test_no_probe_where_it_could_prove_nothing(
    broker: EmbeddedBroker, events: tuple[tuple[str, str], ...], plain: dict[str, Any]
) -> None:
    """The connection asks behind its last event, as any client does."""
    script = (stream(sse(*events)), stream(sse(("3", '{"k":"c"}')), end=End.HANG))
    sources = source_at("", **plain)
    async with ScriptedSource(*script) as source:
        sources["orders"]["url"] = source.url
        async with house(broker, sources) as home:
            await home.init()
            async with home.bridge():
                await source.asked_times(2)
                await until(lambda: _verdicts(home, 2), "a second verdict")

            assert events[-1][0] == source.requests[1].asked
            assert "unverifiable" == (await home.verdicts())[1]


async def test_what_differs_each_time_is_left_out_of_the_comparison(
    broker: EmbeddedBroker,
) -> None:
    """A source may stamp each sending; the pointers to that are its configuration's."""
    script = (
        stream(sse(("1", '{"k":"a","at":1}'), ("2", '{"k":"b","at":1}'))),
        stream(sse(("2", '{"at":9,"k":"b"}'), ("3", '{"k":"c","at":9}')), end=End.HANG),
    )
    sources = source_at("", volatile=["/at"])
    async with ScriptedSource(*script) as source:
        sources["orders"]["url"] = source.url
        async with house(broker, sources) as home:
            await home.init()
            async with home.bridge():
                await published(home, "a", "b", "c")

            assert ["genesis", "resumed"] == await home.verdicts()


async def test_a_racy_join_is_audited_before_the_verdict(broker: EmbeddedBroker) -> None:
    """The first replay lost 4 and 5 on its way to live events; the second one brings them."""
    old = sse(("2", '{"k":"b"}'), ("3", '{"k":"c"}'))
    script = (
        FIRST,
        stream(old, sse(("6", '{"k":"f"}')), end=End.HANG),
        stream(old, sse(("4", '{"k":"d"}'), ("5", '{"k":"e"}'), ("6", '{"k":"f"}'))),
    )
    sources = source_at("", join="racy")
    async with ScriptedSource(*script) as source:
        sources["orders"]["url"] = source.url
        async with house(broker, sources) as home:
            await home.init()
            async with home.bridge():
                await published(home, "a", "b", "c", "d", "e", "f")

            _, second = await home.records()
            assert "resumed" == second.verdict.kind
            assert Reason.AUDIT_DONE in second.verdict.reasons


async def test_a_racy_join_that_cannot_be_audited_is_unverifiable(broker: EmbeddedBroker) -> None:
    """The events are the right ones, but nobody can say that none was lost behind them."""
    old = sse(("2", '{"k":"b"}'), ("3", '{"k":"c"}'))
    script = (
        FIRST,
        stream(old, sse(("6", '{"k":"f"}')), end=End.HANG),
        Reply(status=409, headers={"content-type": "text/plain"}),
    )
    sources = source_at("", join="racy")
    async with ScriptedSource(*script) as source:
        sources["orders"]["url"] = source.url
        async with house(broker, sources) as home:
            await home.init()
            async with home.bridge():
                await published(home, "a", "b", "c", "f")

            _, second = await home.records()
            assert "unverifiable" == second.verdict.kind
            assert Reason.AUDIT_REFUSED in second.verdict.reasons


async def _verdicts(home: House, count: int) -> bool:
    return len(await home.verdicts()) >= count
