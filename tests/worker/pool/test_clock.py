"""The broker's clock: when it was read, how long it has stood, and who may set what."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

import pytest

from fencepost.errors import Unanswered
from fencepost.pool.clock import READINGS_MAX, STEP_MS, TRIP_S_MAX, BrokerClock

READING_S = 0.02
BEGIN_MS = 1_780_000_000_000


class Told:
    """A machine and the broker that it asks, each with the clocks that a test gives it.

    It is world and broker at once, as far as a clock asks of them, and no type says so.
    """

    def __init__(self, *trips_s: float) -> None:
        self.trips_s = list(trips_s)
        self.now_s = 100.0
        self.ahead_ms = 7_000
        """How far the broker's clock is ahead of where this machine's began."""
        self.wall_ahead_ms = 0
        self.readings = 0
        self.away = False
        self.asked = asyncio.Event()

    def wall_ms(self) -> int:
        return BEGIN_MS + int(self.now_s * 1000) + self.wall_ahead_ms

    def monotonic_s(self) -> float:
        return self.now_s

    @property
    def broker_ms(self) -> int:
        return BEGIN_MS + int(self.now_s * 1000) + self.ahead_ms

    async def clock_ms(self, stream: str) -> int:
        self.readings += 1
        self.asked.set()
        if self.away:
            raise Unanswered("the broker did not answer")
        told_ms = self.broker_ms
        self.now_s += self.trips_s.pop(0) if self.trips_s else 0.0
        return told_ms


def clock_of(world: Told) -> BrokerClock:
    # It is as much of a world as a clock asks of one.
    return BrokerClock(world, READING_S)  # type: ignore[arg-type]


async def read(clock: BrokerClock, world: Told) -> None:
    # It is as much of a broker as a clock asks of one.
    await clock.read(world, "LEDGER")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("trips_s", "off_ms"),
    [((0.0,), 0), ((0.2,), 100), ((60.0, 0.1), 50), ((TRIP_S_MAX,), 250)],
    ids=["at once", "some way", "paused on the way", "the longest that counts"],
)
async def test_a_reading_that_took_long_is_made_again(
    trips_s: tuple[float, ...], off_ms: int
) -> None:
    """What is left of the error is half the way of the reading that counts."""
    world = Told(*trips_s)
    clock = clock_of(world)
    await read(clock, world)
    assert clock.now_ms() == pytest.approx(world.broker_ms - off_ms, abs=1)
    assert [] == world.trips_s


async def test_a_broker_that_is_always_slow_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Somebody has to know that leases are judged by a doubtful clock."""
    world = Told(*[2.0] * READINGS_MAX)
    with caplog.at_level(logging.WARNING, "fencepost.pool"):
        await read(clock_of(world), world)
    assert ["the broker's clock took 2.0 s to read; the last reading counts"] == caplog.messages


@pytest.mark.parametrize("set_by_ms", [-3_600_000, -61_000, -300, 300, 61_000, 3_600_000])
async def test_the_wall_clock_counts_for_nothing(set_by_ms: int) -> None:
    """Whoever sets it, or how far, the broker's time goes on as it did."""
    world = Told()
    clock = clock_of(world)
    await read(clock, world)
    world.wall_ahead_ms = set_by_ms
    world.now_s += 5.0
    assert clock.now_ms() == world.broker_ms
    assert 5_000 == clock.reading(fresh=False).stood_ms


async def test_a_machine_that_was_suspended_knows_the_time() -> None:
    """Its own clock went on meanwhile, as the broker's did."""
    world = Told()
    clock = clock_of(world)
    await read(clock, world)
    world.now_s += 8 * 3600
    assert clock.now_ms() == world.broker_ms and clock.stale
    await read(clock, world)
    assert not clock.stale
    assert 8 * 3_600_000 == clock.reading(fresh=True).stood_ms


