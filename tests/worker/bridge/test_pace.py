"""Proves that an event that has begun has to end, and that nothing else is counted against it."""

import pytest

from fencepost.bridge.pace import Pace
from fencepost.ports import SourceUnreachable
from fencepost_schemas.sse import Decoder


class Reading:
    """A decoder and a pace that are fed together."""

    def __init__(self) -> None:
        self.decoder = Decoder()
        self.pace = Pace(10.0)

    def feed(self, now_s: float, data: bytes) -> None:
        frames = self.decoder.feed(data)
        self.pace.look(frames, unfinished=self.decoder.unfinished, now_s=now_s)


@pytest.mark.parametrize("drip", [b"x", b"\ndata: x", b"\n: here\ndata: x", b"\nx", b"\nid"])
def test_an_event_that_does_not_end(drip: bytes) -> None:
    """A byte, a line, a comment within it or an unknown field: none of them ends it."""
    reading = Reading()
    reading.feed(0.0, b"data: x")
    for now_s in range(1, 11):
        reading.feed(float(now_s), drip)
    with pytest.raises(SourceUnreachable, match="took longer than 10 s over one event"):
        reading.feed(11.0, drip)


@pytest.mark.parametrize(
    "beat", [b"\n", b": ping\n", b"data: x\n\n", b"id: 1\n\n", b"retry: 1\n\n"]
)
def test_a_slow_source_that_ends_what_it_begins(beat: bytes) -> None:
    """Heartbeats and small events may go on for ever."""
    reading = Reading()
    for now_s in range(0, 1_000, 9):
        reading.feed(float(now_s), beat)


def test_a_busy_source_is_always_in_the_middle_of_something() -> None:
    """Each event has its own time, also where no read ends with an event."""
    reading = Reading()
    reading.feed(0.0, b"data: 0")
    for now_s in range(5, 1_000, 5):
        reading.feed(float(now_s), b"\n\ndata: 1")


def test_the_time_counts_from_the_events_own_beginning() -> None:
    """What was quiet before it does not count."""
    reading = Reading()
    reading.feed(0.0, b"data: 0\n\n")
    reading.feed(100.0, b"data: 1")
    reading.feed(110.0, b"1\n\n")
