"""Proves that a position is found where the dialect says, and nothing else taken for one."""

from collections.abc import Sequence
from typing import Any

import pytest

from fencepost_policies.dialects.described import Dialect
from fencepost_policies.dialects.durable_streams import DIALECT as DURABLE
from fencepost_policies.overlap import Ask, Cover, data_digest, digest_of
from fencepost_schemas.cursor import Mark, Position
from fencepost_schemas.sse import Decoder, Frame

K8S = Dialect(position="/object/metadata/resourceVersion", bookmarks=("BOOKMARK",), type="/type")
X1, X2 = '{"next":"x1"}', '{"next":"x2"}'
BEHIND = Dialect(control_events=("control",), position_control="/next")


def read(dialect: Dialect, text: str, ask: Ask | None = None) -> Sequence[Frame]:
    return dialect.reading(ask).read(Decoder().feed(text.encode()))


def places(frames: Sequence[Frame]) -> list[tuple[str | None, str, bool]]:
    return [(frame.data, frame.last_event_id, frame.id_seen) for frame in frames]


def test_positions_in_the_id_cost_nothing() -> None:
    """Where nothing is said, the very same frames go on."""
    frames = Decoder().feed(b"id: 1\ndata: x\n\n")
    assert frames is Dialect().reading(None).read(frames)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ('{"n": 7}', ("7", True)),
        ('{"n": "a b"}', ("a b", True)),
        ('{"n": 1.5}', ("", False)),
        ('{"n": true}', ("", False)),
        ('{"n": null}', ("", False)),
        ("{}", ("", False)),
        ("no json", ("", False)),
    ],
)
def test_a_number_in_the_data(data: str, expected: tuple[str, bool]) -> None:
    """A text or a whole number is a position; the id beside it is none."""
    (frame,) = read(Dialect(position="/n"), f"id: 99\ndata: {data}\n\n")
    assert (data, *expected) == (frame.data, frame.last_event_id, frame.id_seen)


def test_what_has_no_position_inherits_the_last() -> None:
    """As events without an id do, so that none of them gets another one's place."""
    text = 'data: {"n":1}\n\ndata: {}\n\ndata: {"n":2}\n\n'
    frames = read(Dialect(position="/n"), text)
    assert [("1", True), ("1", False), ("2", True)] == [
        (frame.last_event_id, frame.id_seen) for frame in frames
    ]


def test_a_position_has_to_look_like_one() -> None:
    """An id of another shape is none, and does not take the last one away."""
    dialect = Dialect(position_pattern="[0-9]+")
    frames = read(dialect, "id: 5\ndata: a\n\nid: error\ndata: b\n\ndata: c\n\nid: 6\ndata: d\n\n")
    assert [("5", True), ("5", False), ("5", False), ("6", True)] == [
        (frame.last_event_id, frame.id_seen) for frame in frames
    ]


def test_an_empty_id_is_never_hidden() -> None:
    """It takes the last one back, and a witness has to see that."""
    frames = read(Dialect(position_pattern="[0-9]+"), "id: 5\ndata: a\n\nid:\ndata: b\n\n")
    assert ("", True) == (frames[1].last_event_id, frames[1].id_seen)


def test_only_some_events_may_move_the_position() -> None:
    """Control frames of some servers carry ids that they made up."""
    dialect = Dialect(position_events=("job",))
    frames = read(dialect, "id: 5\nevent: job\ndata: a\n\nid: 9\nevent: status\ndata: b\n\n")
    assert [("5", True), ("5", False)] == [(f.last_event_id, f.id_seen) for f in frames]


def test_bookmarks_are_among_those_that_may() -> None:
    """They are named for nothing else."""
    dialect = Dialect(position_events=("job",), bookmarks=("offset-only",))
    (frame,) = read(dialect, "id: 9\nevent: offset-only\ndata: {}\n\n")
    assert dialect.advances(frame)
    assert "9" == frame.last_event_id


def test_a_bookmark_moves_the_position_and_is_no_event() -> None:
    """Its type is where the dialect's types are."""
    bookmark = '{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"12"}}}'
    (frame,) = read(K8S, f"data: {bookmark}\n\n")
    assert (bookmark, "12", True) == (frame.data, frame.last_event_id, frame.id_seen)
    assert K8S.advances(frame)
    assert not K8S.counts(frame)


