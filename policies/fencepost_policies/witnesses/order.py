"""The order of ids: an id that is not after the one asked for contradicts continuity.

An id that is after it proves the position only together with a proven generation; the judge asks
for both, so here it is stated as what it is.
"""

from collections import OrderedDict
from collections.abc import Iterable

from fencepost_policies.overlap import digest_of
from fencepost_policies.schemes.scheme import Order, Scheme
from fencepost_policies.witness import Opening
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.evidence import Facet, Fact, Finding
from fencepost_schemas.limits import RECENT_IDS_MAX
from fencepost_schemas.reason import Reason
from fencepost_schemas.sse import Frame
from fencepost_schemas.subject import digest_token

KEY_CHARS_MAX = 64
BACK = (Order.SAME, Order.BEFORE, Order.APART)


class OrderWitness:
    """Compares the first id with the one asked for, and then each id with the one before it.

    The very id again, with the same bytes, is a repeat and says nothing; with other bytes it is
    another event in the place of one that we have. Where several events may share an id it is
    neither. With `inclusive`, the id that was asked for comes again first, as the event that we
    have under it.
    """

    name = "order"

    def __init__(
        self,
        cursor: Cursor | None,
        scheme: Scheme,
        *,
        inclusive: bool = False,
        volatile: tuple[str, ...] = (),
    ) -> None:
        position = cursor.position if cursor is not None else None
        marks = cursor.ring if cursor is not None else ()
        self._mark = next((mark for mark in marks if mark.position == position), None)
        self._inclusive = inclusive
        self._volatile = volatile
        self._asked = position.id if position is not None else ""
        self._tail_without_id = position is not None and position.ordinal > 0
        self._last = ""
        """The last id that the next one is compared with."""
        self._newest = ""
        self._adjoins = False
        """True while no event without an id has come behind the newest id."""
        self._recent: OrderedDict[str, int] = OrderedDict()
        """What came under the last ids, as hashes that only this process can make."""
        self._scheme = scheme
        self._said_missing = False
        self._repeat = False

    @property
    def repeat(self) -> bool:
        return self._repeat

    def opened(self, opening: Opening) -> Iterable[Fact]:
        return ()

    def arrived(self, frame: Frame) -> Iterable[Fact]:
        self._repeat = False
        if frame.data is None:
            return ()
        facts: list[Fact] = []
        if not self._asked and not self._said_missing:
            self._said_missing = True
            shown = frame.last_event_id
            facts.append(self._fact(Finding.SILENT, Reason.POSITION_MISSING, "", shown))
        if not frame.id_seen or not frame.last_event_id:
            self._adjoins = False
            return facts
        this = frame.last_event_id
        key, digest = _key_of(this), hash((frame.event, frame.data))
        order = Order.AFTER
        if self._last:
            order = self._scheme.compare(self._last, this)
            if order is not Order.AFTER:
                facts += self._not_after(this, order, key, digest)
        elif self._asked:
            facts += self._compare_to_asked(this, frame)
        self._keep(this, order, key, digest)
        return facts

    def _keep(self, this: str, order: Order, key: str, digest: int) -> None:
        """Remember an id. One without an order to the last does not replace it, or a regression
        behind it would go unnoticed.
        """
        self._newest = key
        self._adjoins = True
        self._recent[key] = digest
        if len(self._recent) > RECENT_IDS_MAX:
            self._recent.popitem(last=False)
        if (
            order is not Order.UNKNOWN
            or self._scheme.compare(self._last, self._last) is not Order.SAME
        ):
            self._last = this

    def _compare_to_asked(self, first: str, frame: Frame) -> Iterable[Fact]:
        order = self._scheme.compare(self._asked, first)
        if self._inclusive and first == self._asked:
            yield self._asked_again(frame)
        elif order is Order.UNKNOWN:
            yield self._fact(Finding.SILENT, Reason.ORDER_UNKNOWN, self._asked, first)
        elif order in BACK:
            yield self._fact(Finding.CONTRADICTS, Reason.ORDER_NOT_AFTER, self._asked, first)
        elif self._tail_without_id:
            yield self._fact(Finding.SILENT, Reason.TAIL_WITHOUT_ID, self._asked, first)
        else:
            yield self._fact(Finding.PROVES, Reason.ORDER_AFTER, self._asked, first)

    def _asked_again(self, frame: Frame) -> Fact:
        """Return what the very id that was asked for means, where it has to come again."""
        expected, first = self._asked, frame.last_event_id
        if self._mark is None:
            # Events behind it had no id, and come again with it.
            return self._fact(Finding.SILENT, Reason.TAIL_WITHOUT_ID, expected, first)
        if digest_of(frame, self._volatile) != self._mark.digest:
            return self._fact(Finding.CONTRADICTS, Reason.ID_REUSED, expected, first)
        self._repeat = True
        return self._fact(Finding.PROVES, Reason.RESUME_POINT_EQUAL, expected, first)

    def _not_after(self, this: str, order: Order, key: str, digest: int) -> Iterable[Fact]:
        if order is Order.UNKNOWN or (order is Order.SAME and self._scheme.ties):
            # Such an id may repeat at once, and positions tell the events apart; one that comes
            # back later names a second place.
            goes_back = key != self._newest and key in self._recent
        else:
            goes_back = order in BACK
        if not goes_back:
            return
        known = self._recent.get(key)
        self._repeat = key == self._newest and self._adjoins and known == digest
        if not self._repeat:
            reused = order not in (Order.BEFORE, Order.APART) and known not in (None, digest)
            reason = Reason.ID_REUSED if reused else Reason.ORDER_NOT_AFTER
            yield self._fact(Finding.CONTRADICTS, reason, self._last, this)

    def _fact(self, finding: Finding, reason: Reason, expected: str, observed: str) -> Fact:
        shown = f"after {expected}" if expected else ""
        return Fact(Facet.POSITION, finding, self.name, reason, shown, observed)


def _key_of(event_id: str) -> str:
    """Return what an id is remembered by: itself, or its digest where it is long."""
    return event_id if len(event_id) <= KEY_CHARS_MAX else digest_token(event_id)
