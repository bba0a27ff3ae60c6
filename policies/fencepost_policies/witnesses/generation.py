"""The source's own word for its generation: equal proves identity, different contradicts it."""

from collections.abc import Iterable

from fencepost_policies.pointer import Undecodable, read_json, resolve_text
from fencepost_policies.witness import Opening
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.evidence import Facet, Fact, Finding
from fencepost_schemas.limits import TOKEN_CHARS_MAX
from fencepost_schemas.reason import Reason
from fencepost_schemas.sse import Frame
from fencepost_schemas.subject import digest_token


class GenerationWitness:
    """Reads the token from a response header, or by JSON pointer from the data of each event.

    A secret token, or one too long to be kept in every record, is kept and shown as a digest only.
    """

    name = "generation"

    def __init__(
        self, cursor: Cursor | None, *, header: str = "", pointer: str = "", secret: bool = False
    ) -> None:
        self.expected = cursor.token if cursor is not None else ""
        self._token = ""
        self._header = header.lower()
        self._pointer = pointer
        self._secret = secret
        self._heard = False

    @property
    def token(self) -> str:
        return self._token

    def opened(self, opening: Opening) -> Iterable[Fact]:
        observed = opening.headers.get(self._header, "") if self._header else ""
        if observed:
            yield from self._state(observed)

    def arrived(self, frame: Frame) -> Iterable[Fact]:
        if frame.data is None:
            return
        observed = self._token_in(frame.data) if self._pointer else ""
        if observed:
            yield from self._state(observed)
        elif not self._heard:
            self._heard = True
            yield self._fact(Finding.SILENT, Reason.GENERATION_ABSENT, "")

    def _token_in(self, data: str) -> str:
        try:
            return resolve_text(self._pointer, read_json(data)) or ""
        except Undecodable:
            return ""

    def _state(self, text: str) -> Iterable[Fact]:
        """State what this token means; a token that was heard before adds nothing."""
        long = len(text) > TOKEN_CHARS_MAX
        observed = digest_token(text) if self._secret or long else text
        known, self._token = self._token or self.expected, observed
        if known and observed != known:
            yield self._fact(Finding.CONTRADICTS, Reason.GENERATION_CHANGED, observed)
        elif not self._heard:
            if known:
                yield self._fact(Finding.PROVES, Reason.GENERATION_EQUAL, observed)
            else:
                yield self._fact(Finding.SILENT, Reason.GENERATION_ABSENT, observed)
        self._heard = True

    def _fact(self, finding: Finding, reason: Reason, observed: str) -> Fact:
        return Fact(Facet.IDENTITY, finding, self.name, reason, self.expected, observed)