def test_the_position_that_comes_behind_is_the_event_s() -> None:
    """Each event waits for it; one that is followed by another event has none of its own."""
    text = (
        'event: data\ndata: a\n\nevent: data\ndata: b\n\nevent: control\ndata: {"next":"x1"}\n\n'
        'event: data\ndata: c\n\nevent: control\ndata: {"next":"x2"}\n\nevent: data\ndata: d\n\n'
    )
    expected = [
        ("a", "", False),
        ("b", "x1", True),
        (X1, "x1", True),
        ("c", "x2", True),
        (X2, "x2", True),
    ]
    assert expected == places(read(BEHIND, text))


def test_what_comes_behind_may_come_later() -> None:
    """Where the network cuts does not matter."""
    reading = BEHIND.reading(None)
    decoder = Decoder()
    text = b': hi\n\nevent: data\ndata: a\n\nevent: control\ndata: {"next":"x1"}\n\n'
    frames = [frame for byte in text for frame in reading.read(decoder.feed(bytes([byte])))]
    assert [(None, "", False), ("a", "x1", True), (X1, "x1", True)] == places(frames)


def marks(*events: tuple[Position, str]) -> tuple[Mark, ...]:
    return tuple(Mark(at, digest_of(Frame(event="data", data=data))) for at, data in events)


OWED = marks((Position("x2"), "2"), (Position("x3"), "3"))
CONTROL = 'event: control\ndata: {"streamNextOffset":"x4"}\n\n'


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        ("[2,3,4]", [("2", "x2", True), ("3", "x3", True), ("4", "x4", True)]),
        ("[2,9,4]", [("2", "x2", True), ("9", "x1", False), ("4", "x4", True)]),
        ("[9,3,4]", [("9", "x1", False), ("3", "x1", False), ("4", "x4", True)]),
        ("[]", []),
        ("[2,", [("[2,", "x4", True)]),
        ('{"a":1}', [('{"a":1}', "x4", True)]),
    ],
)
def test_messages_of_a_replay_are_known_by_their_bytes(
    array: str, expected: list[tuple[str | None, str, bool]]
) -> None:
    """One array brings what came in several; other bytes end the knowing, so nothing is made up."""
    text = f"event: data\ndata: {array}\n\n{CONTROL}"
    frames = read(DURABLE, text, Ask(Position("x1"), OWED))
    assert expected == places([frame for frame in frames if frame.event == "data"])


def test_a_message_without_a_place_of_its_own_stays_so() -> None:
    """It came in the middle of an array, and comes back at the end of one."""
    owed = marks((Position("x1", 1), "2"), (Position("x3"), "3"))
    text = 'event: data\ndata: [2]\n\nevent: control\ndata: {"streamNextOffset":"x2"}\n\n'
    frames = read(DURABLE, text, Ask(Position("x1"), owed))
    assert not frames[0].id_seen


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"position_control": "/next"}, "position_control needs control_events"),
        ({"key": "id"}, "'id' is not a JSON pointer"),
    ],
)
def test_a_slip_is_named(fields: dict[str, Any], message: str) -> None:
    """Whoever writes a dialect reads which word is wrong."""
    with pytest.raises(ValueError, match=r".") as caught:
        Dialect(**fields)
    assert message in str(caught.value)


def test_what_a_join_is_looked_at_for_is_known_by_its_bytes() -> None:
    """Behind the marks everything that was published is owed, some of it without a digest."""
    published = {"x2": data_digest("2"), "x3": "", "x3+1": data_digest("4"), "a+b+0": ""}
    ask = Ask(Position("x1"), (), Cover((), "a+b", published))
    text = f"event: data\ndata: [2,3,4,5]\n\n{CONTROL}"
    expected = [("2", "x2", True), ("3", "x3", True), ("4", "x1", False), ("5", "x4", True)]
    assert expected == places(
        [frame for frame in read(DURABLE, text, ask) if frame.event == "data"]
    )
