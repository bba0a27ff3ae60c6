"""Two connections to one log, with a hole behind each replay: together they have it in order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.bridge.approach import merged
from fencepost.bridge.attempt import Arrival
from fencepost_schemas.sse import Frame

REPLAY_S = 0.5
"""A replay comes at once, between two events."""


def came(number: int, at_s: float) -> Arrival:
    return Arrival(Frame("message", f"data of {number}", str(number), id_seen=True), at_s)


def shown(arrivals: list[Arrival]) -> list[int]:
    return [int(one.frame.last_event_id) for one in arrivals]


def connection(asked: int, opened: int, joined: int, left: int) -> list[Arrival]:
    """Return what a connection brings of a log in which event n is announced at n seconds.

    It asks from behind `asked` as `opened` is the last, and takes part from `joined` until `left`.
    """
    replay = [came(number, opened + REPLAY_S) for number in range(asked + 1, opened + 1)]
    return replay + [came(number, number) for number in range(max(joined, opened) + 1, left + 1)]


@pytest.mark.parametrize(
    ("first", "second", "ended", "order"),
    [
        (connection(1, 3, 3, 6), connection(1, 4, 4, 6), False, [2, 3, 4, 5, 6]),
        (connection(1, 3, 5, 8), connection(1, 5, 5, 8), False, [2, 3, 4, 5, 6, 7, 8]),
        (connection(1, 3, 3, 8), connection(1, 5, 6, 8), False, [2, 3, 4, 5, 6, 7, 8]),
        (connection(1, 3, 3, 6), connection(1, 5, 6, 8), True, [2, 3, 4, 5, 6, 7, 8]),
        (connection(4, 4, 4, 5), connection(3, 4, 5, 7), True, [4, 5, 6, 7]),
        ([came(5, 5.0)], [came(4, 5.1)], False, [4, 5]),
        ([], connection(1, 3, 3, 4), True, [2, 3, 4]),
        (connection(1, 3, 3, 4), [], True, [2, 3, 4]),
    ],
    ids=[
        "no-hole",
        "hole-of-the-first",
        "hole-of-the-second",
        "the-first-was-cut",
        "cut-with-nothing-in-common",
        "a-replay-that-was-late",
        "nothing-on-the-first",
        "nothing-on-the-second",
    ],
)
def test_what_two_connections_brought_is_one_log(
    first: list[Arrival], second: list[Arrival], ended: bool, order: list[int]
) -> None:
    """What one lost at its join the other has, and it stands where the log has it."""
    assert order == shown(merged(first, second, ended=ended))


@given(st.data())
def test_nothing_is_out_of_order_wherever_the_connections_join_and_end(data: st.DataObject) -> None:
    """For any two holes and any cut: each event once, in the order of the log.

    The second is opened when the first takes part, and is read for as long as the first at least.
    """
    draw = data.draw
    opened = draw(st.integers(1, 5), label="opened")
    joined = draw(st.integers(opened, opened + 4), label="joined")
    second_opened = draw(st.integers(joined, joined + 4), label="second opened")
    second_joined = draw(st.integers(second_opened, second_opened + 4), label="second joined")
    left = draw(st.integers(joined, second_joined + 4), label="left")
    over = draw(st.integers(max(left, second_joined), second_joined + 6), label="over")
    first = connection(0, opened, joined, left)
    second = connection(0, second_opened, second_joined, over)

    found = shown(merged(first, second, ended=left < over))

    brought = {*shown(first), *shown(second)}
    assert sorted(brought) == found
