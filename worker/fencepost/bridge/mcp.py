"""The door to an MCP server: make a session, keep it, make another where it is gone.

Up to 2025-11-25 that is initialize, then one GET for the session's stream, or one POST for a
call's own. Since 2026-07-28 it is one `subscriptions/listen` a connection, under a fresh id.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec

from fencepost.mcp_calls import CLIENT, meta_of, negotiated, result_of, session_headers
from fencepost.ports import Request, SourceResponse, SourceUnreachable, Way, World
from fencepost.settings import Source
from fencepost_policies.dialects.mcp import SESSION_HEADER, request_in
from fencepost_policies.reply import retry_after_s
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.sse import Frame

log = logging.getLogger("fencepost.bridge")

NOT_FOUND = 404
BAD_REQUEST = 400


class McpDoor:
    """Keeps the session between connections. `session` is a secret: it is stored, never shown."""

    answers = True

    def __init__(self, source: Source, headers: dict[str, str], way: Way, world: World) -> None:
        self.session = ""
        self._source = source
        self._speech = source.mcp
        self._headers = headers
        self._way = way
        self._world = world
        self._gone = False
        self._version: str = source.mcp.protocol

    @asynccontextmanager
    async def open(self, cursor: Cursor, asked: str) -> AsyncIterator[SourceResponse]:
        """Open the stream; an unknown session is asked for once more, then given up.

        One 404 may come from the wrong replica behind a balancer. After the second a stream that
        was asked for by position is refused, and one that was not begins in a new session. Many
        servers say 400 of a session that they do not know; where no position was sent, there is
        nothing else that they could refuse.
        """
        if not self._speech.resumable:
            async with self._way.open(self._listen()) as response:
                yield response
            return
        self.session = self.session or cursor.session
        # A position means nothing in another session, even where its log is still there: behind
        # the replay it would go on with what is live now, and no gap would be between the two.
        if not self.session or (self._gone and not asked):
            await self._begin()
        async with AsyncExitStack() as stack:
            response = await stack.enter_async_context(self._stream(cursor, asked))
            if response.status == NOT_FOUND:
                response = await stack.enter_async_context(self._stream(cursor, asked))
            gone = (NOT_FOUND,) if asked else (NOT_FOUND, BAD_REQUEST)
            self._gone = response.status in gone
            if self._gone and not asked:
                await self._begin()
                response = await stack.enter_async_context(self._stream(cursor, asked))
            yield response

    async def answer(self, frame: Frame) -> None:
        """Answer what the server asks of its client: `ping`; anything else is not served."""
        request = request_in(frame)
        if request is None or not self.session:
            return
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        if request["method"] == "ping":
            reply["result"] = {}
        else:
            reply["error"] = {"code": -32601, "message": "fencepost only listens"}
        try:
            await self._post(reply)
        except SourceUnreachable as error:
            log.warning("mcp: a %s could not be answered: the source %s", request["method"], error)

    # --- inside
    def _stream(self, cursor: Cursor, asked: str) -> Any:
        """Return the opening of the session's stream, or of the call's where one is followed."""
        call = self._speech.call
        if call is not None and not asked and cursor.fresh:
            return self._way.open(self._request(self._message(call)))
        return self._way.open(Request("GET", self._source.url, self._with_session(), asked))

    async def _begin(self) -> None:
        """Make a session; one that was not made whole is not kept."""
        try:
            await self._initialize()
        except SourceUnreachable:
            self.session = ""
            raise

    async def _initialize(self) -> None:
        """Make a session, and send what the configuration wants sent in it."""
        self.session, self._gone = "", False
        params = {
            "protocolVersion": self._speech.protocol,
            "capabilities": {},
            "clientInfo": CLIENT,
        }
        message = self._message({"method": "initialize", "params": params})
        self._version = ""
        async with self._way.open(self._request(message)) as response:
            if response.status != 200:
                raise _refusal("initialize", response)
            self.session = response.headers.get(SESSION_HEADER, "")
            self._version = await negotiated(response) or self._speech.protocol
        await self._post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        for request in self._speech.requests:
            await self._post(self._message(request))

    async def _post(self, message: dict[str, Any]) -> None:
        async with self._way.open(self._request(message)) as response:
            if response.status not in (200, 202):
                raise _refusal(message.get("method", "a reply"), response)
            if "id" in message and "method" in message:
                await result_of(response)

    def _listen(self) -> Request:
        message = self._message(
            {
                "method": "subscriptions/listen",
                "params": {
                    "notifications": self._speech.notifications,
                    "_meta": meta_of(self._speech.protocol),
                },
            }
        )
        request = self._request(message)
        headers = {**request.headers, "Mcp-Method": "subscriptions/listen"}
        return msgspec.structs.replace(request, headers=headers)

    def _message(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return a JSON-RPC request under a fresh id, which no other connection has used."""
        return {"jsonrpc": "2.0", "id": self._world.random_name(16), **request}

    def _request(self, message: dict[str, Any]) -> Request:
        headers = {
            **self._with_session(),
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        return Request("POST", self._source.url, headers, "", msgspec.json.encode(message))

    def _with_session(self) -> dict[str, str]:
        return {**self._headers, **session_headers(self._version, self.session)}


def _refusal(what: str, response: SourceResponse) -> SourceUnreachable:
    wait_s = retry_after_s(response.headers)
    return SourceUnreachable(f"answered {what} with {response.status}", wait_s)
