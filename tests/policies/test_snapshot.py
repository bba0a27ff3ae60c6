"""Proves which frames are a source's state, and that state continues nothing."""

import pytest

from fencepost_policies.dialects.plain import Dialect
from fencepost_policies.judge import judge
from fencepost_policies.witness import Opening
from fencepost_schemas.cursor import Cursor, Position
from fencepost_schemas.reason import Reason
from fencepost_schemas.sse import Frame
from fencepost_schemas.standing import Standing


def frame(kind: str, data: str | None = "{}", event_id: str = "") -> Frame:
    return Frame(event=kind, data=data, last_event_id=event_id, id_seen=bool(event_id))


@pytest.mark.parametrize(
    ("dialect", "frames", "expected"),
    [
        (Dialect(), [frame("put"), frame("patch")], [False, False]),
        (
            Dialect(snapshot_events=("put",)),
            [frame("put"), frame("patch"), frame("put")],
            [True, False, True],
        ),
        (
            Dialect(snapshot_until=("ready",)),
            [frame("row"), frame("row", None), frame("ready"), frame("row"), frame("ready")],
            [True, False, False, False, False],
        ),
        (
            Dialect(snapshot_until_data=("EOSE",)),
            [frame("message"), frame("message", "EOSE"), frame("message")],
            [True, False, False],
        ),
        (
            Dialect(control_events=("control",), snapshot_until_control="/upToDate"),
            [
                frame("data"),
                frame("control", '{"upToDate":false}'),
                frame("data", '{"upToDate":true}'),
                frame("control", '{"upToDate":true}'),
                frame("data"),
            ],
            [True, True, True, False, False],
        ),
    ],
    ids=["none", "types", "until a type", "until data", "until a flag"],
)
def test_what_is_state(dialect: Dialect, frames: list[Frame], expected: list[bool]) -> None:
    """By its type, or because the marker is still to come; one connection at a time."""
    for cut in range(len(frames) + 1):
        reading = dialect.snapshots()
        marked = [*reading.read(frames[:cut]), *reading.read(frames[cut:])]
        assert expected == [frame.snapshot for frame in marked]


def test_state_continues_nothing() -> None:
    """A source that begins with its state is reoriginated, whatever ids the state may have."""
    cursor = Cursor(
        "crm", "0001-aaaaaaaa", Standing.GENESIS, "l", "o", position=Position("5"), token="a"
    )
    dialect = Dialect(
        scheme="integer",
        generation_header="x-epoch",
        window_header="x-floor",
        snapshot_events=("put",),
    )
    heard = dialect.hearing(cursor)
    heard.opened(Opening(200, {"x-epoch": "a", "x-floor": "1"}, asked="5"))
    (state,) = dialect.snapshots().read([frame("put", "{}", "1")])
    heard.arrived(state)
    assert heard.ready()
    verdict = judge(heard.evidence())
    assert (Standing.REORIGINATED, (Reason.SNAPSHOT_SENT,)) == (verdict.kind, verdict.reasons)


def test_state_is_not_compared_with_what_was_before() -> None:
    """An id in there is neither a regression nor the first of the stream."""
    heard = Dialect(scheme="integer", snapshot_events=("put",)).hearing(None)
    heard.opened(Opening(200, {}))
    for event_id in ("9", "3", "3"):
        heard.arrived(Frame("put", "{}", event_id, id_seen=True, snapshot=True))
    assert [Reason.SNAPSHOT_SENT] == [
        fact.reason for fact in heard.facts if fact.witness in ("snapshot", "order", "density")
    ]
    assert not heard.repeat
