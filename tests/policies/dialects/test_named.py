"""Proves what each named dialect concludes, on frames as its server sends them.

Six things can have happened while we were away; what each server then sends is what was recorded of
it (or, where no server could be had, what its documents say). A right resume is proven, and nothing
else passes for one.
"""

import json
from collections.abc import Sequence

import msgspec
import pytest

from fencepost_policies.dialects.named import NAMED
from fencepost_schemas.reason import Reason
from fencepost_schemas.standing import Standing
from kit.resume import Answer, followed, frames_of, resumed_with

RESUMED, REORIGINATED, UNVERIFIABLE = (
    Standing.RESUMED,
    Standing.REORIGINATED,
    Standing.UNVERIFIABLE,
)
Log = Sequence[tuple[str, str]]
"""(id, data) in order."""


class Server:
    """What all of these servers have: a log in order, of which they hold the last few."""

    first = 1

    def id_of(self, number: int, era: int) -> str:
        return str(number)

    def log(self, count: int, *, era: int = 0, hold: int = 100) -> "Held":
        """Return the last `hold` of the first `count` events; each era has other data."""
        numbers = range(self.first, self.first + count)
        events = [(self.id_of(number, era), f'{{"n":{number},"era":{era}}}') for number in numbers]
        return Held(self, events[-hold:] if hold else [], events)

    def answer(self, held: "Held", asked: str) -> Answer:
        """Send what is behind `asked`, or all that is held where that is not known."""
        ids = [id for id, _ in held.log]
        behind = held.log[ids.index(asked) + 1 :] if asked in ids else held.log
        return Answer(self.wire(behind))

    def wire(self, events: Log) -> bytes:
        return "".join(f"id: {id}\ndata: {data}\n\n" for id, data in events).encode()


class Held(msgspec.Struct):
    """A server's log as it is held now; call it with what is asked for."""

    server: Server
    log: Log
    whole: Log

    def __call__(self, asked: str) -> Answer:
        return self.server.answer(self, asked)


class Nchan(Server):
    """`time:tag`; a position behind its own clock gets a greeting, and nothing ever."""

    def id_of(self, number: int, era: int) -> str:
        return f"{1795998878 + number // 3}:{number % 3}"

    def answer(self, held: Held, asked: str) -> Answer:
        greeting = b": hi\n\nevent: ping\n\n"
        known = [id for id, _ in held.whole]
        if asked and asked not in known and (not known or _stamp(asked) > _stamp(known[-1])):
            return Answer(greeting)
        return Answer(greeting + super().answer(held, asked).body)


class Django(Server):
    """`channel:number`; what it no longer holds is a stream-reset, what it cannot read an error."""

    def id_of(self, number: int, era: int) -> str:
        return f"test:{number}"

    def answer(self, held: Held, asked: str) -> Answer:
        opened = b"event: stream-open\ndata:\n\n"
        ids = [id for id, _ in held.log]
        if not asked or asked in ids:
            return Answer(opened + super().answer(held, asked).body)
        if not asked.startswith("test:"):
            error = '{"condition": "bad-request", "text": "Invalid last event id"}'
            return Answer(f"id: error\nevent: stream-error\ndata: {error}\n\n".encode())
        newest = ids[-1] if ids else "test:0"
        reset = f'id: {newest}\nevent: stream-reset\ndata: {{"channels": ["test"]}}\n\n'
        return Answer(opened + reset.encode())


class Numbered(Server):
    """`sequence_number` in the data, from 0; another response is another url, and this one 404."""

    first = 0

    def answer(self, held: Held, asked: str) -> Answer:
        known = [id for id, _ in held.whole]
        if asked and asked not in known:
            return Answer(status=404)
        return super().answer(held, asked)

    def wire(self, events: Log) -> bytes:
        texts = [
            f'event: delta\ndata: {{"sequence_number":{id},"delta":{data}}}\n\n'
            for id, data in events
        ]
        return "".join(texts).encode()


class Redis(Server):
    """`milliseconds-number`: what is behind a position is what is greater than it."""

    def id_of(self, number: int, era: int) -> str:
        return f"{1795998878000 + 50 * number + 1000 * era}-0"

    def answer(self, held: Held, asked: str) -> Answer:
        behind = [event for event in held.log if not asked or _stamp(event[0]) > _stamp(asked)]
        return Answer(self.wire(behind))


class Durable(Server):
    """A replay has one control event behind all of it; what is unknown is clamped."""

    def id_of(self, number: int, era: int) -> str:
        return f"{0:016d}_{number * 13:016d}"

    def answer(self, held: Held, asked: str) -> Answer:
        ids = [id for id, _ in held.whole]
        if asked in ids[: max(len(ids) - len(held.log) - 1, 0)]:
            return Answer(status=410)
        if not ids or asked > ids[-1]:
            return Answer(_control(ids[-1] if ids else "-1"))
        behind = [event for event in held.log if event[0] > asked]
        if not behind:
            return Answer(_control(asked))
        replay = "".join(f"event: data\ndata:[{data}]\n\n" for _, data in behind)
        return Answer(replay.encode() + _control(behind[-1][0]))

    def wire(self, events: Log) -> bytes:
        """Send each event as it comes live: an array of its own, and its control event."""
        return b"".join(
            f"event: data\ndata: [{data}]\n\n".encode() + _control(id) for id, data in events
        )


class Firebase(Server):
    """The whole state first, then changes; it reads no position."""

    def answer(self, held: Held, asked: str) -> Answer:
        state = '{"path":"/","data":{"n":1}}'
        return Answer(f"event: put\ndata: {state}\n\nevent: keep-alive\ndata: null\n\n".encode())


