"""Every kind of word against a stream, from the socket to the record: where it turns, and why."""

from typing import Any

import pytest

from fencepost.bridge import attempt
from fencepost.broker.embedded import EmbeddedBroker
from fencepost.errors import SourceStopped
from fencepost_schemas.verdict import Gap
from kit.house import House, house
from kit.orders import live, orders, see, see_verdicts
from kit.source import End, ScriptedSource, sse, stream

DENSE = {"scheme": "integer-dense", "generation_header": "gen"}
GREETING = {**DENSE, "control_events": ["hello"], "generation_control": "/g"}
GONE = {**DENSE, "reset_comments": ["^:?410:"]}


async def followed(home: House, events: int) -> list[tuple[str, str]]:
    """Return generation and position of the events, once there are so many."""
    await home.init()
    async with home.bridge():
        await see(home, events)
    return [(event.generation[:4], event.position) for event in await home.events()]


def at(url: str, plain: dict[str, Any]) -> dict[str, Any]:
    return orders(url, plain=plain)


async def test_a_hole_in_mid_stream_is_a_gap_of_known_size(broker: EmbeddedBroker) -> None:
    """The source names its generation and numbers without holes: what is missing is counted."""
    script = (live(("1", '{"k":"a"}'), ("2", '{"k":"b"}'), ("6", '{"k":"c"}'), gen="g"),)
    async with ScriptedSource(*script) as source, house(broker, at(source.url, DENSE)) as home:
        assert [("0001", "1"), ("0001", "2"), ("0002", "6")] == await followed(home, 3)
        first, second = await home.records()
        assert ("reoriginated", ("dense_hole",)) == (second.verdict.kind, second.verdict.reasons)
        gap = Gap(first.generation, "2", second.generation, "6", exact=True, missing=3)
        assert gap == second.gap


async def test_the_very_next_id_stands_in_for_a_window(broker: EmbeddedBroker) -> None:
    """A reconnect that goes on with it, in the same generation, is resumed without a probe."""
    script = (stream(sse(("1", '{"k":"a"}')), gen="g"), live(("2", '{"k":"b"}'), gen="g"))
    async with ScriptedSource(*script) as source, house(broker, at(source.url, DENSE)) as home:
        assert [("0001", "1"), ("0001", "2")] == await followed(home, 2)
        assert ["genesis", "resumed"] == await home.verdicts()


async def test_the_very_event_again_is_published_once(broker: EmbeddedBroker) -> None:
    """In mid-stream as in what is held; other bytes under its id are another stream."""
    script = (
        stream(sse(("1", '{"k":"a"}'), ("1", '{"k":"a"}'), ("2", '{"k":"b"}')), gen="g"),
        live(("3", '{"k":"c"}'), ("3", '{"k":"c"}'), ("4", '{"k":"d"}'), ("4", "{}"), gen="g"),
    )
    async with ScriptedSource(*script) as source, house(broker, at(source.url, DENSE)) as home:
        places = await followed(home, 5)
        assert [("0001", id) for id in "1234"] + [("0002", "4")] == places
        assert ("id_reused",) == (await home.records())[-1].verdict.reasons


async def test_a_reset_comment_turns_the_next_event(broker: EmbeddedBroker) -> None:
    """The comment has no place of its own; the first event behind it begins the generation."""
    body = (sse(("1", '{"k":"a"}')), b":410: 410 Gone\n\n", sse(("2", '{"k":"b"}')))
    script = (stream(*body, gen="g", end=End.HANG),)
    async with ScriptedSource(*script) as source, house(broker, at(source.url, GONE)) as home:
        assert [("0001", "1"), ("0002", "2")] == await followed(home, 2)
        assert ("reset_comment",) == (await home.records())[-1].verdict.reasons


@pytest.mark.parametrize("end", [End.CLOSE, End.BREAK])
async def test_a_reset_comment_before_the_end_is_judged_with_the_next_connection(
    broker: EmbeddedBroker, end: End
) -> None:
    """It is not forgotten with the connection: what looks like a resume behind it is none."""
    script = (
        stream(sse(("1", '{"k":"a"}')), b":410: 410 Gone\n\n", gen="g", end=end),
        live(("2", '{"k":"b"}'), gen="g"),
    )
    async with ScriptedSource(*script) as source, house(broker, at(source.url, GONE)) as home:
        assert [("0001", "1"), ("0002", "2")] == await followed(home, 2)
        second = (await home.records())[-1]
        expected = ("reoriginated", ("reset_comment",))
        assert expected == (second.verdict.kind, second.verdict.reasons)
        assert [None, None] == [request.asked for request in source.requests]