@pytest.mark.parametrize("set_by_ms", [-3_600_000, -STEP_MS, STEP_MS, 40_000, 3_600_000])
async def test_a_broker_whose_clock_was_set_has_to_be_seen_for_a_while(
    set_by_ms: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Another node may lead now: the leases of others were written by a clock that is no more."""
    world = Told()
    clock = clock_of(world)
    await read(clock, world)
    world.now_s += 100.0
    world.ahead_ms += set_by_ms
    with caplog.at_level(logging.WARNING, "fencepost.pool"):
        await read(clock, world)
    assert clock.now_ms() == world.broker_ms
    assert 0 == clock.reading(fresh=True).stood_ms
    assert 1 == len(caplog.messages) and "the broker's clock went" in caplog.messages[0]
    world.now_s += 1.0
    await read(clock, world)
    assert 1_000 == clock.reading(fresh=True).stood_ms


@pytest.mark.parametrize("trip_s", [0.0, 0.4])
async def test_a_clock_that_drifts_or_is_read_slowly_has_not_been_set(trip_s: float) -> None:
    """What the way to the broker may explain is no step of a clock."""
    world = Told(0.0, trip_s)
    clock = clock_of(world)
    await read(clock, world)
    world.now_s += 100.0
    world.ahead_ms += STEP_MS - 1
    await read(clock, world)
    assert clock.reading(fresh=True).stood_ms >= 100_000


async def test_a_clock_that_was_never_read_has_not_been_seen() -> None:
    """Nothing of another worker is judged by it."""
    world = Told()
    clock = clock_of(world)
    assert clock.stale
    world.now_s += 50.0
    await read(clock, world)
    assert 0 == clock.reading(fresh=True).stood_ms


async def test_the_reading_that_was_asked_for_last_counts() -> None:
    """Two threads read it; an answer that was long on its way must not undo a newer one."""
    world = Told()
    clock = clock_of(world)
    await read(clock, world)
    held = asyncio.Event()

    class Slow(Told):
        async def clock_ms(self, stream: str) -> int:
            told_ms = world.broker_ms
            await held.wait()
            return told_ms

    late = asyncio.create_task(read(clock, Slow()))
    await asyncio.sleep(0)
    world.now_s += 0.1
    world.ahead_ms += 60_000
    await read(clock, world)
    held.set()
    await late
    assert clock.now_ms() == world.broker_ms


@contextlib.asynccontextmanager
async def kept(world: Told, clock: BrokerClock) -> AsyncIterator[None]:
    # It is as much of a broker as a clock asks of one.
    keeping = asyncio.create_task(clock.keep(world, "LEDGER"))  # type: ignore[arg-type]
    try:
        yield
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


@pytest.mark.parametrize("set_by_ms", [-3_600_000, 61_000])
async def test_a_wall_clock_that_is_set_has_the_brokers_read_again(
    set_by_ms: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The broker may be on the same machine."""
    world = Told()
    clock = clock_of(world)
    await read(clock, world)
    with caplog.at_level(logging.WARNING, "fencepost.pool"):
        async with kept(world, clock):
            await asyncio.sleep(0)
            world.asked.clear()
            world.wall_ahead_ms += set_by_ms
            world.ahead_ms += set_by_ms
            await world.asked.wait()
            await asyncio.sleep(0)
    assert clock.now_ms() == world.broker_ms
    direction = "forward" if set_by_ms > 0 else "back"
    assert f"the clock of this machine was set {direction}" in caplog.messages[0]


async def test_it_is_read_again_before_it_is_too_old_and_in_spite_of_a_broker_that_is_away() -> (
    None
):
    """One reading is gone by for so long, and no longer."""
    world = Told()
    clock = clock_of(world)
    await read(clock, world)
    async with kept(world, clock):
        world.away = True
        for _ in range(3):
            world.asked.clear()
            world.now_s += READING_S
            await world.asked.wait()
        assert clock.stale
        world.away = False
        world.asked.clear()
        world.now_s += READING_S
        await world.asked.wait()
        await asyncio.sleep(0)
        assert not clock.stale
