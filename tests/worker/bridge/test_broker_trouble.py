"""The broker dies, freezes or is full while events flow: the bridge waits, and nothing is lost."""

import asyncio
import json
import logging
import signal
from typing import Any

import pytest

from fencepost.broker.embedded import EmbeddedBroker
from fencepost_schemas.subject import EVENTS
from kit.house import House, house
from kit.log import LogSource
from kit.orders import orders, see
from kit.wait import until

HASTY = {"broker": {"reply_s": 1.0}}


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.bridge.shelf.FULL_S", 0.05)


async def _keys(home: House) -> list[str]:
    return [json.loads(event.payload)["k"] for event in await home.events()]


def _numbered(first: int, last: int) -> list[str]:
    return [f"k{number}" for number in range(first, last + 1)]


async def test_a_broker_that_is_killed_and_comes_back(broker: EmbeddedBroker) -> None:
    """kill -9 in the middle of a flow, then the same store and port: all once, one generation."""
    async with LogSource() as source, house(broker, orders(source.url), **HASTY) as home:
        await home.init()
        async with home.bridge() as running:
            flow = asyncio.create_task(_flow(source, 300))
            await see(home, 20)
            await broker.kill()
            await broker.start()
            await flow
            await see(home, 300)
            assert not running.done()

        assert _numbered(1, 300) == await _keys(home)
        assert ["genesis"] == await home.verdicts()
        assert "300" == str((await home.cursor()).position)


async def _flow(source: LogSource, count: int) -> None:
    """Add events one by one, as fast as the loop turns."""
    for key in _numbered(1, count):
        await source.add(key)
        await asyncio.sleep(0.002)


async def test_a_reply_that_is_lost(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """The broker freezes behind a batch that is sent: the bridge looks, and finds its own write."""
    frozen = asyncio.Event()

    def reached(point: str) -> None:
        if point == "batch_sent" and not frozen.is_set():
            assert broker.process is not None
            broker.process.send_signal(signal.SIGSTOP)
            frozen.set()

    slow: dict[str, Any] = {"broker": {"reply_s": 0.2}}
    async with LogSource() as source, house(broker, orders(source.url), **slow) as home:
        await home.init()
        await source.add("a", "b")
        async with home.bridge(reached) as running:
            await frozen.wait()
            await until(lambda: "looking whether it was stored" in caplog.text, "the doubt")
            assert broker.process is not None
            broker.process.send_signal(signal.SIGCONT)
            await source.add("c")
            await see(home, 3)
            assert not running.done()

        assert ["a", "b", "c"] == await _keys(home)
        assert ["genesis"] == await home.verdicts()


@pytest.mark.parametrize("bound", ["max_msgs", "max_bytes"])
async def test_a_full_stream_is_waited_out(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture, bound: str
) -> None:
    """The stream refuses: that is logged as an error, whole batches wait, and all come at last."""
    async with LogSource() as source, house(broker, orders(source.url)) as home:
        await home.init()
        await source.add("a", "b")
        async with home.bridge() as running:
            await see(home, 2)
            state = (await home.connection.api(f"STREAM.INFO.{EVENTS}"))["state"]
            # Room for a part of the next batch only: nothing of it may stay.
            room = {"max_msgs": state["messages"] + 3, "max_bytes": state["bytes"] + 2_000}
            await _bound(home, **{bound: room[bound]})
            await source.add(*_numbered(1, 20))
            await until(lambda: "does not take events" in caplog.text, "the refusal")
            assert ["a", "b"] == (await _keys(home))[:2]
            assert not running.done()
            await _bound(home, **{bound: -1})
            await see(home, 22)

        assert ["a", "b", *_numbered(1, 20)] == await _keys(home)
        assert ["genesis"] == await home.verdicts()
        refusals = [one for one in caplog.records if "does not take events" in one.getMessage()]
        assert {logging.ERROR} == {one.levelno for one in refusals}


async def _bound(home: House, **bounds: int) -> None:
    """Change the stream's limits, as an operator would."""
    found = await home.connection.api(f"STREAM.INFO.{EVENTS}")
    reply = await home.connection.api(f"STREAM.UPDATE.{EVENTS}", {**found["config"], **bounds})
    assert "error" not in reply, reply
