"""An explicit reset: the source itself says that it does not continue."""

from collections.abc import Iterable

from fencepost_policies.control import Control
from fencepost_policies.pattern import Search
from fencepost_policies.witness import Opening
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.evidence import Facet, Fact, Finding
from fencepost_schemas.reason import Reason
from fencepost_schemas.sse import Frame

REFUSALS = frozenset({400, 404, 409, 410, 412, 416})
"""Statuses that, in answer to a sent position, mean that the position is not known."""

SHOWN_CHARS_MAX = 100
"""What a record shows of a comment."""


class ResetWitness:
    """Hears refusals of a position, the dialect's reset events and comments, and ids taken back.

    `codes` are texts that mean a reset where the pointer finds them in the data, in events that
    `coded` reads.
    """

    name = "reset"

    def __init__(
        self,
        cursor: Cursor | None,
        *,
        statuses: frozenset[int] = REFUSALS,
        events: frozenset[str] = frozenset(),
        comments: tuple[Search, ...] = (),
        codes: frozenset[str] = frozenset(),
        pointer: str = "",
        coded: Control | None = None,
        empty_stream: bool = False,
    ) -> None:
        position = cursor.position if cursor is not None else None
        self._had_id = position is not None and bool(position.id)
        self._statuses = statuses
        self._events = events
        self._comments = comments
        self._codes = codes
        self._pointer = pointer
        self._coded = coded or Control()
        self._empty_stream = empty_stream
        self._asked = ""
        self._silent = True
        self._reads_frames = bool(events or comments or codes)

    def opened(self, opening: Opening) -> Iterable[Fact]:
        self._asked = opening.asked
        if opening.asked and opening.status in self._statuses:
            yield self._contradicts(Reason.RESET_STATUS, opening.asked, str(opening.status))

    def arrived(self, frame: Frame) -> Iterable[Fact]:
        self._silent = False
        if not self._reads_frames and (not frame.id_seen or (self._had_id and frame.last_event_id)):
            return ()
        return self._read(frame)

    def _read(self, frame: Frame) -> Iterable[Fact]:
        yield from self.noticed(frame)
        if frame.id_seen:
            if self._had_id and not frame.last_event_id:
                yield self._contradicts(Reason.RESET_EMPTY_ID, "", "")
            self._had_id = bool(frame.last_event_id)

    def noticed(self, frame: Frame) -> Iterable[Fact]:
        if frame.data is not None and frame.event in self._events:
            yield self._contradicts(Reason.RESET_EVENT, "", frame.event)
        if self._comments:
            for comment in frame.comments:
                if any(search.finds(comment) for search in self._comments):
                    yield self._contradicts(Reason.RESET_COMMENT, "", comment[:SHOWN_CHARS_MAX])
        if self._codes:
            code = self._coded.text(self._pointer, frame)
            if code in self._codes:
                yield self._contradicts(Reason.RESET_CODE, "", code)

    def ended(self) -> Iterable[Fact]:
        """Return what a proper end means: some servers answer an unknown position with nothing."""
        if self._empty_stream and self._asked and self._silent:
            yield self._contradicts(Reason.RESET_EMPTY_STREAM, self._asked, "nothing, and an end")

    def _contradicts(self, reason: Reason, expected: str, observed: str) -> Fact:
        return Fact(Facet.IDENTITY, Finding.CONTRADICTS, self.name, reason, expected, observed)
