"""Proves that every reason is really given by somebody: one connection for each."""

import msgspec
import pytest

from fencepost_policies.dialects import mcp, plain
from fencepost_policies.dialects.dialect import Dialect
from fencepost_policies.judge import judge
from fencepost_policies.overlap import data_digest, digest_of
from fencepost_policies.witness import Opening
from fencepost_schemas.cursor import Cursor, Mark, Position, Seam
from fencepost_schemas.reason import Reason
from fencepost_schemas.sse import Frame
from fencepost_schemas.standing import Standing
from fencepost_schemas.subject import digest_token

DIALECT = plain.Dialect(
    scheme="integer", generation_header="x-epoch", window_header="x-floor", reset_events=("reset",)
)
AT_5 = Cursor("crm", "0001-aaaaaaaa", Standing.GENESIS, "l", "o", position=Position("5"), token="a")


class Connection(msgspec.Struct, frozen=True):
    cursor: Cursor | None
    opening: Opening
    frames: tuple[Frame, ...]
    dialect: Dialect = DIALECT
    audit: str | None = None
    published: dict[str, str] | None = None
    uncovered: bool = False
    ended: bool = False


def answer(status: int = 200, **headers: str) -> Opening:
    return Opening(status, {f"x-{name}": value for name, value in headers.items()}, asked="5")


def said(data: str, kind: str = "hello") -> Frame:
    return Frame(event=kind, data=data)


def event(event_id: str | None, kind: str = "message") -> Frame:
    return Frame(event=kind, data="{}", last_event_id=event_id or "", id_seen=event_id is not None)


def at(**changes: object) -> Cursor:
    return msgspec.structs.replace(AT_5, **changes)


GOOD = answer(epoch="a", floor="1")
PROBED = plain.Dialect(scheme="integer", overlap="on")
RACY = plain.Dialect(scheme="integer", overlap="on", join="racy")
MCP = mcp.Dialect()
NOTIFICATION = Frame(data='{"jsonrpc":"2.0","method":"notifications/message"}', last_event_id="n")
RING = tuple(
    Mark(Position(number), digest_of(event(number, kind)))
    for number, kind in (("3", "x"), ("4", "y"), ("5", "x"))
)
RINGED = at(ring=RING)
JOINED = at(ring=RING, seam=Seam(RING[:2], sequence=1), published=1)
SINCE = {"5": data_digest("{}")}
DENSE = plain.Dialect(scheme="integer-dense", generation_header="x-epoch", overlap="off")
GREETED = plain.Dialect(
    scheme="integer",
    generation_header="x-epoch",
    control_events=("hello",),
    resume_control="/at",
    recovered_control="/recovered",
    overlap="off",
)
ECHOED = plain.Dialect(scheme="integer", echo_header="x-echo", overlap="off")
AGED = plain.Dialect(generation_header="x-epoch", window_age_s=60.0, overlap="off")
UPTIME = plain.Dialect(uptime_control="/up", control_events=("ping",), overlap="off")
REBORN = plain.Dialect(generation_events=("put",))
RESETS = plain.Dialect(
    reset_comments=("^:?410",), reset_pointer="/code", reset_codes=("gone",), overlap="off"
)
SNAPSHOT = plain.Dialect(snapshot_events=("put",))

