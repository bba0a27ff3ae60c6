"""Ids without holes: the very next one proves that nothing is missing, a hole says how much is."""

from collections.abc import Iterable

from fencepost_policies.schemes.scheme import Order, Scheme
from fencepost_policies.witness import Opening
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.evidence import Facet, Fact, Finding
from fencepost_schemas.reason import Reason
from fencepost_schemas.sse import Frame


class DensityWitness:
    """Looks for a hole in front of each id, the first one of the connection included."""

    name = "density"

    def __init__(self, cursor: Cursor | None, scheme: Scheme) -> None:
        position = cursor.position if cursor is not None else None
        self._last = position.id if position is not None else ""
        # What came without an id does not count, and may have been missed.
        self._proves = position is not None and not position.ordinal
        self._scheme = scheme

    def opened(self, opening: Opening) -> Iterable[Fact]:
        return ()

    def arrived(self, frame: Frame) -> Iterable[Fact]:
        if frame.data is None or not frame.id_seen or not frame.last_event_id:
            return
        last, this = self._last, frame.last_event_id
        hole = self._scheme.hole(last, this) if last else None
        if hole is None:
            self._pass(last, this)
            return
        self._last = this
        if hole.missing:
            yield self._hole(last, this, hole.missing, exact=hole.exact)
        elif self._proves:
            yield self._fact(Finding.PROVES, Reason.DENSE_NEXT, last, this)
        self._proves = False

    def _pass(self, last: str, this: str) -> None:
        """Go on from an id in front of which nobody can tell a hole: that seam is not proven by
        what comes later. The id that was asked for may come again."""
        order = self._scheme.compare(last, this) if last else Order.AFTER
        if order is not Order.UNKNOWN:
            self._last = this
            self._proves = self._proves and order is Order.SAME

    def _hole(self, last: str, this: str, missing: int, *, exact: bool) -> Fact:
        observed = f"{this}, {missing if exact else f'at least {missing}'} missing"
        counted = missing if exact else 0
        return self._fact(Finding.CONTRADICTS, Reason.DENSE_HOLE, last, observed, counted)

    def _fact(
        self, finding: Finding, reason: Reason, last: str, observed: str, missing: int = 0
    ) -> Fact:
        expected = f"the one behind {last}"
        return Fact(Facet.COMPLETENESS, finding, self.name, reason, expected, observed, missing)
