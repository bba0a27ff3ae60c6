"""MCP over streamable HTTP: sessions and optional resumption up to 2025-11-25, neither since.

The server gives no token for its generation and declares no window, so continuity is proven by the
overlap alone. The official Python SDK loses what is emitted while it replays, so the join is taken
for racy unless the configuration says otherwise. Event ids are opaque, and a priming event (an id
with empty data) neither is an event nor moves the position: after a replay it stands behind
whatever was lost.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from fencepost_policies.dialects.asking import Asking
from fencepost_policies.dialects.dialect import Join
from fencepost_policies.dialects.places import AsSent, Reading
from fencepost_policies.overlap import Ask, probes_for
from fencepost_policies.pointer import Undecodable, check_pointer, read_json
from fencepost_policies.schemes.opaque import Opaque
from fencepost_policies.witness import Hearing
from fencepost_policies.witnesses.order import OrderWitness
from fencepost_policies.witnesses.overlap import OverlapWitness
from fencepost_policies.witnesses.reset import ResetWitness
from fencepost_policies.witnesses.session import NoResumption, SessionWitness
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.limits import TYPE_BYTES_MAX
from fencepost_schemas.sse import Frame

Protocol = Literal["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]

SESSION_HEADER = "mcp-session-id"
WITHOUT_RESUMPTION: Protocol = "2026-07-28"
REFUSALS = frozenset({400, 404, 405, 410, 412, 416, 500})
"""Without an event store the Python SDK answers a resume with 500."""
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
RESULT = "result"


class Dialect(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How one MCP server is followed.

    `requests` are JSON-RPC requests to send once a session is made, such as `resources/subscribe`;
    `call` is one whose own stream is followed instead of the session's. For 2026-07-28,
    `notifications` is what `subscriptions/listen` asks for. `ignore` are methods to pass over.
    """

    protocol: Protocol = "2025-11-25"
    requests: tuple[dict[str, Any], ...] = ()
    call: dict[str, Any] | None = None
    notifications: dict[str, Any] = {}
    ignore: tuple[str, ...] = ()
    volatile: tuple[str, ...] = ()
    join: Join = "racy"

    def __post_init__(self) -> None:
        for pointer in self.volatile:
            check_pointer(pointer)
        for request in (*self.requests, *([self.call] if self.call is not None else [])):
            if not isinstance(request.get("method"), str):
                raise ValueError('an mcp request needs a method, as in {method = "tools/call"}')
        if self.protocol == WITHOUT_RESUMPTION and self.call is not None:
            raise ValueError("an mcp call cannot be followed in 2026-07-28: a break cancels it")

    @property
    def ask(self) -> Asking:
        return Asking()

    @property
    def key(self) -> str:
        return ""

    @property
    def resumable(self) -> bool:
        return self.protocol != WITHOUT_RESUMPTION

    @property
    def covers(self) -> bool:
        return self.resumable and self.join != "atomic"

    @property
    def replays_unasked(self) -> bool:
        return False

    def asks(self, cursor: Cursor, published: Mapping[str, str] | None = None) -> tuple[Ask, ...]:
        if not self.resumable:
            return ()
        probes = probes_for(cursor, published)
        if probes or cursor.position is None or not cursor.position.id:
            return probes
        return (Ask(cursor.position),)

    def hearing(
        self, cursor: Cursor | None, ask: Ask | None = None, *, last_chance: bool = True
    ) -> Hearing:
        overlap = OverlapWitness(
            ask,
            Opaque(),
            volatile=self.volatile,
            last_chance=last_chance,
            racy=self.join == "racy",
        )
        if not self.resumable:
            return Hearing(cursor, NoResumption(cursor), (), overlap)
        asked = cursor
        if cursor is not None and ask is not None:
            asked = msgspec.structs.replace(cursor, position=ask.position)
        return Hearing(
            cursor,
            SessionWitness(cursor, header=SESSION_HEADER),
            (
                ResetWitness(asked, statuses=REFUSALS, empty_stream=True),
                OrderWitness(asked, Opaque()),
            ),
            overlap,
        )

    def counts(self, frame: Frame) -> bool:
        """Return True for a notification, or the result of a call; not for requests and primes."""
        message = _message(frame)
        if message is None:
            return False
        method = message.get("method")
        if method is None:
            return "result" in message or "error" in message
        return "id" not in message and method not in (ACKNOWLEDGED, *self.ignore)

    def reading(self, ask: Ask | None) -> Reading:
        return AsSent()

    def advances(self, frame: Frame) -> bool:
        """Return False: behind a replay, a priming event stands behind what was lost."""
        return False

    def replayed(self, frame: Frame) -> bool:
        """Return True for a priming event: the SDK sends it once a resumed stream is attached."""
        return frame.id_seen and not frame.data

    def type_of(self, frame: Frame) -> str:
        message = _message(frame)
        if message is None:
            return ""
        method = message.get("method", RESULT)
        fits = isinstance(method, str) and len(method.encode()) <= TYPE_BYTES_MAX
        return method if fits else ""

    def ends(self, frame: Frame) -> bool:
        """Return False: what ends is the call, or the session."""
        return False


def request_in(frame: Frame) -> dict[str, Any] | None:
    """Return the request that the server makes with this frame, if it makes one."""
    message = _message(frame)
    return message if message is not None and "method" in message and "id" in message else None


def _message(frame: Frame) -> dict[str, Any] | None:
    if not frame.data:
        return None
    try:
        message = read_json(frame.data)
    except Undecodable:
        return None
    return message if isinstance(message, dict) else None
