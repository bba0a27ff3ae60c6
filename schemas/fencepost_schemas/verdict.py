"""What the judge says of a connection, and what may be missing because of it."""

import msgspec

from fencepost_schemas.evidence import Fact
from fencepost_schemas.reason import Reason
from fencepost_schemas.standing import Standing
from fencepost_schemas.subject import digest_token


class Verdict(msgspec.Struct, frozen=True):
    """The judge's answer: the kind, the reasons that decided it, and every fact that was heard."""

    kind: Standing
    reasons: tuple[Reason, ...]
    facts: tuple[Fact, ...] = ()


class Gap(msgspec.Struct, frozen=True):
    """What may be missing: everything after one place of the lineage and before another.

    Both ends are exclusive, each a generation and a position in it ("" where there is none). The
    interval may swallow generations that we never saw. `exact` holds where the source's own
    declaration bounds the loss; `empty` where nothing can be missing. `missing` is how many events
    it holds, where ids without holes tell; 0 where nobody knows.
    """

    after_generation: str
    after_position: str
    before_generation: str
    before_position: str
    exact: bool = False
    empty: bool = False
    missing: int = 0

    @property
    def has_end(self) -> bool:
        """False where the source has proven a loss, and no event has come yet that ends it."""
        return bool(self.before_generation)


def gap_id(source: str, gap: Gap) -> str:
    """Return the id of a gap of this source: the same for whoever reads its record."""
    ends = (gap.after_generation, gap.after_position, gap.before_generation, gap.before_position)
    return "gap-" + digest_token("gap", source, *ends, chars=16)


class EpochRecord(msgspec.Struct, frozen=True):
    """The durable record of one verdict, written before the first event that it governs.

    `parent` is the generation from which this one was opened ("" for genesis); a resumed
    connection keeps its generation and adds a record to it. `token` is the source's own word for
    its generation. `at_ms` is the bridge's clock, for people only.

    `gap` is that of the seam, and there is one unless the verdict is resumed. `join_gap` is what
    an earlier connection of the parent generation may have lost on its way from replayed to live
    events: exact where this one brought it (it is published behind the record, late), otherwise
    nobody could look again.

    With `early` it is no verdict's: the source has proven that events are gone, and none has come
    yet with which the next generation begins. Its gap has no end, and the verdict's follows.
    """

    source: str
    generation: str
    parent: str
    verdict: Verdict
    standing: Standing
    gap: Gap | None
    ledger: str
    bridge: str
    at_ms: int
    token: str = ""
    asked: str = ""
    first: str = ""
    join_gap: Gap | None = None
    early: bool = False
