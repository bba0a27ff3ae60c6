"""Whether events are gone that an app had not dealt with, and how far it has come."""

import msgspec

from fencepost_schemas.progress import Progress, Published


class Look(msgspec.Struct, frozen=True):
    """What the broker shows of a stream and of an app's consumer of it, at one moment.

    `floor` is the sequence up to which the consumer has everything acked; `idle` says that nothing
    is left for it up to `last`, the stream's last sequence some time before. `waiting` is the first
    event behind the floor, 0 for none, and `waiting_since_ms` when it was stored. `published` is
    each source's count, `left` how many events of its generation the stream still holds.
    """

    made: str
    last: int
    floor: int
    idle: bool
    now_ms: int
    age_ms: int
    waiting: int = 0
    waiting_since_ms: int = 0
    published: dict[str, Published] = {}
    left: dict[str, int] = {}


class Loss(msgspec.Struct, frozen=True):
    """Events that are gone behind `after` and before `before` (sequences), unseen by the app.

    `counts` is how many of which source, as far as the sources' own counts tell; `whole` says that
    these are all of them.
    """

    after: int
    before: int
    since_ms: int
    counts: dict[str, int]
    whole: bool
    other_stream: bool = False


def reached(known: Progress | None, look: Look) -> int:
    """Return the sequence up to which nothing is left to be done."""
    floor = look.last if look.idle else look.floor
    return max(floor, known.sequence) if known is not None and known.made == look.made else floor


def loss_in(known: Progress | None, look: Look) -> Loss | None:
    """Return what is gone that was never dealt with, None where nothing shows that there is any.

    An app that has no record of its own begins: what was gone before is none of its business.
    """
    if known is None:
        return None
    before = look.waiting or look.last + 1
    if known.made != look.made:
        return Loss(0, before, known.at_ms, {}, whole=False, other_stream=True)
    if not may_be_too_old(known, look):
        return None
    if known.waiting:
        # The broker counts as acked what grew too old, so its floor says nothing here.
        is_gone = not look.waiting or look.waiting > known.waiting
        since_ms = known.waiting_since_ms
        return Loss(known.sequence, before, since_ms, {}, whole=False) if is_gone else None
    counts, whole = _missing(known, look)
    return Loss(known.sequence, before, known.at_ms, counts, whole=whole) if counts else None


def may_be_too_old(known: Progress, look: Look) -> bool:
    """Return True where what was waiting at the record, or came since, may be removed by now.

    If it was, then it was never dealt with, or between the last look and the removal.
    """
    since_ms = known.waiting_since_ms if known.waiting else known.at_ms
    return 0 < look.age_ms <= look.now_ms - since_ms


def _missing(known: Progress, look: Look) -> tuple[dict[str, int], bool]:
    """Return how many events of each source are gone, and whether that is known of all sources."""
    counts: dict[str, int] = {}
    whole = True
    for source, now in look.published.items():
        then = known.published.get(source)
        same = then is not None and then.generation == now.generation
        whole = whole and same
        came = now.count - (then.count if same and then is not None else 0)
        gone = came - look.left.get(source, 0)
        if gone > 0:
            counts[source] = gone
    return counts, whole


def moved_on(known: Progress | None, look: Look, app: str, feed: str) -> Progress:
    """Return the record as it is to stand behind this look, once a loss has been asked about."""
    sequence = reached(known, look)
    loss = loss_in(known, look)
    if loss is not None:
        sequence = max(sequence if not loss.other_stream else 0, loss.before - 1)
    return Progress(
        app=app,
        feed=feed,
        made=look.made,
        sequence=sequence,
        at_ms=look.now_ms,
        waiting=look.waiting,
        waiting_since_ms=look.waiting_since_ms,
        published={} if look.waiting else look.published,
    )
