"""The order of ids: an id that is not after the one asked for contradicts continuity.

An id that is after it proves the position only together with a proven generation; the judge asks
for both, so here it is stated as what it is.
"""

from collections import OrderedDict
from collections.abc import Iterable

from fencepost_policies.schemes.scheme import Order, Scheme
from fencepost_policies.witness import Opening
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.evidence import Facet, Fact, Finding
from fencepost_schemas.limits import RECENT_IDS_MAX
from fencepost_schemas.reason import Reason
from fencepost_schemas.sse import Frame

OPAQUE = "opaque"


class OrderWitness:
    """Compares the first id with the one asked for, and then each id with the one before it."""

    name = "order"

    def __init__(self, cursor: Cursor | None, scheme: Scheme) -> None:
        position = cursor.position if cursor is not None else None
        self._asked = position.id if position is not None else ""
        self._tail_without_id = position is not None and position.ordinal > 0
        self._last = ""
        """The last id that the next one is compared with."""
        self._newest = ""
        self._recent: OrderedDict[str, None] = OrderedDict()
        self._scheme = scheme
        self._said_missing = False

    def opened(self, opening: Opening) -> Iterable[Fact]:
        return ()

    def arrived(self, frame: Frame) -> Iterable[Fact]:
        if frame.data is None:
            return
        if not self._asked and not self._said_missing:
            self._said_missing = True
            yield self._fact(Finding.SILENT, Reason.POSITION_MISSING, "", frame.last_event_id)
        this = frame.last_event_id
        if not frame.id_seen or not this:
            return
        if self._last:
            yield from self._compare_to_last(this)
        elif self._asked:
            yield self._compare_to_asked(this)
        self._keep(this)

    def _keep(self, this: str) -> None:
        """Remember an id. One without an order to the last does not replace it, or a regression
        behind it would go unnoticed.
        """
        self._newest = this
        self._recent[this] = None
        if len(self._recent) > RECENT_IDS_MAX:
            self._recent.popitem(last=False)
        comparable = self._scheme.compare(self._last, self._last) is Order.SAME
        ordered = self._scheme.compare(self._last, this) is not Order.UNKNOWN
        if not self._last or ordered or not comparable or self._scheme.name == OPAQUE:
            self._last = this

    def _compare_to_asked(self, first: str) -> Fact:
        order = self._scheme.compare(self._asked, first)
        if order in (Order.SAME, Order.BEFORE):
            return self._fact(Finding.CONTRADICTS, Reason.ORDER_NOT_AFTER, self._asked, first)
        if order is Order.UNKNOWN:
            return self._fact(Finding.SILENT, Reason.ORDER_UNKNOWN, self._asked, first)
        if self._tail_without_id:
            return self._fact(Finding.SILENT, Reason.TAIL_WITHOUT_ID, self._asked, first)
        return self._fact(Finding.PROVES, Reason.ORDER_AFTER, self._asked, first)

    def _compare_to_last(self, this: str) -> Iterable[Fact]:
        order = self._scheme.compare(self._last, this)
        # An id without order may repeat at once, and positions tell the events apart; one that
        # comes back later names a second place.
        came_back = this != self._newest and this in self._recent
        if self._scheme.name == OPAQUE or order is Order.UNKNOWN:
            regressed = came_back
        else:
            regressed = order in (Order.SAME, Order.BEFORE)
        if regressed:
            yield self._fact(Finding.CONTRADICTS, Reason.ORDER_NOT_AFTER, self._last, this)

    def _fact(self, finding: Finding, reason: Reason, expected: str, observed: str) -> Fact:
        shown = f"after {expected}" if expected else ""
        return Fact(Facet.POSITION, finding, self.name, reason, shown, observed)
