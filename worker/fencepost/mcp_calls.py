"""Calls of an MCP server over HTTP: what the bridge's door and a reconciler both need of them.

Up to 2025-11-25 calls are made in a session, which is begun and ended; since 2026-07-28 each call
says everything itself.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from fencepost.ports import Request, SourceResponse, SourceUnreachable, Way, World
from fencepost.settings import Source
from fencepost_policies.dialects.mcp import SESSION_HEADER
from fencepost_schemas.limits import EVENT_BYTES_MAX
from fencepost_schemas.sse import Decoder

T = TypeVar("T")

CLIENT = {"name": "fencepost", "version": "1"}
VERSION_HEADER = "MCP-Protocol-Version"
BEFORE_VERSION_HEADER = "2025-03-26"
VERSION_META = "io.modelcontextprotocol/protocolVersion"
INFO_META = "io.modelcontextprotocol/clientInfo"
CAPABILITIES_META = "io.modelcontextprotocol/clientCapabilities"
METHOD_HEADER = "Mcp-Method"
NAME_HEADER = "Mcp-Name"
RESULT_S_MAX = 60.0
"""A reply that comes byte by byte is never silent, and never there."""


class Refused(SourceUnreachable):
    """The server answered a call with an error; `code` is JSON-RPC's, 0 where it gave none."""

    def __init__(self, code: int) -> None:
        super().__init__(f"refused a request ({code or 'error'})")
        self.code = code


def meta_of(protocol: str) -> dict[str, Any]:
    """Return what each request says of us since there are no sessions."""
    return {VERSION_META: protocol, INFO_META: CLIENT, CAPABILITIES_META: {}}


def session_headers(version: str, session: str) -> dict[str, str]:
    """Return the headers of a request: of the negotiated version, in a session if there is one."""
    headers = {}
    if version not in ("", BEFORE_VERSION_HEADER):
        headers[VERSION_HEADER] = version
    if session:
        headers[SESSION_HEADER] = session
    return headers


# --- calls --------------------------------------------------------------------------------------
class McpCalls:
    """Calls one after another. `begin` first, `end` last; both do nothing without sessions."""

    def __init__(self, source: Source, headers: Mapping[str, str], way: Way, world: World) -> None:
        self.capabilities: dict[str, Any] = {}
        self._source = source
        self._headers = headers
        self._way = way
        self._world = world
        self._protocol: str = source.mcp.protocol
        self._in_session = source.mcp.resumable
        self._version: str = "" if self._in_session else self._protocol
        self._session = ""

    async def begin(self) -> None:
        """Make a session; raise SourceUnreachable where there is none to be had."""
        if not self._in_session:
            return
        params = {"protocolVersion": self._protocol, "capabilities": {}, "clientInfo": CLIENT}
        async with self._way.open(self._request("initialize", params)) as response:
            _check_status("initialize", response)
            self._session = response.headers.get(SESSION_HEADER, "")
            begun = _decoded(await result_of(response), _BEGUN)
        self._version = begun.protocol_version or self._protocol
        self.capabilities = begun.capabilities
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        async with self._way.open(self._post(note, {})) as response:
            _check_status("notifications/initialized", response)

    async def call(self, method: str, params: dict[str, Any], *, name: str = "") -> dict[str, Any]:
        """Return the result; raise Refused where it is an error, SourceUnreachable without one.

        `name` is what the call is about, for balancers that route by it.
        """
        async with self._way.open(self._request(method, params, name)) as response:
            _check_status(method, response)
            return _decoded(await result_of(response), _RESULT)

    async def end(self) -> None:
        """Give the session up. A server that does not take that forgets it by itself."""
        if not self._session:
            return
        headers = {**self._headers, **session_headers(self._version, self._session)}
        self._session = ""
        async with self._way.open(Request("DELETE", self._source.url, headers)):
            pass

    def _request(self, method: str, params: dict[str, Any], name: str = "") -> Request:
        extra = {}
        if not self._in_session:
            params = {**params, "_meta": meta_of(self._protocol)}
            extra = {METHOD_HEADER: method, **({NAME_HEADER: name} if name else {})}
        id = self._world.random_name(16)
        return self._post({"jsonrpc": "2.0", "id": id, "method": method, "params": params}, extra)

    def _post(self, message: dict[str, Any], extra: dict[str, str]) -> Request:
        headers = {
            **self._headers,
            **session_headers(self._version, self._session),
            **extra,
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        return Request("POST", self._source.url, headers, "", msgspec.json.encode(message))


def _check_status(method: str, response: SourceResponse) -> None:
    if response.status not in (200, 202):
        raise SourceUnreachable(f"answered {method} with {response.status}")


# --- replies ------------------------------------------------------------------------------------
class _Begun(msgspec.Struct):
    protocol_version: str = msgspec.field(name="protocolVersion", default="")
    capabilities: dict[str, Any] = {}


_BEGUN = msgspec.json.Decoder(_Begun)
_RESULT = msgspec.json.Decoder(dict[str, Any])


class _Reply(msgspec.Struct):
    result: msgspec.Raw = msgspec.Raw(b"")
    error: dict[str, Any] | None = None


async def negotiated(response: SourceResponse) -> str:
    """Return the protocol version of an answer to initialize, "" where it names none."""
    try:
        return msgspec.json.decode(await result_of(response), type=_Begun).protocol_version
    except msgspec.DecodeError:
        return ""


async def result_of(response: SourceResponse) -> msgspec.Raw:
    """Return the result that a response carries; raise SourceUnreachable where it is an error."""
    try:
        async with asyncio.timeout(RESULT_S_MAX):
            return await _read_result(response)
    except TimeoutError:
        raise SourceUnreachable("took too long over a reply") from None


async def _read_result(response: SourceResponse) -> msgspec.Raw:
    streamed = response.headers.get("content-type", "").startswith("text/event-stream")
    body = bytearray()
    decoder = Decoder()
    async for chunk in response.chunks():
        if not streamed:
            body += chunk
            if len(body) > EVENT_BYTES_MAX:
                raise SourceUnreachable("sent a reply without an end")
            continue
        for frame in decoder.feed(chunk):
            found = _result_in(frame.data.encode()) if frame.data else None
            if found is not None:
                return found
    found = _result_in(bytes(body))
    if found is None:
        raise SourceUnreachable("sent a reply that is none")
    return found


def _result_in(data: bytes) -> msgspec.Raw | None:
    """Return the result of a JSON-RPC reply, None for anything else."""
    try:
        reply = msgspec.json.decode(data, type=_Reply)
    except msgspec.DecodeError:
        return None
    if reply.error is not None:
        code = reply.error.get("code")
        raise Refused(code if isinstance(code, int) else 0)
    return reply.result if bytes(reply.result) else None


def _decoded(result: msgspec.Raw, decoder: msgspec.json.Decoder[T]) -> T:
    try:
        return decoder.decode(result)
    except (msgspec.DecodeError, RecursionError) as error:
        raise SourceUnreachable(f"sent a result that cannot be read: {error}") from None
