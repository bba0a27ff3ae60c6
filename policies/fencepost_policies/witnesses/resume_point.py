"""Where the source itself says that it goes on, or that it does.

It proves position and completeness, and never the identity: a server with another log may hold the
same id.
"""

from collections.abc import Iterable

from fencepost_policies.control import Control
from fencepost_policies.schemes.scheme import Order, Scheme
from fencepost_policies.witness import Opening
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.evidence import Facet, Fact, Finding
from fencepost_schemas.reason import Reason
from fencepost_schemas.sse import Frame

CONTINUE, RESET, INITIALIZED = "continue", "reset", "initialized"
"""The words of a status header, as proposed in whatwg/html#8297."""


class ResumePointWitness:
    """Reads an echo or a status from the response, or an id or a flag from the first greeting.

    `echo` and `status` are names of headers, `point` and `recovered` pointers.
    """

    name = "resume_point"

    def __init__(
        self,
        cursor: Cursor | None,
        scheme: Scheme,
        control: Control,
        *,
        echo: str = "",
        status: str = "",
        point: str = "",
        recovered: str = "",
    ) -> None:
        position = cursor.position if cursor is not None else None
        # Behind an id that is echoed, events without one may come once more.
        self._tail_without_id = position is not None and position.ordinal > 0
        self._scheme = scheme
        self._control = control
        self._echo = echo.lower()
        self._status = status.lower()
        self._point = point
        self._recovered = recovered
        self._asked = ""
        self._greeted = False

    def opened(self, opening: Opening) -> Iterable[Fact]:
        self._asked = opening.asked
        if not opening.asked or opening.status != 200:
            return
        if self._echo:
            yield from self._echoed(opening.headers.get(self._echo, ""))
        if self._status:
            yield from self._said(opening.headers.get(self._status, "").strip().lower())

    def arrived(self, frame: Frame) -> Iterable[Fact]:
        yield from self.noticed(frame)

    def noticed(self, frame: Frame) -> Iterable[Fact]:
        if self._greeted or not self._asked or frame.data is None:
            return
        recovered = self._control.flag(self._recovered, frame)
        point = self._control.text(self._point, frame)
        self._greeted = recovered is not None or bool(point)
        if recovered:
            yield from self._proven(Reason.RESUME_SAID, "recovered")
        elif recovered is not None:
            yield self._against(Facet.POSITION, Reason.RESUME_DENIED, "not recovered")
        if point:
            yield from self._pointed(point)

    def _echoed(self, echo: str) -> Iterable[Fact]:
        if not echo:
            yield self._silent(Reason.RESUME_POINT_UNCLEAR, "")
        elif echo == self._asked:
            yield from self._proven(Reason.RESUME_POINT_EQUAL, echo)
        else:
            yield self._against(Facet.POSITION, Reason.RESUME_POINT_OTHER, echo)

    def _said(self, status: str) -> Iterable[Fact]:
        if status == CONTINUE:
            yield from self._proven(Reason.RESUME_SAID, status)
        elif status == RESET:
            yield self._against(Facet.IDENTITY, Reason.RESUME_DENIED, status)
        elif status == INITIALIZED:
            yield self._against(Facet.POSITION, Reason.RESUME_DENIED, status)
        else:
            yield self._silent(Reason.RESUME_POINT_UNCLEAR, status)

    def _pointed(self, point: str) -> Iterable[Fact]:
        order = self._scheme.compare(self._asked, point)
        if point == self._asked or (order is Order.SAME and not self._scheme.ties):
            yield from self._proven(Reason.RESUME_POINT_EQUAL, point)
        elif order in (Order.BEFORE, Order.APART):
            yield self._against(Facet.POSITION, Reason.RESUME_POINT_BEHIND, point)
        else:
            yield self._silent(Reason.RESUME_POINT_UNCLEAR, point)

    def _proven(self, reason: Reason, observed: str) -> Iterable[Fact]:
        if self._tail_without_id:
            yield self._silent(Reason.TAIL_WITHOUT_ID, observed)
            return
        for facet in (Facet.POSITION, Facet.COMPLETENESS):
            yield self._fact(facet, Finding.PROVES, reason, observed)

    def _against(self, facet: Facet, reason: Reason, observed: str) -> Fact:
        return self._fact(facet, Finding.CONTRADICTS, reason, observed)

    def _silent(self, reason: Reason, observed: str) -> Fact:
        return self._fact(Facet.COMPLETENESS, Finding.SILENT, reason, observed)

    def _fact(self, facet: Facet, finding: Finding, reason: Reason, observed: str) -> Fact:
        return Fact(facet, finding, self.name, reason, f"behind {self._asked}", observed[:200])
