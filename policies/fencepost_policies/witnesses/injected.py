"""Text that nobody meant as events: a proxy's error page in the middle of a stream."""

from collections.abc import Iterable

from fencepost_policies.witness import Opening
from fencepost_schemas.evidence import Facet, Fact, Finding
from fencepost_schemas.reason import Reason
from fencepost_schemas.sse import Frame


class InjectedWitness:
    """Counts lines with an unknown field name, and says so at the next event.

    Some servers break a payload at a line end of its own, and what is behind it comes as such a
    line: the event is not whole.
    """

    name = "injected"

    def __init__(self) -> None:
        self.lines = 0
        self._said = False

    def opened(self, opening: Opening) -> Iterable[Fact]:
        return ()

    def arrived(self, frame: Frame) -> Iterable[Fact]:
        self.lines += frame.unknown_lines
        if frame.data is None or not self.lines or self._said:
            return ()
        self._said = True
        fact = Fact(
            Facet.COMPLETENESS,
            Finding.CONTRADICTS,
            self.name,
            Reason.TEXT_INJECTED,
            "no other lines than those of events",
            f"{self.lines} others",
        )
        return (fact,)

    def noticed(self, frame: Frame) -> Iterable[Fact]:
        self.lines += frame.unknown_lines
        return ()