async def test_a_greeting_is_heard_and_not_published(broker: EmbeddedBroker) -> None:
    """It names the generation, at the beginning of a connection and in the middle of one."""
    hello = (sse(("", '{"g":"g"}'), type="hello").replace(b"id: \n", b""),)
    other = sse(("", '{"g":"h"}'), type="hello").replace(b"id: \n", b"")
    greeting = {**GREETING, "generation_header": ""}
    script = (
        stream(*hello, sse(("1", '{"k":"a"}'))),
        stream(*hello, sse(("2", '{"k":"b"}')), other, sse(("3", '{"k":"c"}')), end=End.HANG),
    )
    async with ScriptedSource(*script) as source, house(broker, at(source.url, greeting)) as home:
        assert [("0001", "1"), ("0001", "2"), ("0002", "3")] == await followed(home, 3)
        await see_verdicts(home, 3)
        assert ["genesis", "resumed", "reoriginated"] == await home.verdicts()
        assert ["g", "g", "h"] == [record.token for record in await home.records()]
        assert ("generation_changed",) == (await home.records())[-1].verdict.reasons


async def test_text_that_a_proxy_put_in_opens_the_question_again(broker: EmbeddedBroker) -> None:
    """What comes behind it may not be what the source sent next."""
    body = (sse(("1", '{"k":"a"}')), b"Failed to retrieve next link.\n\n", sse(("2", '{"k":"b"}')))
    more = (b"Failed again.\n\n", sse(("3", '{"k":"c"}')))
    script = (stream(*body, *more, gen="g", end=End.HANG),)
    async with ScriptedSource(*script) as source, house(broker, at(source.url, DENSE)) as home:
        assert [("0001", "1"), ("0002", "2"), ("0003", "3")] == await followed(home, 3)
        assert ("text_injected",) == (await home.records())[-1].verdict.reasons


@pytest.mark.parametrize(("waited_s", "verdict"), [(0.0, "resumed"), (60.0, "unverifiable")])
async def test_who_was_away_for_less_than_the_source_remembers_has_missed_nothing(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, waited_s: float, verdict: str
) -> None:
    """The time runs from when the last connection surely went on; where nobody waited for what it
    brought, that is not known."""
    monkeypatch.setattr(attempt, "WAITED_S", waited_s)
    plain = {"scheme": "integer", "generation_header": "gen", "window_age_s": 60, "overlap": "off"}
    script = (stream(sse(("1", '{"k":"a"}')), gen="g"), live(("2", '{"k":"b"}'), gen="g"))
    async with ScriptedSource(*script) as source, house(broker, at(source.url, plain)) as home:
        await followed(home, 2)
        assert ["genesis", verdict] == await home.verdicts()
        reason = "window_covers" if verdict == "resumed" else "window_absent"
        assert reason in (await home.records())[-1].verdict.reasons


@pytest.mark.parametrize(
    ("plain", "last"),
    [
        ({"end_data": ["[DONE]"]}, b"data: [DONE]\n\n"),
        ({"end_events": ["return"]}, b"event: return\ndata\n\n"),
    ],
)
async def test_a_source_that_has_ended_is_not_asked_again(
    broker: EmbeddedBroker, plain: dict[str, Any], last: bytes
) -> None:
    """What it brought is published, and its end stops it by name."""
    script = (stream(sse(("1", '{"k":"a"}')), last, gen="g"),)
    settings = {**DENSE, **plain, "ignore": ["return"]}
    async with ScriptedSource(*script) as source, house(broker, at(source.url, settings)) as home:
        await home.init()
        with pytest.raises(SourceStopped, match="orders: the source has ended"):
            async with home.bridge() as running:
                await running
        assert ["1"] == [event.position for event in await home.events()]
        assert 1 == len(source.requests)


async def test_state_is_published_as_such(broker: EmbeddedBroker) -> None:
    """Flagged, in a generation of its own, with what comes live behind it."""
    plain = {**DENSE, "snapshot_until": ["ready"], "ignore": ["ready"]}
    state = sse(("1", '{"k":"s"}'), ("1", '{"k":"t"}'))
    ready = b"event: ready\ndata: {}\n\n"
    script = (
        stream(state, ready, sse(("2", '{"k":"a"}')), gen="g"),
        stream(state, ready, sse(("3", '{"k":"b"}')), gen="g", end=End.HANG),
    )
    async with ScriptedSource(*script) as source, house(broker, at(source.url, plain)) as home:
        await home.init()
        async with home.bridge():
            await see(home, 6)
        flags = [(event.generation[:4], event.snapshot) for event in await home.events()]
        assert [("0001", True), ("0001", True), ("0001", False)] == flags[:3]
        assert [("0002", True), ("0002", True), ("0002", False)] == flags[3:]
        assert ("snapshot_sent",) == (await home.records())[-1].verdict.reasons
