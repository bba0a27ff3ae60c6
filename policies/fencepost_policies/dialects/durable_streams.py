"""Durable Streams: the position comes behind each event, in an event of its own.

`event: data` brings a JSON array of messages, `event: control` behind it says where the stream is
now (`streamNextOffset`), and `?offset=` asks for what is behind that. A replay has one control
event behind all that it brings, and may put it into one array. So each message is an event here,
and one that comes back is known by its bytes.

An offset of the future, or of a stream that was deleted and made again, is clamped: the first
control event then names a place before the one that was asked for. Once the new stream has passed
it, only the overlap finds that out. What retention has removed is refused with 410.
"""

from collections import deque
from collections.abc import Iterator, Sequence

import msgspec

from fencepost_policies.dialects import described
from fencepost_policies.dialects.asking import Asking
from fencepost_policies.dialects.places import Placing, Reading
from fencepost_policies.overlap import Ask, data_digest, digest_of
from fencepost_schemas.sse import Frame

DATA, CONTROL = "data", "control"


class Dialect(described.Dialect, frozen=True, forbid_unknown_fields=True):
    def _placing(self, ask: Ask | None) -> Reading:
        return MessageReading(self, ask)


class MessageReading:
    """Splits arrays into messages, and gives each the position that it is known to have.

    Only the last message in front of a control event has one of its own. One that is owed, and
    comes back in another array, is given the one that it had: by its bytes, so that no proof is
    made up.
    """

    def __init__(self, dialect: Dialect, ask: Ask | None) -> None:
        asked = ask.position.id if ask is not None else ""
        self._placing = Placing(dialect.places, asked)
        self._volatile = dialect.volatile
        self._owed = deque(_owed_by(ask) if ask is not None else ())

    def read(self, frames: Sequence[Frame]) -> Sequence[Frame]:
        messages = [message for frame in frames for message in _split(frame)]
        placed = self._placing.read(messages)
        return [self._known(frame) for frame in placed] if self._owed else placed

    def _known(self, frame: Frame) -> Frame:
        """Return the message with the place that it had, if it is the one that is owed next."""
        if not self._owed or frame.data is None or frame.event == CONTROL:
            return frame
        owed = self._owed.popleft()
        if not owed.is_met_by(frame, self._volatile):
            self._owed.clear()
            return frame
        if not owed.id:
            return msgspec.structs.replace(frame, id_seen=False)
        if frame.id_seen:
            return frame
        return msgspec.structs.replace(frame, last_event_id=owed.id, id_seen=True)


class _Owed(msgspec.Struct, frozen=True):
    """A message that we had: the id that was its own, "" for none, and the digest of its bytes."""

    id: str
    digest: str
    of_data_alone: bool = False

    def is_met_by(self, frame: Frame, volatile: tuple[str, ...]) -> bool:
        if self.of_data_alone:
            # Of what was too large for the broker, no digest is kept.
            return not self.digest or self.digest == data_digest(frame.data or "", volatile)
        return self.digest == digest_of(frame, volatile)


def _owed_by(ask: Ask) -> Iterator[_Owed]:
    for mark in ask.owed:
        yield _Owed("" if mark.position.ordinal else mark.position.id, mark.digest)
    published = ask.cover.published if ask.cover is not None else {}
    for position, digest in published.items():
        # Without an ordinal the text is the id; an id with a plus in it has its ordinal written.
        id, plus, ordinal = position.rpartition("+")
        own = position if not plus else id if ordinal == "0" else ""
        yield _Owed(own, digest, of_data_alone=True)


def _split(frame: Frame) -> Sequence[Frame]:
    """Return a frame for each message of an array; anything else is one message."""
    if frame.event != DATA or not (frame.data or "").startswith("["):
        return (frame,)
    try:
        messages = msgspec.json.decode(frame.data or "", type=list[msgspec.Raw])
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return (frame,)
    return [
        msgspec.structs.replace(frame, data=bytes(message).decode("utf-8")) for message in messages
    ]


DIALECT = Dialect(
    scheme="lexicographic",
    control_events=(CONTROL,),
    position_control="/streamNextOffset",
    resume_control="/streamNextOffset",
    end_control="/streamClosed",
    ask=Asking(where="query", name="offset", now="now", earliest="-1", anew="earliest"),
    about=described.About(
        server="Durable Streams",
        tried="on a real server",
        source="@durable-streams/server 0.3.7, and PROTOCOL.md of its repository",
        untried='streams that are no JSON: the server cuts them anywhere, so say overlap = "off"',
    ),
)
