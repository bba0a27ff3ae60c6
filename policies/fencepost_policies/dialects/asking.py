"""How a position is asked for: where in a request it goes, and what stands there without one.

Most servers read `Last-Event-ID`. Others want a query parameter, a piece of the path, or JSON in
the query or in the body of a POST. Whatever is filled in is encoded for its place, so that no
position that a source has sent can add a parameter, a header or a key of its own.
"""

import re
from typing import Any, Literal
from urllib.parse import quote, unquote_plus

import msgspec

POSITION, GENERATION = "$position", "$generation"
NUMBER = ":number"
LAST_EVENT_ID = "Last-Event-ID"
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_NUMBER = re.compile("0|[1-9][0-9]{0,39}")


class Asked(msgspec.Struct, frozen=True):
    """One request for a stream. `last_event_id` goes into the header of that name, unless empty.

    Never log it: url, headers and body may hold a position.
    """

    method: Literal["GET", "POST"]
    url: str
    headers: dict[str, str]
    last_event_id: str = ""
    body: bytes = b""


class Asking(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, rename={"where": "in"}
):
    """Where a position goes. In TOML `where` is written `in`.

    `name` is the header or the query parameter. `template` is what stands there, with `$position`
    and `$generation` (the source's own word for it) filled in; for `path` it is what the url's path
    goes on with. `json` is sent in place of the template, in a parameter or as the body of a POST:
    in each string of it the same words are filled in, and "$position:number" becomes a number.

    `now` and `earliest` stand for the position that `fencepost init --from` asks to begin with,
    where the server has words for them ("$", "0-0"), and `anew` says which of the two is sent where
    no position can be asked for any more. Without a position, `json_anew` is sent for `json`.
    """

    where: Literal["header", "query", "path", "body"] = "header"
    name: str = LAST_EVENT_ID
    template: str = POSITION
    json: dict[str, Any] | None = None
    json_anew: dict[str, Any] | None = None
    now: str = ""
    earliest: str = ""
    anew: Literal["now", "earliest"] = "now"

    def __post_init__(self) -> None:
        if self.where == "header" and not _HEADER_NAME.fullmatch(self.name):
            raise ValueError(f"ask.name: {self.name!r} is not the name of a header")
        if not self.name.strip() or not self.name.isprintable():
            raise ValueError("ask.name is empty, or has characters that no parameter has")
        if self.json is not None and self.where in ("header", "path"):
            raise ValueError(f'ask.json goes into a "query" or a "body", not into a {self.where}')
        if self.where == "body" and self.json is None:
            raise ValueError('ask.in = "body" needs ask.json, as in json = {since = "$position"}')
        if POSITION not in (self.template if self.json is None else str(self.json)):
            raise ValueError(f"ask: {POSITION} is nowhere in what is sent")
        if not self.template.isprintable():
            raise ValueError("ask.template has characters that no request can hold")

    def start(self, start: str) -> str:
        """Return what stands for where `fencepost init` said to begin; "" where nothing does."""
        return {"now": self.now, "earliest": self.earliest}.get(start, "")

    def request(
        self, url: str, headers: dict[str, str], position: str, generation: str = ""
    ) -> Asked:
        """Return the request for what is behind this position; "" asks for no position."""
        words = {POSITION: position, GENERATION: generation}
        if self.where == "body":
            document = self.json if position else self.json_anew
            body = msgspec.json.encode(_filled(document or {}, words))
            with_type = {**headers, "Content-Type": "application/json"}
            return Asked("POST", url, with_type, body=body)
        if self.json is not None:
            document = self.json if position else self.json_anew
            if document is None:
                return Asked("GET", url, headers)
            text = msgspec.json.encode(_filled(document, words)).decode()
            return Asked("GET", _with_parameter(url, self.name, text), headers)
        if not position:
            return Asked("GET", url, headers)
        return self._templated(url, headers, words)

    def _templated(self, url: str, headers: dict[str, str], words: dict[str, str]) -> Asked:
        if self.where == "path":
            escaped = {
                word: quote(value, safe="", errors="replace") for word, value in words.items()
            }
            return Asked("GET", _with_path(url, _fill(self.template, escaped)), headers)
        text = _fill(self.template, words)
        if self.where == "query":
            return Asked("GET", _with_parameter(url, self.name, text), headers)
        if self.name.lower() == LAST_EVENT_ID.lower():
            return Asked("GET", url, headers, last_event_id=text)
        return Asked("GET", url, {**headers, self.name: text})


def _fill(text: str, words: dict[str, str]) -> str:
    """Return the text with each word replaced, and none inside what was filled in."""
    return re.sub(r"\$(?:position|generation)", lambda found: words[found.group()], text)


def _filled(document: Any, words: dict[str, str]) -> Any:
    if isinstance(document, dict):
        return {name: _filled(value, words) for name, value in document.items()}
    if isinstance(document, list):
        return [_filled(value, words) for value in document]
    if not isinstance(document, str):
        return document
    if document.endswith(NUMBER) and document.removesuffix(NUMBER) in words:
        value = words[document.removesuffix(NUMBER)]
        return msgspec.Raw(value.encode()) if _NUMBER.fullmatch(value) else value
    return _fill(document, words)


def _with_parameter(url: str, name: str, value: str) -> str:
    """Return the url with this parameter, in the place of one that it may have of this name."""
    before, _, fragment = url.partition("#")
    address, _, query = before.partition("?")
    kept = [
        pair for pair in query.split("&") if pair and unquote_plus(pair.partition("=")[0]) != name
    ]
    kept.append(f"{quote(name, safe='')}={quote(value, safe='', errors='replace')}")
    return f"{address}?{'&'.join(kept)}" + (f"#{fragment}" if fragment else "")


def _with_path(url: str, more: str) -> str:
    address, mark, query = url.partition("?")
    return f"{address.rstrip('/')}/{more.lstrip('/')}{mark}{query}"
