"""A declared replay window: how far back the source still holds what it sent."""

from collections.abc import Iterable

from fencepost_policies.control import Control
from fencepost_policies.schemes.integer import number
from fencepost_policies.schemes.scheme import Order, Scheme
from fencepost_policies.witness import Opening
from fencepost_schemas.cursor import Cursor, Position
from fencepost_schemas.evidence import Facet, Fact, Finding
from fencepost_schemas.reason import Reason
from fencepost_schemas.sse import Frame


class WindowWitness:
    """Holds the window against what was asked for, and speaks once.

    The oldest id that is still held is in a response header or, at the pointer `floor`, in a
    greeting; or it is `count` ids back from the newest one, at the pointer `newest`. `age_s` is for
    how long events are held. With `inclusive`, what was asked for has to be held itself.

    What was asked for may lie before what was `reached`, from where it counts how many are missing.
    """

    name = "window"

    def __init__(
        self,
        cursor: Cursor | None,
        scheme: Scheme,
        *,
        header: str = "",
        control: Control | None = None,
        floor: str = "",
        newest: str = "",
        count: int = 0,
        age_s: float = 0.0,
        inclusive: bool = False,
        reached: Position | None = None,
    ) -> None:
        position = cursor.position if cursor is not None else None
        self._asked = position.id if position is not None else ""
        # What came without an id does not count.
        self._reached = reached.id if reached is not None and not reached.ordinal else ""
        self._scheme = scheme
        self._header = header.lower()
        self._control = control or Control()
        self._floor = floor
        self._newest = newest if count else ""
        self._count = count
        self._age_s = age_s
        self._inclusive = inclusive
        self._said = False

    def opened(self, opening: Opening) -> Iterable[Fact]:
        floor = opening.headers.get(self._header, "") if self._header else ""
        if floor:
            yield self._judged(floor)
        elif self._age_s and opening.away_s is not None and self._asked:
            yield self._aged(opening.away_s)
        elif not self._floor and not self._newest:
            yield self._fact(Finding.SILENT, Reason.WINDOW_ABSENT, "")

    def arrived(self, frame: Frame) -> Iterable[Fact]:
        return () if self._said else self._read(frame)

    def _read(self, frame: Frame) -> Iterable[Fact]:
        yield from self.noticed(frame)
        if frame.data is not None and not self._said:
            yield self._fact(Finding.SILENT, Reason.WINDOW_ABSENT, "")

    def noticed(self, frame: Frame) -> Iterable[Fact]:
        if self._said:
            return
        floor = self._control.text(self._floor, frame)
        newest = number(self._control.text(self._newest, frame))
        if floor:
            yield self._judged(floor)
        elif newest is not None:
            yield self._judged(str(newest - self._count + 1))

    def _judged(self, floor: str) -> Fact:
        covered = self._covers(floor) if self._asked else None
        if covered is None:
            return self._fact(Finding.SILENT, Reason.WINDOW_ABSENT, f"from {floor}")
        if covered:
            return self._fact(Finding.PROVES, Reason.WINDOW_COVERS, f"from {floor}")
        missing = self._missing(floor)
        return self._fact(Finding.CONTRADICTS, Reason.WINDOW_EXCEEDED, f"from {floor}", missing)

    def _missing(self, floor: str) -> int:
        """Return how many events were forgotten behind what was reached; 0 where ids do not tell.

        The source may have forgotten more of them by the time at which it is asked again.
        """
        hole = self._scheme.hole(self._reached, floor) if self._reached else None
        return hole.missing if hole is not None and hole.exact else 0

    def _covers(self, floor: str) -> bool | None:
        covered = self._scheme.covers(floor, self._asked)
        if covered and self._inclusive and self._scheme.compare(self._asked, floor) is Order.AFTER:
            return False
        return covered

    def _aged(self, away_s: float) -> Fact:
        held = away_s <= self._age_s
        finding = Finding.PROVES if held else Finding.SILENT
        reason = Reason.WINDOW_COVERS if held else Reason.WINDOW_OUTLASTED
        return self._fact(finding, reason, f"{self._age_s:g} s, and we were away {away_s:.0f} s")

    def _fact(self, finding: Finding, reason: Reason, observed: str, missing: int = 0) -> Fact:
        self._said = True
        expected = f"all after {self._asked}" if self._asked else ""
        return Fact(Facet.COMPLETENESS, finding, self.name, reason, expected, observed, missing)
