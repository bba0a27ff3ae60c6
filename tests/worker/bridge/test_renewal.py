"""A connection that has grown old or quiet is resumed anew, and never to the worse."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.broker.embedded import EmbeddedBroker
from kit.house import House, house
from kit.log import LogSource
from kit.orders import see
from kit.source import Request
from kit.wait import until

QUIET = {"bridge": {"quiet_s": 0.2, "connection_age_s": 0.0, "overlap_s": 0.5}}
OLD = {"bridge": {"quiet_s": 0.0, "connection_age_s": 0.3, "overlap_s": 0.5}}
OLD_SOON = {"bridge": {"quiet_s": 0.0, "connection_age_s": 0.1, "overlap_s": 0.5}}
"""Sooner than a resume takes that proves nothing."""


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.bridge.renewal.AUDIT_QUIET_S", 0.2)
    monkeypatch.setattr("fencepost.bridge.renewal.RENEWAL_S_MAX", 2.0)


class Server(LogSource):
    """Keeps a log, and beats. `joins` says when a connection takes part in what comes live.

    It is given the number of the connection, from 0, and may wait; False is never. What is added
    while it waits is lost to that connection, unless it asks again. A connection with a `swap` is
    served another log.
    """

    def __init__(self, *keys: str, forgets: bool = False) -> None:
        super().__init__(declares=False, forgets=forgets)
        self.log = list(keys)
        self.open = 0
        self.most_open = 0
        self.fewest_open = 99
        self.other: list[str] | None = None
        self.joins: Callable[[int], Any] = lambda number: True

    async def _respond(self, number: int, request: Request, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            await self._serve(number, request, writer)
        except ConnectionError:
            pass
        finally:
            self.open -= 1
            self.fewest_open = min(self.fewest_open, self.open)

    async def _serve(self, number: int, request: Request, writer: asyncio.StreamWriter) -> None:
        head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
        writer.write(f"{head}transfer-encoding: chunked\r\n\r\n".encode())
        log = self.other if self.other is not None else self.log
        place = int(request.asked) if request.asked and not self.forgets else 0
        place = self._bring(log, place, writer)
        joined = self.joins(number)
        if not isinstance(joined, bool):
            joined = await joined
            place = len(log)
        while True:
            if joined:
                place = self._bring(log, place, writer)
            self._write(writer, ": beat\n\n")
            await writer.drain()
            await asyncio.sleep(0.02)

    def _bring(self, log: list[str], place: int, writer: asyncio.StreamWriter) -> int:
        for number, key in enumerate(log[place:], place + 1):
            self._write(writer, f"id: {number}\ndata: {json.dumps({'k': key})}\n\n")
        return len(log)


def source_at(url: str, **plain: Any) -> dict[str, Any]:
    plain = {"scheme": "integer", **plain}
    return {"orders": {"url": url, "keys": "durable", "key": "/k", "plain": plain}}


async def keys_of(home: House) -> list[str | None]:
    return [event.key for event in await home.events()]


async def test_what_a_connection_never_brought_is_found_after_a_silence(
    broker: EmbeddedBroker,
) -> None:
    """A server that replays and never joins the live stream: each silence is looked behind."""
    source = Server("a", "b", "c")
    source.joins = lambda number: False
    async with source, house(broker, source_at(source.url), **QUIET) as home:
        await home.init("earliest")
        async with home.bridge():
            await see(home, 3)
            await source.add("d", "e")
            await see(home, 5)
            await source.add("f")
            await see(home, 6)

        assert ["a", "b", "c", "d", "e", "f"] == await keys_of(home)
        assert ["genesis", "resumed", "resumed"] == await home.verdicts()
        assert 1 == len({event.generation for event in await home.events()})


async def test_one_silence_is_looked_behind_once(broker: EmbeddedBroker) -> None:
    """Heartbeats go on and are no events; a proof that brings nothing needs no record."""
    source = Server("a", "b", "c")
    async with source, house(broker, source_at(source.url), **QUIET) as home:
        await home.init("earliest")
        async with home.bridge():
            await source.asked_times(2)
            await until(lambda: source.open == 1, "the old connection to be let go")
            await asyncio.sleep(1.0)  # five silences long
            assert 2 == len(source.requests)
            await source.add("d")
            await source.asked_times(3)
            await see(home, 4)

        assert ["a", "b", "c", "d"] == await keys_of(home)
        assert "genesis" == (await home.verdicts())[0]
        assert {"genesis", "resumed"} >= set(await home.verdicts())


async def test_an_old_connection_is_let_go_behind_the_new_one(broker: EmbeddedBroker) -> None:
    """Events flow all the while: each comes once and in order, and one is always connected."""
    source = Server("a", "b")
    async with source, house(broker, source_at(source.url), **OLD) as home:
        await home.init("earliest")
        async with home.bridge():
            await see(home, 2)
            source.fewest_open = 99
            for number in range(150):
                await source.add(f"k{number}")
                await asyncio.sleep(0.02)
            await source.asked_times(4)
            await see(home, 152)
            assert 1 <= source.fewest_open
            assert 2 == source.most_open

        assert ["a", "b", *(f"k{number}" for number in range(150))] == await keys_of(home)
        assert {"genesis", "resumed"} == set(await home.verdicts())
        # Only of the first connection, which asked for nothing, nobody can look at the join.
        assert {None} == {record.join_gap for record in (await home.records())[2:]}


async def test_what_the_new_connection_loses_at_its_join_comes_on_the_old_one(
    broker: EmbeddedBroker,
) -> None:
    """`x` falls between its replay and its live events; the old one goes on until that is over."""
    source = Server("a", "b", "c")
    replayed, lost = asyncio.Event(), asyncio.Event()

    async def late() -> bool:
        replayed.set()
        await lost.wait()
        return True

    source.joins = lambda number: late() if number == 1 else True
    async with source, house(broker, source_at(source.url), **OLD) as home:
        await home.init("earliest")
        async with home.bridge():
            await replayed.wait()
            await source.add("x")
            await asyncio.sleep(0.06)  # the old connection's next turn
            lost.set()
            await see(home, 4)
            await source.add("y")
            await see(home, 5)

        assert ["a", "b", "c", "x", "y"] == await keys_of(home)
        assert ["genesis", "resumed"] == (await home.verdicts())[:2]


@pytest.mark.parametrize(
    ("sections", "requests"),
    [(QUIET, 2), (OLD, 4), (OLD_SOON, 4)],
    ids=["quiet", "old", "old soon"],
)
async def test_a_source_that_cannot_prove_a_resume_is_left_in_peace(
    broker: EmbeddedBroker, sections: dict[str, Any], requests: int
) -> None:
    """It starts over each time. The connection that we have is in order, and goes on."""
    source = Server("a", "b", "c", forgets=True)
    async with source, house(broker, source_at(source.url), **sections) as home:
        await home.init("earliest")
        async with home.bridge():
            await source.asked_times(requests)
            await until(lambda: source.open == 1, "the new connections to be let go")
            await source.add("d")
            await see(home, 4)

        assert ["a", "b", "c", "d"] == await keys_of(home)
        assert ["genesis"] == await home.verdicts()


async def test_a_source_without_ids_is_not_asked_again(broker: EmbeddedBroker) -> None:
    """Nothing could prove a resume, so there is none."""
    body = b'data: {"k":"a"}\n\ndata: {"k":"b"}\n\n'
    async with Bare(body) as source, house(broker, source_at(source.url), **QUIET) as home:
        await home.init("earliest")
        async with home.bridge():
            await see(home, 2)
            await asyncio.sleep(1.0)
            assert 1 == len(source.requests)


class Bare(Server):
    def __init__(self, body: bytes) -> None:
        super().__init__()
        self._body = body

    def _bring(self, log: list[str], place: int, writer: asyncio.StreamWriter) -> int:
        if not place:
            self._write(writer, self._body.decode())
        return 1


async def test_behind_a_silence_the_source_may_be_another_one(broker: EmbeddedBroker) -> None:
    """It has honoured a resume before, so what it answers now is believed."""
    source = Server("a", "b", "c")
    async with source, house(broker, source_at(source.url), **QUIET) as home:
        await home.init("earliest")
        async with home.bridge():
            await source.asked_times(2)
            await until(lambda: source.open == 1, "the old connection to be let go")
            source.other = ["x", "y", "z"]
            await source.add("d")  # still heard on the connection that is open

            async def another() -> bool:
                return "reoriginated" in await home.verdicts()

            await until(another, "the other stream to be judged")
            await see(home, 6)

        assert ["a", "b", "c", "d", "y", "z"] == await keys_of(home)
        gap = (await home.records())[-1].gap
        assert gap is not None
        assert ("4", "2") == (gap.after_position, gap.before_position)
