"""A number that only grows while a source runs, such as its uptime: it must not go back."""

from collections.abc import Iterable

from fencepost_policies.control import Control
from fencepost_policies.schemes.integer import number
from fencepost_policies.witness import Opening
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.evidence import Facet, Fact, Finding
from fencepost_schemas.reason import Reason
from fencepost_schemas.sse import Frame


class UptimeWitness:
    """Compares the number with the last one that was heard.

    A source that was started anew long enough ago has passed the number that we knew, so going on
    proves nothing.
    """

    name = "uptime"

    def __init__(self, cursor: Cursor | None, control: Control, pointer: str) -> None:
        self._last = number(cursor.token) if cursor is not None else None
        self._control = control
        self._pointer = pointer
        self._token = ""
        self._heard = False

    @property
    def token(self) -> str:
        return self._token

    def holds(self) -> Iterable[Fact]:
        return ()

    def opened(self, opening: Opening) -> Iterable[Fact]:
        return ()

    def arrived(self, frame: Frame) -> Iterable[Fact]:
        yield from self.noticed(frame)
        if frame.data is not None and not self._heard:
            self._heard = True
            yield self._fact(Finding.SILENT, Reason.GENERATION_ABSENT, "")

    def noticed(self, frame: Frame) -> Iterable[Fact]:
        text = self._control.text(self._pointer, frame)
        observed = number(text)
        if observed is None:
            return
        if self._last is not None and observed < self._last:
            yield self._fact(Finding.CONTRADICTS, Reason.UPTIME_WENT_BACK, text)
        elif not self._heard:
            yield self._fact(Finding.SILENT, Reason.UPTIME_GREW, text)
        self._heard = True
        self._last, self._token = observed, text

    def _fact(self, finding: Finding, reason: Reason, observed: str) -> Fact:
        expected = "" if self._last is None else f"at least {self._last}"
        return Fact(Facet.IDENTITY, finding, self.name, reason, expected, observed)
