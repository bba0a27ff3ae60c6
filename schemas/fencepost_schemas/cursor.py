"""Where a source stands: the position reached, and the generation in which it means something.

A position without a generation is not a cursor: ids are reused across generations, so the pair is
the smallest thing that can be resumed from.
"""

import re
from functools import lru_cache

import msgspec

from fencepost_schemas.limits import EVENT_ID_BYTES_MAX
from fencepost_schemas.reason import Reason
from fencepost_schemas.standing import Standing


class Position(msgspec.Struct, frozen=True, order=False, array_like=True):
    """An event's place in its generation: the last id seen, and how many events since that id.

    Events without an id of their own inherit the last one; the ordinal keeps them apart. The empty
    id stands for "no id yet".
    """

    id: str
    ordinal: int = 0

    def __str__(self) -> str:
        # An id may itself end in "+1"; then its ordinal is always written, so that none can pass
        # for another's position.
        plain = not self.ordinal and "+" not in self.id
        return self.id if plain else f"{self.id}+{self.ordinal}"


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """A position with the digest of what stood there: proof that somebody else saw the same."""

    position: Position
    digest: str


class Seam(msgspec.Struct, frozen=True):
    """What is needed to look again at a join, the step of one connection from replay to live.

    `marks` stood before the join. What was published behind the last of them is in the stream of
    events behind `sequence`, after the first `skip` events of the generation there; `published`
    is the cursor's count at the last mark.
    """

    marks: tuple[Mark, ...]
    sequence: int
    skip: int = 0
    published: int = 0


class KnownLoss(msgspec.Struct, frozen=True):
    """What a source has proven to be gone, before it sent an event that a generation begins with.

    `missing` is how many events that is, 0 where nobody knows; `since_ms` is the bridge's clock.
    """

    reasons: tuple[Reason, ...]
    since_ms: int
    missing: int = 0


class Cursor(msgspec.Struct, frozen=True):
    """The durable state of one source. Written with each batch of events, by compare-and-set.

    `token` is the source's own word for its generation ("" where it has none; hashed where it is
    a secret). `session` is the one that the source gave us where its protocol has sessions: a
    secret, kept here and shown nowhere. `fresh` holds from `fencepost init` until the first event,
    while `start` says where to begin ("now", "earliest" or an id). With `rebaselined` it holds for
    a lineage that goes on from `start`, because somebody wants it to. `ledger` pins the identity of
    the ledger that this lineage is applied to. `owner` is the bridge that wrote last. `seam` is
    kept where nobody knows what a join loses, until a later resume has covered it. `loss` stands
    from when the source proves one until the next verdict.
    """

    source: str
    generation: str
    standing: Standing
    ledger: str
    owner: str
    position: Position | None = None
    token: str = ""
    session: str = ""
    fresh: bool = False
    rebaselined: bool = False
    start: str = "now"
    published: int = 0
    ring: tuple[Mark, ...] = ()
    seam: Seam | None = None
    loss: KnownLoss | None = None


# Controls; surrogates, which no encoding takes; and U+FFFD, which stands for bytes that are gone.
_UNSENDABLE = re.compile("[\x00-\x1f\x7f\ud800-\udfff\ufffd]")


@lru_cache(maxsize=1)
def sendable(event_id: str) -> bool:
    """Return True if this id can be sent back in a request header, byte for byte.

    A server can poison every later reconnect with one id that no client may send; so it is found
    out on arrival.
    """
    return (
        bool(event_id)
        and event_id == event_id.strip(" \t")
        and not _UNSENDABLE.search(event_id)
        and len(event_id.encode("utf-8", "surrogatepass")) <= EVENT_ID_BYTES_MAX
    )
