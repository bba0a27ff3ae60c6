"""Every dialect that comes with fencepost keeps the contract, whatever a server sends."""

import json

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fencepost.registry import built_in
from fencepost_policies.dialects import mcp
from fencepost_policies.dialects.described import Dialect
from fencepost_policies.dialects.dialect import Speech
from fencepost_policies.judge import judge
from fencepost_policies.overlap import Ask
from fencepost_policies.witness import Opening
from fencepost_schemas.cursor import Cursor, Mark, Position
from fencepost_schemas.limits import TYPE_BYTES_MAX
from fencepost_schemas.sse import Decoder
from fencepost_schemas.standing import Standing

SPEECHES: dict[str, Speech] = {"plain": Dialect(), "mcp": mcp.Dialect(), **built_in()}
WORDS = ("sequence_number", "streamNextOffset", "type", "object", "pub", "offset", "connect")
IDS = st.one_of(
    st.text(max_size=8),
    st.from_regex(r"[0-9]{1,9}[:-][0-9]{1,3}", fullmatch=True),
    st.sampled_from(["", "error", "-1:-1", "test:1", "[]", "[{}]", "9" * 60, "1-" + "9" * 60]),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), IDS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.sampled_from(WORDS), st.text(max_size=3)), inner, max_size=3),
    ),
    max_leaves=8,
)
DATA = st.one_of(
    VALUES.map(json.dumps), st.text(max_size=30), st.sampled_from(["[" * 5000, "[DONE]", "{}"])
)
KINDS = st.sampled_from(
    ["message", "control", "data", "ping", "put", "stream-reset", "stream-error", "BOOKMARK", ""]
)


@st.composite
def blocks(draw: st.DrawFn) -> str:
    """Return one block, or a comment, as a hostile server may send it."""
    if draw(st.integers(0, 5)) == 0:
        return f": {draw(st.text(max_size=8))}\n\n"
    lines = []
    if draw(st.booleans()):
        lines.append(f"id: {draw(IDS)}")
    lines.append(f"event: {draw(KINDS)}")
    if draw(st.integers(0, 4)):
        lines.append(f"data: {draw(DATA)}")
    return "\n".join(lines) + "\n\n"


BODIES = st.lists(blocks(), max_size=6).map(lambda parts: "".join(parts).encode())
POSITIONS = st.builds(Position, IDS, st.integers(0, 2))
RINGS = st.lists(st.builds(Mark, POSITIONS, st.sampled_from("abc")), max_size=4).map(tuple)
CURSORS = st.builds(
    lambda ring, token: Cursor(
        "orders",
        "0001-aaaaaaaa",
        Standing.GENESIS,
        "l",
        "o",
        position=ring[-1].position if ring else None,
        ring=ring,
        token=token,
    ),
    RINGS,
    st.sampled_from(["", "e1"]),
)


@pytest.mark.parametrize("name", SPEECHES)
def test_it_is_a_dialect(name: str) -> None:
    """It has all that a bridge asks of one."""
    assert isinstance(SPEECHES[name], Speech)


@pytest.mark.parametrize("name", SPEECHES)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cursor=CURSORS, body=BODIES, status=st.sampled_from([200, 204, 404, 410, 500]))
def test_hostile_frames_raise_nothing(name: str, cursor: Cursor, body: bytes, status: int) -> None:
    """Every answer is a verdict, and one that nothing proves is never a resume."""
    speech = SPEECHES[name]
    asks: tuple[Ask | None, ...] = (*speech.asks(cursor), None)
    for ask in asks:
        hearing = speech.hearing(cursor, ask)
        hearing.opened(Opening(status, {"x": "y"}, ask.position.id if ask is not None else ""))
        for frame in speech.reading(ask).read(Decoder().feed(body)):
            assert len(speech.type_of(frame).encode()) <= TYPE_BYTES_MAX
            speech.replayed(frame)
            speech.ends(frame)
            if frame.data is None or speech.counts(frame):
                hearing.arrived(frame)
            else:
                hearing.noticed(frame)
            assert not (speech.advances(frame) and speech.counts(frame))
        # The marks' digests are made up, so nothing that came can be what we had.
        assert judge(hearing.evidence()).kind is not Standing.RESUMED


@pytest.mark.parametrize("name", SPEECHES)
@given(position=st.text(st.characters(codec="utf-8"), min_size=1), token=st.text(max_size=4))
def test_any_position_can_be_asked_for(name: str, position: str, token: str) -> None:
    """What is sent is one request to the source's own host, however odd the position."""
    asked = SPEECHES[name].ask.request("http://127.0.0.1/e", {}, position, token)
    assert asked.url.startswith("http://127.0.0.1/e")
    assert asked.url.isascii()
    assert asked.url.isprintable()


@pytest.mark.parametrize("name", built_in())
def test_it_can_be_written_down(name: str) -> None:
    """A table of TOML or JSON holds all of it, so that a user's own may go on from it."""
    dialect = built_in()[name]
    assert dialect == msgspec.convert(msgspec.to_builtins(dialect), type(dialect))
