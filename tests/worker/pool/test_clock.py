"""The broker's clock is believed as far as it can be told when it was read."""

import logging

import pytest

from fencepost.pool.clock import READINGS_MAX, TRIP_S_MAX, BrokerClock


class Told:
    """A world whose readings of the broker take these times, one after the other.

    It is world and broker at once, as far as a clock asks of them, and no type says so.
    """

    def __init__(self, *trips_s: float) -> None:
        self.trips_s = list(trips_s)
        self.now_s = 100.0

    def wall_ms(self) -> int:
        return int(self.now_s * 1000)

    def monotonic_s(self) -> float:
        return self.now_s

    async def clock_ms(self, stream: str) -> int:
        told_ms = self.wall_ms() + 7_000
        self.now_s += self.trips_s.pop(0)
        return told_ms


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
    # It is as much of both ports as a reading asks for.
    clock = BrokerClock(world)  # type: ignore[arg-type]
    await clock.read(world, "LEDGER")  # type: ignore[arg-type]
    assert clock.now_ms() == pytest.approx(world.wall_ms() + 7_000 - off_ms, abs=1)
    assert [] == world.trips_s


async def test_a_broker_that_is_always_slow_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Somebody has to know that leases are judged by a doubtful clock."""
    world = Told(*[2.0] * READINGS_MAX)
    # It is as much of both ports as a reading asks for.
    clock = BrokerClock(world)  # type: ignore[arg-type]
    with caplog.at_level(logging.WARNING, "fencepost.pool"):
        await clock.read(world, "LEDGER")  # type: ignore[arg-type]
    assert ["the broker's clock took 2.0 s to read; the last reading counts"] == caplog.messages
