"""A declared replay window: the oldest id that the source still holds."""

from collections.abc import Iterable

from fencepost_policies.schemes.scheme import Scheme
from fencepost_policies.witness import Opening
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.evidence import Facet, Fact, Finding
from fencepost_schemas.reason import Reason
from fencepost_schemas.sse import Frame


class WindowWitness:
    """Reads the floor from a response header and holds it against what was asked for."""

    name = "window"

    def __init__(self, cursor: Cursor | None, scheme: Scheme, *, header: str = "") -> None:
        position = cursor.position if cursor is not None else None
        self._asked = position.id if position is not None else ""
        self._scheme = scheme
        self._header = header.lower()

    def opened(self, opening: Opening) -> Iterable[Fact]:
        floor = opening.headers.get(self._header, "") if self._header else ""
        covered = self._scheme.covers(floor, self._asked) if floor and self._asked else None
        if covered is None:
            yield self._fact(Finding.SILENT, Reason.WINDOW_ABSENT, floor)
        elif covered:
            yield self._fact(Finding.PROVES, Reason.WINDOW_COVERS, floor)
        else:
            yield self._fact(Finding.CONTRADICTS, Reason.WINDOW_EXCEEDED, floor)

    def arrived(self, frame: Frame) -> Iterable[Fact]:
        return ()

    def _fact(self, finding: Finding, reason: Reason, floor: str) -> Fact:
        expected = f"all after {self._asked}" if self._asked else ""
        observed = f"from {floor}" if floor else ""
        return Fact(Facet.COMPLETENESS, finding, self.name, reason, expected, observed)