CONNECTIONS: dict[Reason, Connection] = {
    Reason.FIRST_CONNECTION: Connection(at(fresh=True, position=None), GOOD, (event("1"),)),
    Reason.NO_CURSOR: Connection(None, GOOD, (event("1"),)),
    Reason.REBASELINED: Connection(at(fresh=True, rebaselined=True), GOOD, (event("6"),)),
    Reason.GENERATION_EQUAL: Connection(AT_5, GOOD, (event("6"),)),
    Reason.GENERATION_CHANGED: Connection(AT_5, answer(epoch="b"), (event("6"),)),
    Reason.GENERATION_ABSENT: Connection(AT_5, answer(), (event("6"),)),
    Reason.ORDER_AFTER: Connection(AT_5, GOOD, (event("6"),)),
    Reason.ORDER_NOT_AFTER: Connection(AT_5, GOOD, (event("5"),)),
    Reason.ORDER_UNKNOWN: Connection(AT_5, GOOD, (event("x"),)),
    Reason.POSITION_MISSING: Connection(at(position=None), GOOD, (event("6"),)),
    Reason.POSITION_WITHHELD: Connection(
        AT_5,
        msgspec.structs.replace(GOOD, asked="", url="https://other.example/", withheld=True),
        (event("6"),),
    ),
    Reason.TAIL_WITHOUT_ID: Connection(at(position=Position("5", 1)), GOOD, (event("6"),)),
    Reason.WINDOW_COVERS: Connection(AT_5, GOOD, (event("6"),)),
    Reason.WINDOW_EXCEEDED: Connection(AT_5, answer(epoch="a", floor="9"), (event("9"),)),
    Reason.WINDOW_ABSENT: Connection(AT_5, answer(epoch="a"), (event("6"),)),
    Reason.WINDOW_OUTLASTED: Connection(
        AT_5, Opening(200, {"x-epoch": "a"}, "5", away_s=61.0), (event("6"),), AGED
    ),
    Reason.GENERATION_BEGUN: Connection(AT_5, answer(), (event("6", "put"),), REBORN),
    Reason.UPTIME_WENT_BACK: Connection(
        at(token="9"), answer(), (said('{"up":3}', "ping"), event("6")), UPTIME
    ),
    Reason.UPTIME_GREW: Connection(
        at(token="9"), answer(), (said('{"up":12}', "ping"), event("6")), UPTIME
    ),
    Reason.ID_REUSED: Connection(AT_5, GOOD, (event("6"), event("6", "other"))),
    Reason.DENSE_NEXT: Connection(AT_5, answer(epoch="a"), (event("6"),), DENSE),
    Reason.DENSE_HOLE: Connection(AT_5, answer(epoch="a"), (event("9"),), DENSE),
    Reason.RESUME_POINT_EQUAL: Connection(
        AT_5, answer(epoch="a"), (said('{"at":5}'), event("6")), GREETED
    ),
    Reason.RESUME_POINT_OTHER: Connection(AT_5, answer(echo="9"), (event("10"),), ECHOED),
    Reason.RESUME_POINT_BEHIND: Connection(
        AT_5, answer(epoch="a"), (said('{"at":3}'), event("6")), GREETED
    ),
    Reason.RESUME_POINT_UNCLEAR: Connection(
        AT_5, answer(epoch="a"), (said('{"at":8}'), event("6")), GREETED
    ),
    Reason.RESUME_SAID: Connection(
        AT_5, answer(epoch="a"), (said('{"recovered":true}'), event("6")), GREETED
    ),
    Reason.RESUME_DENIED: Connection(
        AT_5, answer(epoch="a"), (said('{"recovered":false}'), event("6")), GREETED
    ),
    Reason.RESET_COMMENT: Connection(
        AT_5, answer(), (Frame(comments=(":410: Gone",)), event("6")), RESETS
    ),
    Reason.RESET_CODE: Connection(AT_5, answer(), (said('{"code":"gone"}'),), RESETS),
    Reason.SNAPSHOT_SENT: Connection(AT_5, answer(), (event("6", "put"),), SNAPSHOT),
    Reason.TEXT_INJECTED: Connection(
        AT_5,
        GOOD,
        (Frame(data="{}", last_event_id="6", id_seen=True, unknown_lines=1),),
    ),
    Reason.RESET_STATUS: Connection(AT_5, answer(410), ()),
    Reason.RESET_EVENT: Connection(AT_5, GOOD, (event(None, "reset"),)),
    Reason.RESET_EMPTY_ID: Connection(AT_5, GOOD, (event(""),)),
    Reason.OVERLAP_MATCHED: Connection(
        RINGED, answer(), (event("4", "y"), event("5", "x"), event("6")), PROBED
    ),
    Reason.OVERLAP_MISSED: Connection(RINGED, answer(), (event("6"),), PROBED),
    Reason.OVERLAP_OTHER_BYTES: Connection(RINGED, answer(), (event("4", "z"),), PROBED),
    Reason.OVERLAP_SILENT: Connection(RINGED, answer(), (), PROBED),
    Reason.AUDIT_DONE: Connection(
        RINGED, answer(), (event("4", "y"), event("5", "x")), RACY, audit=""
    ),
    Reason.AUDIT_REFUSED: Connection(
        RINGED, answer(), (event("4", "y"), event("5", "x")), RACY, audit="409"
    ),
    Reason.JOIN_COVERED: Connection(
        JOINED, answer(), (event("4", "y"), event("5", "x")), PROBED, published=SINCE
    ),
    Reason.JOIN_RECOVERED: Connection(
        JOINED, answer(), (event("4", "y"), event("4b"), event("5", "x")), PROBED, published=SINCE
    ),
    Reason.JOIN_UNCOVERED: Connection(JOINED, answer(), (), PROBED, uncovered=True),
    Reason.SESSION_ACCEPTED: Connection(
        at(token=digest_token("s")),
        Opening(200, {"mcp-session-id": "s"}, "5"),
        (NOTIFICATION,),
        MCP,
    ),
    Reason.SESSION_CHANGED: Connection(
        at(token=digest_token("s")),
        Opening(200, {"mcp-session-id": "t"}, "5"),
        (NOTIFICATION,),
        MCP,
    ),
    Reason.NO_RESUMPTION: Connection(
        AT_5, Opening(200, {}), (NOTIFICATION,), mcp.Dialect(protocol="2026-07-28")
    ),
    Reason.RESET_EMPTY_STREAM: Connection(AT_5, Opening(200, {}, "5"), (), MCP, ended=True),
    Reason.NOTHING_SHOWN: Connection(AT_5, GOOD, ()),
}


def reasons_of(connection: Connection) -> tuple[Reason, ...]:
    cursor, dialect = connection.cursor, connection.dialect
    ask = (
        next(iter(dialect.asks(cursor, connection.published)), None) if cursor is not None else None
    )
    heard = dialect.hearing(cursor, ask)
    heard.opened(connection.opening)
    reading = dialect.snapshots() if isinstance(dialect, plain.Dialect) else None
    for frame in reading.read(connection.frames) if reading is not None else connection.frames:
        if frame.data is None or dialect.counts(frame):
            heard.arrived(frame)
        else:
            heard.noticed(frame)
    heard.silent()
    if connection.audit is not None:
        heard.audited(connection.audit)
    if connection.uncovered:
        heard.uncovered()
    if connection.ended:
        heard.ended()
    return judge(heard.evidence()).reasons


@pytest.mark.parametrize(("reason", "connection"), CONNECTIONS.items(), ids=CONNECTIONS)
def test_a_verdict_gives_this_reason(reason: Reason, connection: Connection) -> None:
    """The connection that stands for the reason is judged by it."""
    assert reason in reasons_of(connection)


def test_every_reason_is_given() -> None:
    """No reason is a dead word, and the table above has forgotten none."""
    given = {reason for connection in CONNECTIONS.values() for reason in reasons_of(connection)}
    assert set(Reason) == given
