"""What a ledger row can meet, and what is to be done about it: the nouns of the state machine."""

from enum import StrEnum

import msgspec

from fencepost_policies.disposition import Action
from fencepost_schemas.limits import ATTEMPTS_MAX, PARKED_OVER_MS
from fencepost_schemas.question import Ruling
from fencepost_schemas.row import Effect, Row
from fencepost_schemas.standing import Standing


# --- what happened ------------------------------------------------------------------------------
class Terms(msgspec.Struct, frozen=True, gc=False):
    """What a handler declares of itself, besides its effect; times are milliseconds.

    `barrier` says that the handler marks where its effect begins, `verifiable` that somebody can
    say afterwards whether it happened. `sink_ms` is how long the receiver of a keyed effect knows
    a key. A retry that is further off than `parked_over_ms` is parked instead of left with the
    broker. With `asks_when_spent` a person is asked once there are no more attempts.
    """

    attempts_max: int = ATTEMPTS_MAX
    barrier: bool = False
    verifiable: bool = False
    sink_ms: int = 0
    parked_over_ms: int = PARKED_OVER_MS
    asks_when_spent: bool = False


class Start(msgspec.Struct, frozen=True, gc=False):
    """A worker's offer to run: `claim` is a fresh random name, times are milliseconds.

    `reading_ms` is how long a worker of this pool may go by one reading of the broker's clock.
    """

    claim: str
    owner: str
    lease_ms: int
    timeout_ms: int
    terms: Terms = Terms()
    reading_ms: int = 0


class Arrived(msgspec.Struct, frozen=True, gc=False):
    """An event has come for a handler, or a ruling has come for an event that was held.

    `gap` is the gap that a reconciler fills with it, "" where it is the source's own.
    """

    action: Action
    start: Start
    handler: str
    namespace: str
    key: str
    fingerprint: str
    effect: Effect
    standing: Standing
    source: str
    generation: str
    position: str
    withheld: str = ""
    undecodable: str = ""
    actor: str = ""
    gap: str = ""


class Outcome(StrEnum):
    APPLIED = "applied"
    REJECTED = "rejected"
    NOT_APPLIED = "not_applied"
    """The handler proves that there was no effect."""
    UNKNOWN = "unknown"


class Finished(msgspec.Struct, frozen=True, gc=False):
    """A handler has ended. `retry_ms` is the wait that was drawn in case it may run again.

    `trace` is where it failed, for the person who finds the event among the dead.
    """

    claim: str
    outcome: Outcome
    result_digest: str = ""
    error: str = ""
    retry_ms: int = 0
    terms: Terms = Terms()
    trace: str = ""


class AtBarrier(msgspec.Struct, frozen=True):
    """A handler that has claimed stands at its barrier: from here on its effect may happen."""

    claim: str


class Renewing(msgspec.Struct, frozen=True):
    """A handler still runs and wants its lease to begin anew.

    `moved_ms` is how far the broker's clock has been moved since the row's lease was written.
    """

    claim: str
    lease_ms: int
    moved_ms: int = 0


class Verified(msgspec.Struct, frozen=True):
    """The handler's own checker was asked whether the effect of this claim happened.

    `happened` is None where it cannot say.
    """

    claim: str
    happened: bool | None
    start: Start
    error: str = ""


class Answered(msgspec.Struct, frozen=True):
    """A person or a checker has ruled on a doubt or a refusal of this row.

    `fingerprint` is of the bytes that would be run: whoever asks must not say what runs.
    """

    ruling: Ruling
    actor: str
    attempt: int
    start: Start
    fingerprint: str


Given = Arrived | Finished | AtBarrier | Renewing | Verified | Answered


class Reading(msgspec.Struct, frozen=True, gc=False):
    """How well the worker that decides knows the broker's clock.

    `fresh` says that the clock was read after the row was. `stood_ms` is how long this worker has
    seen the clock go on without a step: the clock may be another node's since, and a lease of
    another worker may have been written by the clock before.
    """

    fresh: bool
    stood_ms: int


CERTAIN = Reading(fresh=True, stood_ms=1 << 62)
"""The time is beyond doubt, as where one clock serves everybody."""


# --- what is to be done -------------------------------------------------------------------------
class Notice(StrEnum):
    """What is published besides the row; the pool knows how each looks."""

    HOLD = "hold"
    """Keep the event's bytes at the desk, under the question of its seam."""
    ASK_DOUBT = "ask_doubt"
    ASK_REFUSAL = "ask_refusal"
    BURY = "bury"
    """Publish the event to the dead."""
    PARK = "park"
    """Keep the event among the retries until it is due."""


class Settlement(StrEnum):
    ACK = "ack"
    LATER = "later"
    """Ask the broker to deliver again after `delay_ms`."""
    SILENT = "silent"
    """Neither ack nor nak: another worker owns the row, and its word counts."""


class Plan(msgspec.Struct, frozen=True, gc=False):
    """What to do, in the order of the fields.

    With `run` the handler's outcome, with `verify` its checker's word comes back to `step`. With
    `read_clock` the broker's clock is read, and the same is given to `step` again.
    """

    write: Row | None = None
    run: bool = False
    verify: bool = False
    read_clock: bool = False
    publish: tuple[Notice, ...] = ()
    settle: Settlement = Settlement.SILENT
    delay_ms: int = 0
    note: str = ""
