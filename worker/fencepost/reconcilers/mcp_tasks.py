"""A reconciler for an MCP server with tasks: what became of them while nobody listened.

    source = load_settings(None, os.environ, {}).sources["crm"]
    app.reconcile("crm", name="crm-tasks")(mcp_tasks(source, known=open_tasks))

A task is a state that can be read again and again, and no log: of a task that went through several
states in the gap, the last one is found. So what is over is emitted, as the notification that was
missed would have told it, under the key that the source has for it. Tasks are listed where the
server offers that, and those that the app knows to be open are asked for one by one.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from fencepost.clock import RealWorld
from fencepost.errors import UsageError
from fencepost.handler import Context
from fencepost.mcp_calls import McpCalls, Refused
from fencepost.ports import SourceUnreachable
from fencepost.settings import Bridge, Source
from fencepost.settings_file import source_headers
from fencepost.transport.http import HttpTransport
from fencepost_policies.keys import key_in
from fencepost_schemas.verdict import Gap

log = logging.getLogger("fencepost.reconcilers")

STATUS = "notifications/tasks/status"
OVER = ("completed", "failed", "cancelled")
INVALID_PARAMS = -32602
"""A task that the server does not know, or no longer."""
PAGES_MAX = 1_000

Known = Callable[[], Awaitable[Iterable[str]]]
Reconcile = Callable[[Gap, Context], Awaitable[None]]


class _Page(msgspec.Struct):
    tasks: list[dict[str, Any]] = []
    next_cursor: str = msgspec.field(name="nextCursor", default="")


async def nothing_known() -> Iterable[str]:
    """The app keeps no list of its tasks."""
    return ()


def mcp_tasks(
    source: Source, *, known: Known = nothing_known, statuses: Collection[str] = OVER
) -> Reconcile:
    """Return the reconciler of a source, to be registered under the source's name.

    `source` is as configured: its url, headers, protocol and key are used. `known` returns the ids
    of tasks that the app waits for. Raises UsageError where the source's key is none of a task.
    """
    sample = _notification({"taskId": "x", "status": "x", "createdAt": "x", "lastUpdatedAt": "x"})
    if not source.key or key_in(source.key, sample) is None:
        raise UsageError(
            f"mcp_tasks: the source's key is {source.key!r}, which no task has: "
            'let it be what a task is known by, as in key = "/params/taskId"'
        )

    async def reconcile(gap: Gap, ctx: Context) -> None:
        async with _calls(ctx.event.source, source) as calls:
            async for task in _tasks(calls, await known(), ctx.event.source):
                if task.get("status") in statuses:
                    await _emit(task, source.key, ctx)

    reconcile.__name__ = "mcp_tasks"
    return reconcile


async def _emit(task: dict[str, Any], pointer: str, ctx: Context) -> None:
    data = _notification({name: value for name, value in task.items() if name != "_meta"})
    key = key_in(pointer, data)
    if key is None:
        log.warning("%s: a task without the source's key; passed over", ctx.event.source)
        return
    await ctx.emit(type=STATUS, key=key, data=data)


def _notification(task: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", "method": STATUS, "params": task})


@asynccontextmanager
async def _calls(name: str, source: Source) -> AsyncIterator[McpCalls]:
    """Yield calls of the source's server, in a session of our own where there are sessions."""
    transport = HttpTransport(Bridge())
    calls = McpCalls(source, source_headers(name, source), transport.of(name, source), RealWorld())
    try:
        await calls.begin()
        yield calls
        try:
            await calls.end()
        except SourceUnreachable as error:
            log.info("%s: its session could not be ended: the server %s", name, error)
    finally:
        await transport.close()


async def _tasks(
    calls: McpCalls, known: Iterable[str], source: str
) -> AsyncIterator[dict[str, Any]]:
    """Yield each task once: those that the server lists, then those that only we know of."""
    seen: set[str] = set()
    async for task in _listed(calls):
        if task.get("taskId") not in seen:
            seen.add(str(task.get("taskId")))
            yield task
    for id in known:
        if id in seen:
            continue
        try:
            yield await calls.call("tasks/get", {"taskId": id}, name=id)
        except Refused as error:
            if error.code != INVALID_PARAMS:
                raise
            log.warning("%s: the server no longer knows a task that is open here", source)


async def _listed(calls: McpCalls) -> AsyncIterator[dict[str, Any]]:
    """Yield what the server lists, page by page; nothing where it does not offer to."""
    offered = calls.capabilities.get("tasks")
    if not isinstance(offered, dict) or offered.get("list") is None:
        return
    cursor = ""
    for _ in range(PAGES_MAX):
        result = await calls.call("tasks/list", {"cursor": cursor} if cursor else {})
        try:
            page = msgspec.convert(result, _Page)
        except msgspec.ValidationError as error:
            raise SourceUnreachable(f"sent a list of tasks that is none: {error}") from None
        for task in page.tasks:
            yield task
        cursor = page.next_cursor
        if not cursor:
            return
    raise SourceUnreachable(f"lists more than {PAGES_MAX} pages of tasks")
