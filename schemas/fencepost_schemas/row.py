"""One line of the ledger: what is known of applying one key by one handler."""

from enum import StrEnum

import msgspec

from fencepost_schemas.standing import Standing

ROW_VERSION = 3
READABLE_VERSIONS = (1, 2, 3)
"""Rows of an older release are read, and written again as this release's at the next step."""


class Effect(StrEnum):
    """What a handler's author declares of the effect. The default assumes the worst."""

    ONCE = "once"
    KEYED = "keyed"
    """Whoever receives the effect knows the key, and does nothing the second time."""
    IDEMPOTENT = "idempotent"

    @property
    def strictness(self) -> int:
        """Return how much the effect forbids: what may have been started keeps the strictest."""
        return _STRICTNESS[self]


_STRICTNESS = {Effect.IDEMPOTENT: 0, Effect.KEYED: 1, Effect.ONCE: 2}


class State(StrEnum):
    CLAIMED = "claimed"
    """A handler with a barrier has the event, and its effect cannot have begun yet."""
    STARTED = "started"
    APPLIED = "applied"
    REJECTED = "rejected"
    RETRY_WAIT = "retry_wait"
    IN_DOUBT = "in_doubt"
    PENDING = "pending"
    REFUSED = "refused"
    DENIED = "denied"
    CONFLICT = "conflict"

    @property
    def terminal(self) -> bool:
        """True where nothing can ever change the row again, but for a person's replay of what was
        rejected.
        """
        return self in _TERMINAL

    @property
    def parked(self) -> bool:
        """True where the row waits for a person or a checker, and its event is kept elsewhere."""
        return self in _PARKED


_TERMINAL = frozenset({State.APPLIED, State.REJECTED, State.DENIED, State.CONFLICT})
_PARKED = frozenset({State.PENDING, State.REFUSED, State.IN_DOUBT})


class Row(msgspec.Struct, frozen=True, gc=False):
    """A ledger row. Times are milliseconds of the broker's clock.

    `attempt` only ever grows and is the fencing token; `claim` names one start among all, so that
    a worker recognises its own write after a lost reply. `fingerprint` is SHA-256 over the
    event's raw bytes. `sink_until_ms` is until when the receiver of a keyed effect knows its key,
    and `sink_attempt` the attempt that its memory counts from; 0 where none can have reached it.
    `gap` is the gap whose reconciler brought those bytes, "" where the source itself did.
    """

    state: State
    handler: str
    namespace: str
    key: str
    fingerprint: str
    effect: Effect
    standing: Standing
    source: str
    generation: str
    position: str
    first_seen_ms: int
    changed_ms: int
    attempt: int = 0
    claim: str = ""
    owner: str = ""
    lease_until_ms: int = 0
    quarantine_until_ms: int = 0
    due_ms: int = 0
    sink_until_ms: int = 0
    sink_attempt: int = 0
    result_digest: str = ""
    error: str = ""
    actor: str = ""
    gap: str = ""
    version: int = ROW_VERSION


class UnknownRowVersion(ValueError):
    """A row written by a newer release: it is left alone, never overwritten."""


class _Version(msgspec.Struct):
    version: int = 0


_decoder = msgspec.json.Decoder(Row)
_version_decoder = msgspec.json.Decoder(_Version)


def encode_row(row: Row) -> bytes:
    assert row.version == ROW_VERSION
    return msgspec.json.encode(row)


def decode_row(payload: bytes) -> Row:
    """Return the row; raise UnknownRowVersion, or msgspec.DecodeError where it is no row.

    A row of an older release is returned as this release would write it.
    """
    try:
        version = _version_decoder.decode(payload).version
    except RecursionError:
        raise msgspec.DecodeError("too deep to be a row") from None
    if version not in READABLE_VERSIONS:
        raise UnknownRowVersion(
            f"ledger row of version {version}; this release knows {ROW_VERSION}: upgrade the worker"
        )
    return msgspec.structs.replace(_decoder.decode(payload), version=ROW_VERSION)