def _stamp(id: str) -> tuple[int, ...]:
    return tuple(int(part) for part in id.replace("-", ":").split(":"))


def _control(offset: str) -> bytes:
    said = json.dumps({"streamNextOffset": offset, "streamCursor": "9", "upToDate": True})
    return f"event: control\ndata: {said}\n\n".encode()


SERVERS: dict[str, Server] = {
    "nchan": Nchan(),
    "django_eventstream": Django(),
    "sequence": Numbered(),
    "ms_seq": Redis(),
    "durable_streams": Durable(),
}
SEEN = 6


def after(server: Server, scenario: str) -> Held:
    """Return what the server holds when we come back, having seen six events."""
    return {
        "nothing missed": server.log(SEEN),
        "missed within the log": server.log(SEEN + 3),
        "missed past the log": server.log(SEEN + 9, hold=4),
        "restarted, and empty": server.log(0, era=1),
        "restarted, with fewer": server.log(2, era=1),
        "restarted, with more": server.log(SEEN + 3, era=1),
    }[scenario]


PROVEN = {"nothing missed": RESUMED, "missed within the log": RESUMED}
EXPECTED: dict[str, dict[str, Standing]] = {
    "nchan": {
        **PROVEN,
        "missed past the log": REORIGINATED,
        "restarted, and empty": UNVERIFIABLE,
        "restarted, with fewer": REORIGINATED,
        "restarted, with more": REORIGINATED,
    },
    "django_eventstream": {
        **PROVEN,
        "missed past the log": REORIGINATED,
        "restarted, and empty": REORIGINATED,
        "restarted, with fewer": REORIGINATED,
        "restarted, with more": REORIGINATED,
    },
    "sequence": {
        **PROVEN,
        "missed past the log": REORIGINATED,
        "restarted, and empty": REORIGINATED,
        "restarted, with fewer": REORIGINATED,
        "restarted, with more": REORIGINATED,
    },
    "ms_seq": {
        **PROVEN,
        "missed past the log": REORIGINATED,
        "restarted, and empty": UNVERIFIABLE,
        "restarted, with fewer": REORIGINATED,
        "restarted, with more": REORIGINATED,
    },
    "durable_streams": {
        **PROVEN,
        "missed past the log": REORIGINATED,
        "restarted, and empty": REORIGINATED,
        "restarted, with fewer": REORIGINATED,
        "restarted, with more": REORIGINATED,
    },
}


@pytest.mark.parametrize(
    ("name", "scenario", "expected"),
    [
        (name, scenario, standing)
        for name, table in EXPECTED.items()
        for scenario, standing in table.items()
    ],
)
def test_what_happened_while_we_were_away(name: str, scenario: str, expected: Standing) -> None:
    """A right resume is proven, a break is not taken for one, and silence proves nothing."""
    dialect, server = NAMED[name], SERVERS[name]
    seen = server.log(SEEN).log
    cursor = followed(dialect, Answer(server.wire(seen)))
    assert seen[-1][0] == str(cursor.position)
    verdict = resumed_with(dialect, cursor, after(server, scenario))
    assert expected is verdict.kind, verdict.reasons


def test_every_named_dialect_is_tried() -> None:
    """What is added to the table in Python is added to the tests, too."""
    assert set(NAMED) == {*SERVERS, "snapshot"}


def test_a_position_of_the_future_is_silence_and_proves_nothing() -> None:
    """nchan behind a clock that was set back greets, and never sends an event again."""
    dialect, server = NAMED["nchan"], SERVERS["nchan"]
    cursor = followed(dialect, Answer(server.wire(server.log(SEEN).log)))
    verdict = resumed_with(dialect, cursor, lambda asked: Answer(b": hi\n\nevent: ping\n\n"))
    assert UNVERIFIABLE is verdict.kind
    assert Reason.OVERLAP_SILENT in verdict.reasons


def test_an_error_with_an_id_does_not_become_the_position() -> None:
    """django-eventstream gives its error an id that it would refuse for ever."""
    dialect = NAMED["django_eventstream"]
    error = b'id: error\nevent: stream-error\ndata: {"condition": "bad-request"}\n\n'
    server = SERVERS["django_eventstream"]
    cursor = followed(dialect, Answer(server.wire(server.log(2).log) + error))
    assert "test:2" == str(cursor.position)


def test_the_end_of_a_stream_is_said() -> None:
    """`[DONE]` is no event, what completes a response is one; behind both nothing comes."""
    dialect = NAMED["sequence"]
    body = b'event: response.completed\ndata: {"sequence_number":0}\n\ndata: [DONE]\n\n'
    completed, done = frames_of(dialect, body)
    assert (True, False) == (dialect.counts(completed), dialect.counts(done))
    assert dialect.ends(completed)
    assert dialect.ends(done)
    closed = b'event: control\ndata: {"streamNextOffset":"0_9","streamClosed":true}\n\n'
    durable = NAMED["durable_streams"]
    assert any(durable.ends(frame) for frame in frames_of(durable, closed))


def test_each_snapshot_is_a_new_beginning() -> None:
    """State continues nothing, however good it looks, and a heartbeat is no event."""
    dialect = NAMED["snapshot"]
    held = Held(Firebase(), (), ())
    cursor = followed(dialect, held(""))
    assert 1 == cursor.published
    assert () == dialect.asks(cursor)
    verdict = resumed_with(dialect, cursor, held)
    assert REORIGINATED is verdict.kind
    assert (Reason.NO_RESUMPTION, Reason.SNAPSHOT_SENT) == verdict.reasons
