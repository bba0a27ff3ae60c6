"""The session of a protocol that has one: that it was accepted proves nothing, another one is new.

Servers restore sessions in new processes with their counters at the beginning, so an id that goes
on is no evidence; one that the server gave up, or gave anew, is.
"""

from collections.abc import Iterable

from fencepost_policies.witness import Opening
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.evidence import Facet, Fact, Finding
from fencepost_schemas.reason import Reason
from fencepost_schemas.sse import Frame
from fencepost_schemas.subject import digest_token


class SessionWitness:
    """Reads the session from a header of the response; only its digest is kept and shown."""

    name = "session"

    def __init__(self, cursor: Cursor | None, *, header: str) -> None:
        self._expected = cursor.token if cursor is not None else ""
        self._header = header
        self._token = ""

    @property
    def token(self) -> str:
        return self._token

    def holds(self) -> Iterable[Fact]:
        return ()

    def opened(self, opening: Opening) -> Iterable[Fact]:
        session = opening.headers.get(self._header, "")
        # The error page of a server that does not know us may name a session of its own.
        if not session or opening.status != 200:
            return
        self._token = digest_token(session)
        if self._expected and self._token != self._expected:
            yield self._fact(Finding.CONTRADICTS, Reason.SESSION_CHANGED)
        else:
            yield self._fact(Finding.SILENT, Reason.SESSION_ACCEPTED)

    def arrived(self, frame: Frame) -> Iterable[Fact]:
        return ()

    def _fact(self, finding: Finding, reason: Reason) -> Fact:
        return Fact(Facet.IDENTITY, finding, self.name, reason, self._expected, self._token)


class NoResumption:
    """Testifies for a protocol without resumption: every connection but the first is a new one."""

    name = "protocol"

    def __init__(self, cursor: Cursor | None) -> None:
        self._began = cursor is not None and not cursor.fresh
        self._token = ""

    @property
    def token(self) -> str:
        return self._token

    def holds(self) -> Iterable[Fact]:
        return ()

    def opened(self, opening: Opening) -> Iterable[Fact]:
        if self._began and opening.status == 200:
            yield Fact(
                Facet.IDENTITY,
                Finding.CONTRADICTS,
                self.name,
                Reason.NO_RESUMPTION,
                "",
                "a new subscription",
            )

    def arrived(self, frame: Frame) -> Iterable[Fact]:
        return ()
