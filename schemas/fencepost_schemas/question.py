"""What is asked of a person or a checker, and what may be answered.

One question stands for a seam, not for an event: its ruling covers what is held under it and what
will still come. A doubt is a question about one application of one event.
"""

from enum import StrEnum

import msgspec

from fencepost_schemas.evidence import Fact
from fencepost_schemas.reason import Reason
from fencepost_schemas.row import Effect
from fencepost_schemas.standing import Standing
from fencepost_schemas.subject import digest_token
from fencepost_schemas.verdict import Gap


class Ruling(StrEnum):
    """What may be answered; each kind of question takes some of them."""

    SAME = "same"
    RECONCILE = "reconcile"
    ACCEPT = "accept"
    DISCARD = "discard"
    APPLIED = "applied"
    RETRY = "retry"
    RESUME = "resume"

    @property
    def meaning(self) -> str:
        """One line for the person who has to choose."""
        return _MEANINGS[self]


_MEANINGS = {
    Ruling.SAME: "the same stream goes on: apply, and skip what was applied before the seam",
    Ruling.RECONCILE: "a new stream: apply by idempotency key, refuse what has none",
    Ruling.ACCEPT: "take it from here: apply everything after the seam, with or without a key",
    Ruling.DISCARD: "apply nothing of it, neither what waits nor what this one still brings",
    Ruling.APPLIED: "it did happen: mark it applied",
    Ruling.RETRY: "it did not happen: run it once more",
    Ruling.RESUME: "the cause is mended: go on with what waits, and with what comes",
}
assert set(_MEANINGS) == set(Ruling), "every Ruling has a meaning"


class QuestionKind(StrEnum):
    SEAM = "seam"
    DOUBT = "doubt"
    REFUSAL = "refusal"
    REJECTION = "rejection"
    """A dead letter: shall it be tried once more?"""
    PAUSE = "pause"
    """A handler that got into doubt again and again: is what it needs still there?"""
    GAP = "gap"
    """A gap that its reconciler could not fill: was what it hides dealt with otherwise?"""
    LOSS = "loss"
    """Events that grew too old, or were removed, before their app had dealt with them."""

    @property
    def rulings(self) -> tuple[Ruling, ...]:
        """The answers that make sense."""
        return _RULINGS[self]


_RULINGS = {
    QuestionKind.SEAM: (Ruling.SAME, Ruling.RECONCILE, Ruling.ACCEPT, Ruling.DISCARD),
    QuestionKind.DOUBT: (Ruling.APPLIED, Ruling.RETRY, Ruling.DISCARD),
    QuestionKind.REFUSAL: (Ruling.APPLIED, Ruling.DISCARD),
    QuestionKind.REJECTION: (Ruling.RETRY,),
    QuestionKind.PAUSE: (Ruling.RESUME,),
    QuestionKind.LOSS: (Ruling.RESUME,),
    QuestionKind.GAP: (Ruling.APPLIED, Ruling.RETRY, Ruling.DISCARD),
}


class Held(msgspec.Struct, frozen=True, gc=False):
    """An event kept at the desk: its headers as they travelled, and its bytes, untouched."""

    subject: str
    headers: dict[str, str]
    payload: bytes
    app: str
    handler: str


class Question(msgspec.Struct, frozen=True):
    """One open matter. The text is for people; `event` is what it is about, or its first event."""

    id: str
    kind: QuestionKind
    source: str
    generation: str
    standing: Standing
    asked_ms: int
    text: str
    reasons: tuple[Reason, ...] = ()
    facts: tuple[Fact, ...] = ()
    gap: Gap | None = None
    event: Held | None = None
    row: str = ""
    key: str = ""
    attempt: int = 0
    effect: Effect = Effect.ONCE
    error: str = ""
    handler: str = ""
    retry_from_ms: int = 0
    """By the broker's clock: until then the attempt may still act, and "it did not happen" is not
    known yet."""


class Parked(msgspec.Struct, frozen=True):
    """An event whose retry is far off, and when it is due by the broker's clock."""

    due_ms: int
    event: Held


class Answer(msgspec.Struct, frozen=True):
    """The first answer to a question; the broker refuses a second.

    That to a `rejection` has no question: `letter` is the sequence of the dead letter that somebody
    wants tried once more, and its worker reads the event there.
    """

    question: str
    source: str
    kind: QuestionKind
    ruling: Ruling
    actor: str
    at_ms: int
    note: str = ""
    letter: int = 0


def seam_question_id(source: str, generation: str) -> str:
    """Return the id of the one question about a generation's seam: the same for every asker."""
    return "seam-" + digest_token("seam", source, generation, chars=16)


def row_question_id(kind: QuestionKind, row_subject: str, attempt: int) -> str:
    """Return the id of the question about one attempt of one ledger row."""
    return f"{kind.value}-" + digest_token(kind.value, row_subject, str(attempt), chars=16)


def loss_question_id(app: str, feed: str, made: str, after: int, before: int) -> str:
    """Return the id of the question about what is gone between two sequences of a stream."""
    return "loss-" + digest_token("loss", app, feed, made, str(after), str(before), chars=16)


class AuditEntry(msgspec.Struct, frozen=True):
    """Who did what, when."""

    actor: str
    action: str
    subject: str
    at_ms: int
    detail: str = ""
