"""The reference server of Durable Streams, driven by its own protocol; on disk or not."""

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2

from fencepost_schemas.reason import Reason
from fencepost_schemas.standing import Standing
from real.foreign.npm import node, version_of
from real.process import Process, listening_socket, start
from real.rig import beside_the_gate, lines_of
from real.scenarios import (
    NOTHING,
    PAST,
    RESTART_FEWER,
    RESTART_MORE,
    UNKNOWN,
    WITHIN,
    Case,
    Row,
)

STREAM = "/events"
DIALECT = "durable_streams"


class DurableStreams:
    """`kept` says whether its log outlives its process.

    It has no retention of its own: whoever wants to keep no more than `window` events deletes the
    stream and makes it again from the last of them.
    """

    path = f"{STREAM}?live=sse"
    greets = True

    def __init__(self, folder: Path, *, kept: bool, window: int | None = None) -> None:
        self.folder = folder
        self.log = folder / "emitted"
        self.source: Mapping[str, Any] = {"dialect": DIALECT, "key": "/k"}
        self.process: Process
        self._kept = kept
        self._window = window
        self._lives = itertools.count(1)

    async def start(self) -> Process:
        listening = listening_socket()
        line = node("durable-streams.mjs", "--fd", str(listening.fileno()))
        if self._kept:
            line += ["--folder", str(self.folder / "streams")]
        output = self.folder / f"server-{next(self._lives)}.out"
        self.process = await start(line, listening, output)
        await self._ask("PUT")
        return self.process

    async def emit(self, *keys: str) -> None:
        for key in keys:
            with self.log.open("a", encoding="utf-8") as log:
                log.write(key + "\n")
            await self._ask("POST", {"k": key})
        if self._window is not None and len(self.emitted()) > self._window:
            await self.forget()
            for key in self.emitted()[-self._window :]:
                await self._ask("POST", {"k": key})

    async def forget(self) -> None:
        """Have the stream deleted and made again."""
        await self._ask("DELETE")
        await self._ask("PUT")

    def emitted(self) -> list[str]:
        return lines_of(self.log)

    async def _ask(self, method: str, event: dict[str, str] | None = None) -> None:
        url = f"http://127.0.0.1:{self.process.port}{STREAM}"
        headers = {"content-type": "application/json"}
        body = httpx2.Request(method, url, json=event).content if event is not None else b""
        async with beside_the_gate() as client:
            reply = await client.request(method, url, content=body, headers=headers)
            assert reply.is_success, f"{method}: {reply.status_code} {reply.text}"


MATCHED = (Reason.OVERLAP_MATCHED,)
# An offset that it does not have is clamped to one that it has, and nothing says so.
OTHER_LOG = (Reason.OVERLAP_MISSED, Reason.OVERLAP_OTHER_BYTES)
KEPT_CASES = (
    Case(NOTHING, MATCHED),
    Case(WITHIN, MATCHED),
    Case(PAST, OTHER_LOG),
    Case(RESTART_FEWER, MATCHED, verdict=Standing.RESUMED),
    Case(RESTART_MORE, MATCHED, verdict=Standing.RESUMED),
    Case(UNKNOWN, OTHER_LOG),
)
# It differs from the one that is kept in a restart, and nowhere else.
LOST_CASES = (
    Case(RESTART_FEWER, OTHER_LOG),
    Case(RESTART_MORE, OTHER_LOG),
)


def _made(folder: Path, case: Case, *, kept: bool) -> DurableStreams:
    window = case.scenario.window if case.scenario is PAST else None
    return DurableStreams(folder, kept=kept, window=window)


NAME = f"@durable-streams/server {version_of('@durable-streams/server')}"
DURABLE_STREAMS = (
    Row(
        f"{NAME}, on disk",
        DIALECT,
        lambda folder, case: _made(folder, case, kept=True),
        KEPT_CASES,
    ),
    Row(
        f"{NAME}, in memory",
        DIALECT,
        lambda folder, case: _made(folder, case, kept=False),
        LOST_CASES,
    ),
)
