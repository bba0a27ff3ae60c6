"""A join looked at again: what was lost at it, and when nobody can say."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost_policies.cover import (
    Covered,
    CoverReading,
    Found,
    anchored,
    begun,
    join_gap,
    joined,
    owed_since,
)
from fencepost_policies.overlap import Cover, data_digest, digest_of, probes_for, remember
from fencepost_policies.schemes.integer import Integer
from fencepost_policies.schemes.opaque import Opaque
from fencepost_schemas.cursor import Cursor, Mark, Position, Seam
from fencepost_schemas.sse import Frame
from fencepost_schemas.standing import Standing
from fencepost_schemas.verdict import Gap


def frame(number: int, data: str = "") -> Frame:
    return Frame(
        event="task", data=data or f"data {number}", last_event_id=str(number), id_seen=True
    )


def mark(number: int) -> Mark:
    return Mark(Position(str(number)), digest_of(frame(number)))


def cover(before: tuple[int, ...], since: list[int]) -> Cover:
    published = {str(number): data_digest(f"data {number}") for number in since}
    return Cover(tuple(map(mark, before)), str(max(since)), published)


AT_7 = Cursor(
    "crm",
    "0001-aaaaaaaa",
    Standing.RESUMED,
    "ledger",
    "bridge",
    position=Position("7"),
    published=7,
    ring=tuple(map(mark, range(1, 8))),
    seam=Seam((mark(2), mark(3)), sequence=40, published=3),
)


@given(st.data())
def test_exactly_what_a_join_lost_is_found(data: st.DataObject) -> None:
    """Any log, anything of it lost behind the seam but the last: late are the lost ones."""
    behind = list(range(3, data.draw(st.integers(4, 40))))
    kept = data.draw(st.sets(st.sampled_from(behind))) | {behind[-1]}
    reading = CoverReading(cover((1, 2), sorted(kept)), Opaque(), ())
    late = [n for n in behind if reading.take(frame(n)) is Found.LATE]

    assert [n for n in behind if n not in kept] == late
    covered = reading.covered()
    assert covered is not None
    assert len(late) == covered.late
    ring: tuple[Mark, ...] = ()
    for number in (1, 2, *behind):
        ring = remember(ring, mark(number))
    assert ring == covered.ring
    if late:
        inside = [n for n in behind if int(covered.after) < n < int(covered.before)]
        assert set(late) <= set(inside)
        assert inside[0] == late[0]
        assert inside[-1] == late[-1]


@given(st.integers(3, 9))
def test_other_bytes_anywhere_are_noticed(changed: int) -> None:
    """A fork behind the seam is another log, wherever it begins."""
    reading = CoverReading(cover((1, 2), list(range(3, 10))), Opaque(), ())
    found = [reading.take(frame(n, "x" if n == changed else "")) for n in range(3, changed + 1)]
    assert [Found.REPEAT] * (changed - 3) + [Found.OTHER_BYTES] == found
    assert reading.covered() is None


def test_what_is_behind_the_last_published_is_not_late_but_new() -> None:
    """With ordered ids an owed event that was passed over is a miss at once."""
    reading = CoverReading(cover((1, 2), [3, 4]), Integer(), ())
    assert [Found.REPEAT, Found.MISS] == [reading.take(frame(3)), reading.take(frame(5))]


def test_right_behind_a_single_mark_something_known_is_wanted() -> None:
    """One mark proves nothing, so an unknown event there is no evidence of a loss."""
    reading = CoverReading(cover((1,), [3, 4]), Opaque(), ())
    assert Found.MISS is reading.take(frame(2))


def test_an_event_twice_is_not_a_repeat() -> None:
    """The log had it once."""
    reading = CoverReading(cover((1, 2), [3, 4]), Opaque(), ())
    assert reading.covered() is None
    again = CoverReading(cover((1, 2), [3, 4, 5]), Opaque(), ())
    found = [again.take(frame(number)) for number in (3, 4, 3)]
    assert [Found.REPEAT, Found.REPEAT, Found.OTHER_BYTES] == found


@pytest.mark.parametrize(
    "late", [Frame(data="x", last_event_id="3", id_seen=False), frame(3, "3")], ids=["bare", "same"]
)
def test_an_event_without_a_place_is_a_miss(late: Frame) -> None:
    """Its position would count on from another event's."""
    reading = CoverReading(cover((1, 2), [3, 4]), Opaque(), ())
    reading.take(frame(3))
    assert Found.MISS is reading.take(late)


def test_withheld_data_is_known_by_its_place_alone() -> None:
    """What the broker did not take is not there to be compared."""
    reading = CoverReading(Cover((mark(1), mark(2)), "3", {"3": ""}), Opaque(), ())
    assert Found.REPEAT is reading.take(frame(3, "anything"))


# --- the cursor ---------------------------------------------------------------------------------
def test_the_cover_is_asked_first_and_from_before_the_join() -> None:
    """Then come the probes of every day, but for one from the same place."""
    published = {str(n): data_digest(f"data {n}") for n in range(4, 8)}
    first, *others = probes_for(AT_7, published)
    assert (Position("2"), (mark(3),)) == (first.position, first.owed)
    assert Cover((mark(2), mark(3)), "7", published) == first.cover
    assert [Position("1"), Position("6")] == [ask.position for ask in others]


@pytest.mark.parametrize("published", [None, {}], ids=["not known", "nothing"])
def test_without_anything_published_since_there_is_no_cover(
    published: dict[str, str] | None,
) -> None:
    """The probe from the ring brings all that is new anyway."""
    assert [None, None] == [ask.cover for ask in probes_for(AT_7, published)]


def test_a_join_that_could_not_be_covered_is_a_gap() -> None:
    """Everything behind the last mark before it is in doubt, up to where we stand."""
    assert 4 == owed_since(AT_7)
    assert Gap(AT_7.generation, "3", AT_7.generation, "7") == join_gap(AT_7, None)
    assert None is join_gap(AT_7, Covered(AT_7.ring))
    exact = Gap(AT_7.generation, "4", AT_7.generation, "6", exact=True)
    assert exact == join_gap(AT_7, Covered(AT_7.ring, 1, "4", "6"))


def test_what_came_late_is_no_part_of_the_next_cover() -> None:
    """It stands in the log before the new marks, and in the stream behind the new sequence."""
    after = joined(AT_7, Covered(AT_7.ring, late=2, after="3", before="4"), sequence=50)
    assert Seam(AT_7.ring, 50, skip=2, published=9) == after.seam
    assert 9 == after.published
    assert 0 == owed_since(after)


def test_a_generation_begins_with_the_first_mark_that_can_be_asked_for() -> None:
    """Its own join is looked at from there; later marks do not move it."""
    fresh = begun(msgspec.structs.replace(AT_7, published=0), sequence=9)
    assert 0 == owed_since(fresh)
    nameless = Mark(Position("", 0), "d")
    assert fresh == anchored(fresh, nameless)
    one = msgspec.structs.replace(fresh, published=1)
    at_one = anchored(one, mark(1))
    assert Seam((mark(1),), 9, skip=1, published=1) == at_one.seam
    assert at_one == anchored(at_one, mark(2))
