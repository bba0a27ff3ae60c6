"""What the overlap probe asks for, and what it takes for the same event."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost_policies.overlap import Ask, asks_for, digest_of, matches, remember
from fencepost_schemas.cursor import Mark, Position
from fencepost_schemas.limits import RING_MARKS_MAX
from fencepost_schemas.sse import Frame


def mark(id: str, data: str = "", ordinal: int = 0) -> Mark:
    return Mark(Position(id, ordinal), digest_of(frame(id, data or id)))


def frame(id: str, data: str, *, event: str = "message", id_seen: bool = True) -> Frame:
    return Frame(event=event, data=data, last_event_id=id, id_seen=id_seen)


RING = (mark("1"), mark("2"), mark("3"), mark("4"))


def test_the_oldest_mark_is_asked_first_and_then_the_last_but_one() -> None:
    """Each ask owes everything behind it, in order."""
    assert (Ask(Position("1"), RING[1:]), Ask(Position("3"), RING[3:])) == asks_for(RING)


def test_two_marks_make_one_ask() -> None:
    """The oldest is the last but one: asking twice would prove nothing new."""
    assert (Ask(Position("1"), RING[1:2]),) == asks_for(RING[:2])


@pytest.mark.parametrize(
    "ring",
    [
        (),
        RING[:1],
        (mark("1", "same"), mark("2", "same"), mark("3", "same")),
        (mark("", "a"), mark("", "b", 1)),
    ],
    ids=["nothing", "one mark", "payloads all alike", "no ids"],
)
def test_nothing_is_asked_where_nothing_could_be_proven(ring: tuple[Mark, ...]) -> None:
    """A probe that any server could pass is no probe."""
    assert () == asks_for(ring)


def test_a_mark_without_an_id_of_its_own_is_owed_but_never_asked_for() -> None:
    """There is nothing to send for it; its bytes are wanted back all the same."""
    ring = (mark("1", "a"), mark("1", "b", 1), mark("2", "c"))
    assert (Ask(Position("1"), ring[1:]),) == asks_for(ring)


def test_the_ring_keeps_the_newest_marks() -> None:
    """It is bounded, whatever comes."""
    ring: tuple[Mark, ...] = ()
    for number in range(RING_MARKS_MAX + 3):
        ring = remember(ring, mark(str(number)))
    assert [str(n) for n in range(3, RING_MARKS_MAX + 3)] == [one.position.id for one in ring]


@pytest.mark.parametrize(
    ("came", "expected"),
    [
        (frame("2", "2"), True),
        (frame("2", "3"), False),
        (frame("3", "2"), False),
        (frame("2", "2", id_seen=False), False),
        (frame("2", "2", event="other"), False),
    ],
    ids=["the same", "other bytes", "another id", "no id of its own", "another type"],
)
def test_only_the_same_id_with_the_same_bytes_matches(came: Frame, expected: bool) -> None:
    """Every byte counts: type, id and data."""
    assert expected is matches(mark("2"), came, ())


def test_an_event_without_an_id_is_known_by_its_bytes() -> None:
    """It inherits the id before it, and has to come back without one."""
    without = mark("2", "x", 1)
    assert matches(without, frame("2", "x", id_seen=False), ())
    assert not matches(without, frame("2", "x"), ())


def test_volatile_fields_and_the_order_of_fields_do_not_count() -> None:
    """What is left is compared as data, for the source writes it anew each time."""
    first, second = frame("1", '{"a":1,"at":{"t":5},"b":2}'), frame("1", '{"b":2,"a":1,"at":{}}')
    assert digest_of(first, ("/at/t",)) == digest_of(second, ("/at/t",))
    assert digest_of(first) != digest_of(second)


def test_data_that_is_no_json_is_compared_as_it_is() -> None:
    """A pointer into it names nothing."""
    assert digest_of(frame("1", "plain"), ("/at",)) == digest_of(frame("1", "plain"))


@given(st.text(), st.text(), st.text(), st.text())
def test_type_and_data_are_not_confused(type1: str, data1: str, type2: str, data2: str) -> None:
    """No other pair of type and data has the same digest; NUL stands in neither of a real one."""
    one = frame("1", data1.replace("\0", ""), event=type1.replace("\0", ""))
    two = frame("1", data2.replace("\0", ""), event=type2.replace("\0", ""))
    same = (one.event, one.data) == (two.event, two.data)
    assert same is (digest_of(one) == digest_of(two))


def test_a_source_that_begins_with_what_it_is_asked_for_owes_that_too() -> None:
    """Where the position is inclusive, the mark that is asked from comes back itself."""
    assert (Ask(Position("1"), RING), Ask(Position("3"), RING[2:])) == asks_for(
        RING, inclusive=True
    )
