"""The naive MCP client: it keeps its last id, resumes with it, and takes any 200 for a resume.

Run as `python -m fencepost.demo.naive_mcp URL SINK`. Where its session is gone it makes another and
goes on, and does each task that comes.
"""

import asyncio
import contextlib
import json
import sys
from pathlib import Path
from typing import Any, TextIO

import httpx2

from fencepost_schemas.sse import Decoder

RETRY_S = 0.2
VERSION = "2025-11-25"


class NaiveMcp:
    def __init__(self, url: str, client: httpx2.AsyncClient, executed: TextIO) -> None:
        self._url = url
        self._client = client
        self._executed = executed
        self._session = ""
        self._last_event_id = ""

    async def follow(self) -> None:
        """Make a session where there is none, and read its stream to the end."""
        if not self._session:
            await self._begin()
        headers = {"Accept": "text/event-stream", **self._headers()}
        if self._last_event_id:
            headers["Last-Event-ID"] = self._last_event_id
        async with self._client.stream("GET", self._url, headers=headers) as response:
            if response.status_code == 404:
                self._session, self._last_event_id = "", ""
                return
            decoder = Decoder(self._last_event_id)
            async for chunk in response.aiter_bytes():
                for frame in decoder.feed(chunk):
                    self._last_event_id = frame.last_event_id
                    if frame.data:
                        self._execute(json.loads(frame.data))

    def _execute(self, message: dict[str, Any]) -> None:
        task = message.get("params", {}).get("data", {})
        if "idempotency_key" in task:
            self._executed.write(json.dumps({"key": task["idempotency_key"]}) + "\n")

    async def _begin(self) -> None:
        reply = await self._post(
            "initialize",
            {
                "protocolVersion": VERSION,
                "capabilities": {},
                "clientInfo": {"name": "naive", "version": "1"},
            },
            id=1,
        )
        self._session = reply.headers["mcp-session-id"]
        await self._post("notifications/initialized")
        await self._post("tools/call", {"name": "follow", "arguments": {}}, id=2)

    async def _post(
        self, method: str, params: Any = None, id: int | None = None
    ) -> httpx2.Response:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        if id is not None:
            message["id"] = id
        headers = {"Accept": "application/json, text/event-stream", **self._headers()}
        reply = await self._client.post(self._url, json=message, headers=headers)
        reply.raise_for_status()
        return reply

    def _headers(self) -> dict[str, str]:
        if not self._session:
            return {}
        return {"Mcp-Session-Id": self._session, "MCP-Protocol-Version": VERSION}


async def main(url: str, sink: Path) -> None:
    with sink.open("a", buffering=1) as executed:
        async with httpx2.AsyncClient(timeout=None, trust_env=False) as client:
            naive = NaiveMcp(url, client, executed)
            while True:
                # Whatever breaks, it comes back, and takes what it gets.
                with contextlib.suppress(httpx2.HTTPError):
                    await naive.follow()
                await asyncio.sleep(RETRY_S)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
