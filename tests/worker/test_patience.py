"""A process that starts waits for a broker that is away, and no longer than it was told to."""

import asyncio
import logging
from random import Random

import pytest

from fencepost.errors import Denied, NotFine, Unanswered, Unreachable
from fencepost.patience import Patience, StoppedWaiting
from fencepost.testing.simulator.loop import run_virtual
from fencepost.testing.simulator.world import SimulatedWorld

LIMIT_S = 30.0


class Asked:
    """Answers once the broker is back, which is after so many seconds."""

    def __init__(self, back_s: float, error: Exception | None = None) -> None:
        self.times = 0
        self._back_s = back_s
        self._error = error if error is not None else Unreachable("no broker answers")

    async def __call__(self) -> str:
        self.times += 1
        if asyncio.get_running_loop().time() < self._back_s:
            raise self._error
        return "here"


def played(asked: Asked, stops_s: float | None = None, limit_s: float = LIMIT_S) -> str:
    async def play() -> str:
        stop = asyncio.Event()
        if stops_s is not None:
            asyncio.get_running_loop().call_later(stops_s, stop.set)
        patience = Patience(SimulatedWorld(Random(1), 0), limit_s, stop)
        return await patience.wait_out(asked)

    return run_virtual(play(), Random(1))


@pytest.mark.parametrize("back_s", [0.0, 0.5, 7.0, LIMIT_S - 3])
@pytest.mark.parametrize("error", [Unreachable("elects"), Unanswered("mute")], ids=str)
def test_a_broker_that_comes_back_in_time(back_s: float, error: Exception) -> None:
    """It is asked again, at growing distances."""
    asked = Asked(back_s, error)
    assert "here" == played(asked)
    assert asked.times <= 8 + back_s


def test_a_broker_that_does_not_come_back(caplog: pytest.LogCaptureFixture) -> None:
    """It ends with the broker's own reason; that somebody waits is told once."""
    with (
        caplog.at_level(logging.WARNING, "fencepost.broker"),
        pytest.raises(Unreachable, match="no broker answers"),
    ):
        played(Asked(1e9))
    assert ["no broker answers; waiting for the broker, up to 30 s"] == caplog.messages


def test_nobody_waits_where_the_limit_is_zero() -> None:
    asked = Asked(1e9)
    with pytest.raises(Unreachable):
        played(asked, limit_s=0.0)
    assert 1 == asked.times


@pytest.mark.parametrize("error", [Denied("no right"), NotFine("no stream")], ids=str)
def test_what_waiting_does_not_mend_is_told_at_once(error: Exception) -> None:
    asked = Asked(1e9, error)
    with pytest.raises(type(error)):
        played(asked)
    assert 1 == asked.times


def test_who_is_told_to_stop_waits_no_longer() -> None:
    asked = Asked(1e9)
    with pytest.raises(StoppedWaiting):
        played(asked, stops_s=3.0)
    assert asked.times < 10
