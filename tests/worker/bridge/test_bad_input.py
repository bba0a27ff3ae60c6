"""What a broken or hostile source sends: the bridge goes on, and says what it could not take."""

import json
import logging
from typing import Any

import pytest

from fencepost.broker.embedded import EmbeddedBroker
from fencepost.errors import SourceStopped
from fencepost_schemas.event import fingerprint_of
from kit.house import house
from kit.orders import TOKENS, orders, see
from kit.source import End, Reply, ScriptedSource, sse, stream
from kit.wait import until

MIB = 1024 * 1024
LONG_ID = "9" * 5_000
WIDE: dict[str, Any] = {"line_bytes_max": 8 * MIB, "event_bytes_max": 8 * MIB}


def _errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR]


@pytest.mark.parametrize(
    "bad", [b"id: " + LONG_ID.encode(), b"id: a\x01b", b"id:  spaced ", b"id: " + b"7" * 1_000_000]
)
async def test_an_id_that_cannot_be_sent_back(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture, bad: bytes
) -> None:
    """It is published under a place of its own, logged, and the reconnect behind it is doubted."""
    event = bad + b'\ndata: {"k":"b"}\n\n'
    script = (
        stream(sse(("1", '{"k":"a"}')), event, gen="g", floor="1"),
        stream(sse(("2", '{"k":"c"}')), gen="g", floor="1", end=End.HANG),
    )
    async with ScriptedSource(*script) as source, house(broker, orders(source.url)) as home:
        await home.init()
        async with home.bridge():
            await see(home, 3)

        assert ["1", "1+1", "2"] == [event.position for event in await home.events()]
        assert [None, "1"] == [request.asked for request in source.requests]
        assert ["tail_without_id"] == [*(await home.records())[1].verdict.reasons]
        assert any("no request can send back" in line for line in _errors(caplog))


async def test_a_huge_id_as_the_first_word_of_a_reconnect(broker: EmbeddedBroker) -> None:
    """A fact shows what was seen; shown whole, it would make a record that no broker takes."""
    event = b"id: " + b"x" * (MIB - 100) + b'\ndata: {"k":"b"}\n\n'
    script = (
        stream(sse(("1", '{"k":"a"}')), gen="g", floor="1"),
        stream(event, gen="g", floor="1", end=End.HANG),
    )
    async with ScriptedSource(*script) as source, house(broker, orders(source.url)) as home:
        await home.init()
        async with home.bridge():
            await see(home, 2)

        assert ["genesis", "unverifiable"] == await home.verdicts()


async def test_a_huge_type(broker: EmbeddedBroker) -> None:
    """An event type that no header holds counts as none, as one out of the data does."""
    body = sse(("1", '{"k":"a"}'), type="t" * 900_000) + sse(("2", '{"k":"b"}'))
    script = (stream(body, gen="g", floor="1", end=End.HANG),)
    async with ScriptedSource(*script) as source, house(broker, orders(source.url)) as home:
        await home.init()
        async with home.bridge():
            await see(home, 2)

        assert ["", "task"] == [event.type for event in await home.events()]


async def test_a_huge_retry_delay(broker: EmbeddedBroker) -> None:
    """A delay with hundreds of digits is more than a float holds; it is only long."""
    script = (
        stream(b"retry: " + b"9" * 600 + b"\n\n", sse(("1", '{"k":"a"}')), gen="g", floor="1"),
        stream(sse(("2", '{"k":"b"}')), gen="g", floor="1", end=End.HANG),
    )
    async with ScriptedSource(*script) as source, house(broker, orders(source.url)) as home:
        await home.init()
        async with home.bridge():
            await see(home, 2)

        assert ["genesis", "resumed"] == await home.verdicts()


async def test_an_event_larger_than_the_broker_takes(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """It travels without its payload, with its size and fingerprint; later ones are whole."""
    large = json.dumps({"k": "b", "fill": "x" * (2 * MIB)})
    body = sse(("1", '{"k":"a"}'), ("2", large), ("3", '{"k":"c"}'))
    script = (stream(body, gen="g", floor="1", end=End.HANG),)
    async with (
        ScriptedSource(*script) as source,
        house(broker, orders(source.url, **WIDE)) as home,
    ):
        await home.init()
        async with home.bridge() as running:
            await see(home, 3)
            assert not running.done()

        first, second, third = await home.events()
        assert ("", "too_large", "") == (first.withheld, second.withheld, third.withheld)
        assert (b"", len(large)) == (second.payload, second.size)
        assert fingerprint_of(large.encode()) == second.fingerprint
        assert ("2", "b") == (second.position, second.key)
        assert any("larger than the broker takes" in line for line in _errors(caplog))


@pytest.mark.parametrize("line_bytes", [100, 101])
async def test_an_endless_line_strikes_three_times(broker: EmbeddedBroker, line_bytes: int) -> None:
    """The events before it are kept; at the same place for the third time it stops the source."""
    line = b"data: " + b"x" * (line_bytes - 6)
    body = sse(("2", '{"k":"b"}')) + line + b"\n\n"
    script = (
        stream(sse(("1", '{"k":"a"}')) + body, gen="g", floor="1"),
        stream(line + b"\n\n", gen="g", floor="1"),
    )
    fields: dict[str, Any] = {"line_bytes_max": 100, "event_bytes_max": 1_000}
    async with (
        ScriptedSource(*script) as source,
        house(broker, orders(source.url, **fields)) as home,
    ):
        await home.init()
        async with home.bridge() as running:
            if line_bytes == 100:
                await see(home, 3)
                return
            await until(running.done, "the end of the source")

        assert isinstance(running.exception(), SourceStopped)
        assert (
            "orders: the source sent more than 100 bytes in one line, 3 times at the same place: "
            "raise sources.orders.line_bytes_max, or mend the source"
        ) == str(running.exception())
        assert [None, "2", "2"] == [request.asked for request in source.requests]
        assert ["1", "2"] == [event.position for event in await home.events()]


async def test_strikes_at_different_places_do_not_add_up(broker: EmbeddedBroker) -> None:
    """A source that gets on between two oversized lines is followed for ever."""
    line = b"data: " + b"x" * 200 + b"\n\n"

    def part(number: int) -> bytes:
        return sse((str(number), json.dumps({"k": str(number)})))

    script = (
        stream(part(1) + line, gen="g", floor="1"),
        stream(line, gen="g", floor="1"),
        stream(part(2), gen="g", floor="1"),
        stream(line, gen="g", floor="1"),
        stream(line, gen="g", floor="1"),
        stream(part(3), gen="g", floor="1", end=End.HANG),
    )
    fields: dict[str, Any] = {"line_bytes_max": 100, "event_bytes_max": 1_000}
    async with (
        ScriptedSource(*script) as source,
        house(broker, orders(source.url, **fields)) as home,
    ):
        await home.init()
        async with home.bridge() as running:
            await see(home, 3)
            assert not running.done()


async def test_a_source_that_stops_does_not_stop_the_others(broker: EmbeddedBroker) -> None:
    """One source answers 204, which means "do not come back"; the other one is followed on."""
    live = stream(sse(("1", '{"k":"a"}')), gen="g", floor="1", end=End.HANG)
    async with ScriptedSource(Reply(status=204)) as gone, ScriptedSource(live) as source:
        other = {"plain": TOKENS, "keys": "durable", "key": "/k"}
        sources = {**orders(source.url), "gone": {"url": gone.url, **other}}
        async with house(broker, sources) as home:
            await home.init()
            async with home.bridge() as running:
                await see(home, 1)
                await gone.asked_times(1)
                assert not running.done()
