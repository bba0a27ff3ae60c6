"""Proves what may be resumed from, and that a cursor survives its bytes."""

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fencepost_schemas.cursor import Cursor, Mark, Position, sendable
from fencepost_schemas.limits import EVENT_ID_BYTES_MAX
from fencepost_schemas.standing import Standing

ANY = settings(deadline=None)


@pytest.mark.parametrize(
    "event_id",
    [
        "0", "4118", "-1", "a b", "01HZX", "v=1&n=2", '{"a":1}', "%00", "ä", "😀", "\x80",
        "x" * EVENT_ID_BYTES_MAX, "ä" * (EVENT_ID_BYTES_MAX // 2),
    ],
    ids=lambda event_id: ascii(event_id[:12]),
)  # fmt: skip
def test_an_id_that_a_header_can_carry_is_sendable(event_id: str) -> None:
    """Spaces inside and any UTF-8 text are sent back byte for byte."""
    assert sendable(event_id) is True


@pytest.mark.parametrize(
    "event_id",
    [
        "", " ", "\t", " 1", "1 ", "\t1", "1\t", "1\n", "1\r\nX: y", "\0", "a\0b",
        "a\tb", "a\x1fb", "\x7f", "a\ud800", "4118\ufffd", "x" * (EVENT_ID_BYTES_MAX + 1),
        "ä" * (EVENT_ID_BYTES_MAX // 2) + "x",
    ],
    ids=lambda event_id: ascii(event_id[:12]),
)  # fmt: skip
def test_an_id_that_would_not_arrive_as_it_came_is_not_sendable(event_id: str) -> None:
    """Control characters, outer spaces, lengths over the bound.

    Also what no UTF-8 can carry, and U+FFFD, which stands where the decoder met other bytes: sent
    back, it would name another id.
    """
    assert sendable(event_id) is False


@ANY
@given(st.text(alphabet=st.characters()))
@example("\ud800")
def test_what_is_sendable_goes_through_a_header(event_id: str) -> None:
    """Every sendable id survives UTF-8, a header line and the stripping of outer space."""
    if not sendable(event_id):
        return
    line = b"last-event-id: " + event_id.encode() + b"\r\n"
    assert 1 == line.count(b"\n") == line.count(b"\r")
    assert event_id == line.partition(b":")[2].strip(b" \t\r\n").decode()


positions = st.builds(Position, st.text(), st.integers(0, 2**53))


@ANY
@given(positions, positions)
@example(Position("A", 1), Position("A+1"))
@example(Position("", 1), Position("+1"))
@example(Position("A+1", 1), Position("A", 11))
def test_other_positions_have_other_texts(first: Position, second: Position) -> None:
    """The text of a position goes into keys: an id chosen by a source must not forge another's."""
    assert (first == second) == (str(first) == str(second))


cursors = st.builds(
    Cursor,
    source=st.text(),
    generation=st.text(),
    standing=st.sampled_from(Standing),
    ledger=st.text(),
    owner=st.text(),
    position=st.none() | positions,
    token=st.text(),
    fresh=st.booleans(),
    start=st.text(),
    published=st.integers(0, 2**53),
    ring=st.lists(st.builds(Mark, positions, st.text()), max_size=8).map(tuple),
)


@ANY
@given(cursors)
def test_a_cursor_comes_back_from_its_bytes(cursor: Cursor) -> None:
    """What is resumed from is what was acknowledged, position, ring and all."""
    assert cursor == msgspec.json.decode(msgspec.json.encode(cursor), type=Cursor)


def test_the_empty_position_is_not_the_missing_one() -> None:
    """An event without any id was acknowledged; that is more than nothing."""
    cursor = Cursor("crm", "0001-aaaaaaaa", Standing.GENESIS, "l", "o", position=Position(""))
    back = msgspec.json.decode(msgspec.json.encode(cursor), type=Cursor)
    assert Position("", 0) == back.position
