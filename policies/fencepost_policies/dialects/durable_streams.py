"""Durable Streams: the position comes behind each event, in an event of its own.

`event: data` brings a JSON array of messages, `event: control` behind it says where the stream is
now (`streamNextOffset`), and `?offset=` asks for what is behind that. A replay puts into one array
what came in several, so each message is an event here, and one that comes back is known by its
bytes.

An offset of the future, or of a stream that was deleted and made again, is clamped without a word;
the overlap finds that out. What retention has removed is refused with 410.
"""

from collections import deque
from collections.abc import Sequence

import msgspec

from fencepost_policies.dialects import described
from fencepost_policies.dialects.asking import Asking
from fencepost_policies.dialects.places import Placing, Reading
from fencepost_policies.overlap import Ask, digest_of
from fencepost_schemas.cursor import Mark
from fencepost_schemas.sse import Frame

DATA, CONTROL = "data", "control"


class Dialect(described.Dialect, frozen=True, forbid_unknown_fields=True):
    def reading(self, ask: Ask | None) -> Reading:
        return MessageReading(self, ask)


class MessageReading:
    """Splits arrays into messages, and gives each the position that it is known to have.

    Only the last message in front of a control event has one of its own. One that is owed, and
    comes back in another array, is given the one that it had: by its bytes, so that no proof is
    made up.
    """

    def __init__(self, dialect: Dialect, ask: Ask | None) -> None:
        self._placing = Placing(
            dialect.places, dialect.type_of, ask.position.id if ask is not None else ""
        )
        self._volatile = dialect.volatile
        self._owed: deque[Mark] = deque(ask.owed if ask is not None else ())

    def read(self, frames: Sequence[Frame]) -> Sequence[Frame]:
        messages = [message for frame in frames for message in _split(frame)]
        placed = self._placing.read(messages)
        return [self._known(frame) for frame in placed] if self._owed else placed

    def _known(self, frame: Frame) -> Frame:
        if frame.data is None or not self._owed:
            return frame
        mark = self._owed.popleft()
        if digest_of(frame, self._volatile) != mark.digest:
            self._owed.clear()
            return frame
        if mark.position.ordinal:
            return msgspec.structs.replace(frame, id_seen=False)
        if frame.id_seen:
            return frame
        return msgspec.structs.replace(frame, last_event_id=mark.position.id, id_seen=True)


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
    ask=Asking(where="query", name="offset", now="now", earliest="-1", anew="earliest"),
    about=described.About(
        server="Durable Streams",
        tried="on a real server",
        source="@durable-streams/server 0.3.7, and PROTOCOL.md of its repository",
        untried='streams that are no JSON: the server cuts them anywhere, so say overlap = "off"',
    ),
)
