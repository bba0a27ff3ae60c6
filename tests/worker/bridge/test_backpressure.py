"""The broker does not take, and the source does not stop: the bridge stops reading.

A gigabyte goes through a real socket into a bridge that is a process of its own, on a broker that
is frozen again and again. What the bridge ever held is what its kernel says it did.
"""

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import nats
import pytest

from fencepost.broker.embedded import EmbeddedBroker
from fencepost_schemas.limits import FLOOD_BYTES_MAX, KIB, MIB
from fencepost_schemas.subject import EVENTS
from kit.command import configure, started
from kit.house import House, house
from kit.orders import orders
from kit.source import Request, ScriptedSource
from kit.wait import until

EVENTS_SENT = 4_096
EVENT_BYTES = 256 * KIB
FREEZES = 2
FROZEN_S = 1.0
"""Twice that is longer than the bridge waits for a reply."""
SOCKETS_BYTES_MAX = 16 * MIB
"""What the kernel may hold of a connection, and this process of what it could not send."""


class Flood(ScriptedSource):
    """Sends a gigabyte to its first connection, as fast as that is read, and then stays open."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = 0

    async def _respond(self, number: int, request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
            b"gen: g\r\nfloor: 1\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        first = int(request.asked or 0) + 1
        for event in range(first, EVENTS_SENT + 1):
            writer.write(_chunk(event))
            await writer.drain()
            self.sent = max(self.sent, event)
        await self._cut.wait()


def _chunk(number: int) -> bytes:
    head = f'id: {number}\nevent: task\ndata: {{"k":"{number}","pad":"'.encode()
    text = head + b"x" * (EVENT_BYTES - len(head) - 2) + b'"}\n\n'
    return f"{len(text):x}\r\n".encode() + text + b"\r\n"


def memory_bytes(pid: int, field: str) -> int:
    """Return what the kernel says of a process: VmRSS is now, VmHWM is the most it ever was."""
    for line in Path(f"/proc/{pid}/status").read_text("utf-8").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * KIB
    raise AssertionError(f"no {field} in the status of {pid}")


@pytest.fixture
async def lazy_broker(tmp_path: Path) -> AsyncIterator[EmbeddedBroker]:
    """Not synced on every write: what is slow here is what the test makes slow."""
    async with EmbeddedBroker(tmp_path / "broker", sync_always=False) as running:
        yield running


async def test_a_gigabyte_while_the_broker_is_frozen_again_and_again(
    lazy_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    broker = lazy_broker
    async with Flood() as source, house(broker, orders(source.url)) as home:
        await home.init("earliest")
        configure(tmp_path, broker.url, orders(source.url), broker={"reply_s": 1.0})
        async with started("bridge", folder=tmp_path) as bridge:
            pid = bridge.process.pid
            await source.asked_times(1)
            idle = memory_bytes(pid, "VmRSS")
            for part in range(1, FREEZES + 1):
                await _freeze(broker, source, home, EVENTS_SENT * part // (FREEZES + 1))
            await until(lambda: source.sent == EVENTS_SENT, "the whole gigabyte to be sent", 180)

            async def all_stored() -> bool:
                cursor = await home.cursor()
                return cursor.position is not None and cursor.position.id == str(EVENTS_SENT)

            await until(all_stored, "the whole gigabyte to be stored", 120)
            peak = memory_bytes(pid, "VmHWM")
            assert bridge.process.returncode is None

        assert peak - idle <= FLOOD_BYTES_MAX
        assert [str(number) for number in range(1, EVENTS_SENT + 1)] == await _positions(broker)
        assert ["genesis"] == await home.verdicts()
        assert 1 == len(source.requests)


async def _freeze(broker: EmbeddedBroker, source: Flood, home: House, after: int) -> None:
    """Freeze the broker once so much is sent: the source cannot get rid of more than the bound."""
    await until(lambda: source.sent >= after, f"{after} events to be sent", 120)
    assert broker.process is not None
    broker.process.send_signal(signal.SIGSTOP)
    try:
        before = source.sent
        await asyncio.sleep(FROZEN_S)
        taken = (source.sent - before) * EVENT_BYTES
        assert taken <= FLOOD_BYTES_MAX + SOCKETS_BYTES_MAX
        still = source.sent
        await asyncio.sleep(FROZEN_S)
        assert still == source.sent, "the bridge goes on reading"
    finally:
        broker.process.send_signal(signal.SIGCONT)


async def _positions(broker: EmbeddedBroker) -> list[str]:
    """Return the position of every stored event, in order, without a gigabyte of payloads."""
    client = await nats.connect(broker.url)
    stream = client.jetstream()
    await stream.add_consumer(
        EVENTS,
        durable_name="look",
        ack_policy="none",
        filter_subject="fp.events.>",
        headers_only=True,
    )
    pull = await stream.pull_subscribe_bind("look", EVENTS)
    found: list[str] = []
    while len(found) < EVENTS_SENT:
        for message in await pull.fetch(512, timeout=10):
            found.append((message.headers or {})["ce-position"])
    await client.close()
    return found
