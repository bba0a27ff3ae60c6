"""What counts as health: a lineage that goes on, or a connection that lasts. Nothing else does."""

import asyncio
from collections.abc import Iterator

import pytest

from fencepost.broker.embedded import EmbeddedBroker
from fencepost_policies.retry import WaitBounds
from kit.house import house
from kit.orders import orders, see
from kit.source import End, Reply, Request, ScriptedSource, sse, stream
from kit.wait import until

PATIENT = {"bridge": {"retry_first_s": 1.0, "retry_longest_s": 64.0, "overlap_s": 0.2}}
PLAIN = {"scheme": "integer"}
THREE = sse(("1", '{"k":"a"}'), ("2", '{"k":"b"}'), ("3", '{"k":"c"}'))


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The longest that each wait between two connections might have taken; none takes any."""
    longest: list[float] = []

    def draw_s(bounds: WaitBounds) -> float:
        longest.append(bounds.most_s)
        return 0.0

    monkeypatch.setattr("fencepost.clock.draw_s", draw_s)
    yield longest


async def waits_of(broker: EmbeddedBroker, waits: list[float], *script: Reply) -> list[float]:
    """Return the first six waits where a source answers by this script."""
    never = {"bridge": {**PATIENT["bridge"], "connection_age_s": 0.0}}
    async with (
        ScriptedSource(*script) as source,
        house(broker, orders(source.url, plain=PLAIN), **never) as home,
    ):
        await home.init("earliest")
        async with home.bridge():
            await until(lambda: len(waits) >= 6, "six waits")
    return waits[:6]


@pytest.mark.parametrize(
    "again",
    [stream(), stream(b": hello\n\n"), stream(THREE[THREE.index(b"id: 2") :]), stream(THREE)],
    ids=["nothing", "a greeting", "what was asked for", "all of it"],
)
async def test_a_clean_end_behind_repeats_is_not_taken_for_health(
    broker: EmbeddedBroker, waits: list[float], again: Reply
) -> None:
    """200 and a proper end prove that the server is up, and say nothing of the stream."""
    assert [1, 2, 4, 8, 16, 32] == await waits_of(broker, waits, stream(THREE), again)


async def test_a_server_that_begins_afresh_each_time_makes_no_progress(
    broker: EmbeddedBroker, waits: list[float]
) -> None:
    """Each connection has events, and a generation of its own: it is asked less and less often."""
    counts = [stream(sse(("1", f'{{"k":"{n}"}}'), ("2", f'{{"k":"{n}x"}}'))) for n in range(20)]
    assert [1, 2, 4, 8, 16, 32] == await waits_of(broker, waits, *counts)


async def test_a_lineage_that_goes_on_is_health(broker: EmbeddedBroker, waits: list[float]) -> None:
    """A balancer that cuts every connection is no reason to come back later and later."""
    log = [(str(n), f'{{"k":"{n}"}}') for n in range(1, 20)]
    script = [stream(sse(*log[:3])), *(stream(sse(*log[1:n])) for n in range(4, 19))]
    assert {1} == set(await waits_of(broker, waits, *script))


class Beating(ScriptedSource):
    """Brings one event, then heartbeats for a while, then nothing."""

    def __init__(self, beats: int) -> None:
        super().__init__(stream(sse(("1", '{"k":"a"}')), end=End.HANG))
        self.beats = beats
        self.requests_then = 0

    async def _respond(self, number: int, request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        writer.write(sse(("1", '{"k":"a"}')) if not number else b": hello\n\n")
        for _ in range(self.beats if not number else 0):
            writer.write(b": beat\n\n")
            await writer.drain()
            await asyncio.sleep(0.02)
        self.requests_then = self.requests_then or len(self.requests)
        await self._cut.wait()


async def test_a_heartbeat_holds_a_connection_and_is_no_progress(
    broker: EmbeddedBroker, waits: list[float]
) -> None:
    """Without a byte for the stall limit it is over, and was not healthy for having been open."""
    hasty = {"bridge": {**PATIENT["bridge"], "stall_s": 0.3, "connection_age_s": 0.0}}
    async with (
        Beating(50) as source,  # more than three times the limit
        house(broker, orders(source.url, plain=PLAIN), **hasty) as home,
    ):
        await home.init("earliest")
        async with home.bridge():
            await see(home, 1)
            await source.asked_times(4)
            source.cut()

        assert 1 == source.requests_then
        assert [1, 2, 4] == waits[:3]
        assert ["genesis"] == await home.verdicts()
