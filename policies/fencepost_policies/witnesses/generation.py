"""The source's own word for its generation: equal proves identity, different contradicts it."""

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from fencepost_policies.control import Control
from fencepost_policies.pattern import Search
from fencepost_policies.pointer import Undecodable, read_json, resolve_text
from fencepost_policies.schemes.opaque import Opaque
from fencepost_policies.schemes.scheme import Scheme
from fencepost_policies.witness import Opening
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.evidence import Facet, Fact, Finding
from fencepost_schemas.limits import TOKEN_CHARS_MAX
from fencepost_schemas.reason import Reason
from fencepost_schemas.sse import Frame
from fencepost_schemas.subject import digest_token

_OPAQUE = Opaque()


class GenerationWitness:
    """Reads the token from wherever the source has it.

    That is a response header, a cookie, the path of the final url, the data of each event
    (`pointer`) or of a greeting (`control_pointer`), the ids (as `scheme` reads them), or the first
    id of the connection. `begins` are types of events that mean another generation.

    A secret token, or one too long to be kept in every record, is kept and shown as a digest only;
    what a cookie or a url holds is taken for a secret.
    """

    name = "generation"

    def __init__(
        self,
        cursor: Cursor | None,
        *,
        header: str = "",
        pointer: str = "",
        secret: bool = False,
        cookie: str = "",
        url: Search | None = None,
        control: Control | None = None,
        control_pointer: str = "",
        scheme: Scheme = _OPAQUE,
        first_id: bool = False,
        begins: frozenset[str] = frozenset(),
    ) -> None:
        self.expected = cursor.token if cursor is not None else ""
        self._token = ""
        self._header = header.lower()
        self._pointer = pointer
        self._secret = secret or bool(cookie) or url is not None
        self._cookie = cookie
        self._url = url
        self._control = control or Control()
        self._control_pointer = control_pointer
        self._scheme = scheme
        self._first_id = first_id
        self._first_is_due = False
        self._begins = begins
        self._heard = False
        self._reads_frames = bool(pointer or control_pointer or begins or first_id)

    @property
    def token(self) -> str:
        return self._token

    def holds(self) -> Iterable[Fact]:
        """Return that the source has named this generation, and no other since."""
        if self._token:
            yield Fact(
                Facet.IDENTITY,
                Finding.PROVES,
                self.name,
                Reason.GENERATION_EQUAL,
                self._token,
                self._token,
            )

    def opened(self, opening: Opening) -> Iterable[Fact]:
        observed = opening.headers.get(self._header, "") if self._header else ""
        # An error page may come from anywhere, and set cookies of its own.
        elsewhere = opening.status != 200
        if self._cookie and not elsewhere:
            observed = _cookie(self._cookie, opening.headers.get("set-cookie", ""))
        if self._url is not None and not elsewhere:
            observed = self._url.read(_path(opening.url)).get("gen", "")
        if observed:
            yield from self._state(observed)
        self._first_is_due = self._first_id

    def arrived(self, frame: Frame) -> Iterable[Fact]:
        in_id = frame.id_seen and self._scheme.generation(frame.last_event_id)
        return self._read(frame) if in_id or self._reads_frames or not self._heard else ()

    def _read(self, frame: Frame) -> Iterable[Fact]:
        yield from self.noticed(frame)
        if frame.data is None:
            return
        observed = self._token_in(frame.data) if self._pointer else ""
        if not observed and frame.id_seen:
            observed = self._scheme.generation(frame.last_event_id)
        if observed:
            yield from self._state(observed)
        elif not self._heard:
            self._heard = True
            yield self._fact(Finding.SILENT, Reason.GENERATION_ABSENT, "")

    def noticed(self, frame: Frame) -> Iterable[Fact]:
        """Return what a greeting says; a priming id is one, too."""
        if self._first_is_due and frame.id_seen and frame.last_event_id:
            self._first_is_due = False
            yield from self._state(frame.last_event_id)
        observed = self._control.text(self._control_pointer, frame)
        if observed:
            yield from self._state(observed)
        if frame.data is not None and frame.event in self._begins:
            yield self._fact(Finding.CONTRADICTS, Reason.GENERATION_BEGUN, frame.event)

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


def _path(url: str) -> str:
    try:
        return urlsplit(url).path
    except ValueError:
        return ""


def _cookie(name: str, header: str) -> str:
    """Return the value of a cookie that is set; several of them come in one header, with commas."""
    found = re.search(rf"(?:^|[,;]\s*){re.escape(name)}=([^;,\s]*)", header)
    return found[1].strip('"') if found else ""
