"""What was published, held against the server's own log of what it emitted."""

from collections import Counter
from collections.abc import Sequence

from fencepost_schemas.event import ClassifiedEvent
from fencepost_schemas.standing import Standing
from fencepost_schemas.verdict import EpochRecord, Gap


def check(
    emitted: Sequence[str], events: Sequence[ClassifiedEvent], records: Sequence[EpochRecord]
) -> None:
    """Fail unless nothing came twice, nothing is lost outside a gap, and no gap is too wide.

    The keys are in the order in which the server emitted them, in all its lives.
    """
    assert len(emitted) == len(set(emitted)), "the test must tell its events apart"
    in_generations = Counter((event.generation, event.key) for event in events)
    assert not [twice for twice, count in in_generations.items() if count > 1]
    published = [event.key for event in events if event.key is not None]
    assert set(published) <= set(emitted)
    gaps = [record.gap for record in records if record.gap is not None]
    kinds = [record.verdict.kind for record in records]
    assert len(gaps) == sum(kind not in (Standing.GENESIS, Standing.RESUMED) for kind in kinds)
    in_gaps: set[str] = set()
    for gap in gaps:
        inside = _inside(gap, emitted, events)
        too_wide = inside & set(published)
        assert not too_wide, f"in {gap} though published: {sorted(too_wide)}"
        in_gaps |= inside
    for record in records:
        if record.join_gap is not None:
            in_gaps |= _inside(record.join_gap, emitted, events)
    lost = set(emitted) - set(published) - in_gaps
    assert not lost, f"lost without a trace: {sorted(lost)}"


def _inside(gap: Gap, emitted: Sequence[str], events: Sequence[ClassifiedEvent]) -> set[str]:
    """Return the keys that the server emitted between the two ends of a gap.

    An event without a key (a server's word on its own stream) stands between those beside it.
    """
    after, before = -1, len(emitted)
    last, ended = -1, False
    for event in events:
        if event.key is not None:
            last = emitted.index(event.key)
        if _is_end(event, gap.after_generation, gap.after_position, earlier=True):
            after = last
        ended = ended or _is_end(event, gap.before_generation, gap.before_position, earlier=False)
        if ended and event.key is not None and event.generation >= gap.before_generation:
            before = min(before, last)
    return set(emitted[after + 1 : before])


def _is_end(event: ClassifiedEvent, generation: str, position: str, *, earlier: bool) -> bool:
    """Return True if an event stands at an end of a gap, or could where that has no position."""
    if event.generation == generation:
        return position in ("", event.position)
    return not position and (event.generation < generation) is earlier
