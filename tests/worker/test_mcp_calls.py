"""Calls of an MCP server, answer by answer; on a real server they are made in tests/real."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from fencepost.clock import RealWorld
from fencepost.errors import UsageError
from fencepost.mcp_calls import McpCalls, Refused
from fencepost.ports import Request, SourceUnreachable
from fencepost.reconcilers.mcp_tasks import mcp_tasks
from fencepost.settings import Source
from fencepost_policies.dialects.mcp import Dialect
from fencepost_schemas.event import KeyScope
from fencepost_schemas.limits import EVENT_BYTES_MAX

JSON = {"content-type": "application/json"}
STREAM = {"content-type": "text/event-stream; charset=utf-8"}
BEGUN = b'{"result":{"protocolVersion":"2025-06-18","capabilities":{"tasks":{"list":{}}}}}'


@dataclass(frozen=True)
class Answer:
    """One response, as a source gives it."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: JSON)
    url: str = "http://crm.example/mcp"
    own: bool = True

    async def chunks(self) -> AsyncIterator[bytes]:
        for at in range(0, len(self.body), 65_536):
            yield self.body[at : at + 65_536]


class ScriptedWay:
    """Answers one request after the other; `said` is what was sent."""

    def __init__(self, *answers: Answer) -> None:
        self.said: list[tuple[Request, Any]] = []
        self._answers = list(answers)

    @asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator[Answer]:
        body = msgspec.json.decode(request.body) if request.body else None
        self.said.append((request, body))
        yield self._answers.pop(0)


def calls_to(way: ScriptedWay, **mcp: Any) -> McpCalls:
    source = Source(url="http://crm.example/mcp", keys=KeyScope.NONE, mcp=Dialect(**mcp))
    return McpCalls(source, {"Authorization": "Bearer s3cret"}, way, RealWorld())


async def test_a_session_is_made_used_and_given_up() -> None:
    """Under the version that was negotiated, with the configured headers all along."""
    way = ScriptedWay(
        Answer(BEGUN, headers={**JSON, "mcp-session-id": "s-1"}),
        Answer(status=202),
        Answer(b': hello\n\ndata: {"method":"x"}\n\ndata: {"result":{"a":1}}\n\n', headers=STREAM),
        Answer(),
    )
    calls = calls_to(way)
    await calls.begin()
    assert {"tasks": {"list": {}}} == calls.capabilities
    assert {"a": 1} == await calls.call("tasks/get", {"taskId": "t"})
    await calls.end()
    await calls.end()
    assert ["initialize", "notifications/initialized", "tasks/get"] == [
        body["method"] for _, body in way.said if body is not None
    ]
    assert ["POST", "POST", "POST", "DELETE"] == [request.method for request, _ in way.said]
    for request, _ in way.said[1:]:
        assert "s-1" == request.headers["mcp-session-id"]
        assert "2025-06-18" == request.headers["MCP-Protocol-Version"]
    assert {"Bearer s3cret"} == {request.headers["Authorization"] for request, _ in way.said}


async def test_without_sessions_each_call_says_everything() -> None:
    """Since 2026-07-28: nothing is begun, and a balancer may route by what the call is about."""
    way = ScriptedWay(Answer(b'{"result":{}}'))
    calls = calls_to(way, protocol="2026-07-28")
    await calls.begin()
    await calls.call("tasks/get", {"taskId": "t-1"}, name="t-1")
    await calls.end()
    ((request, body),) = way.said
    assert ("tasks/get", "t-1") == (request.headers["Mcp-Method"], request.headers["Mcp-Name"])
    meta = body["params"]["_meta"]
    assert "2026-07-28" == meta["io.modelcontextprotocol/protocolVersion"]
    assert "2026-07-28" == request.headers["MCP-Protocol-Version"]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (Answer(status=500), "answered tasks/get with 500"),
        (Answer(b""), "a reply that is none"),
        (Answer(b"<html>"), "a reply that is none"),
        (Answer(b'{"result":[]}'), "cannot be read"),
        (Answer(b" " * (EVENT_BYTES_MAX + 1)), "without an end"),
        (Answer(b"data: {}\n\n", headers=STREAM), "a reply that is none"),
        (Answer(b'{"error":{"code":-32602,"message":"s3cret"}}'), r"refused a request \(-32602\)"),
        (Answer(b'{"error":{"code":"x"}}'), r"refused a request \(error\)"),
    ],
)
async def test_what_is_no_result_is_told_without_what_was_said(answer: Answer, text: str) -> None:
    calls = calls_to(ScriptedWay(answer), protocol="2026-07-28")
    with pytest.raises(SourceUnreachable, match=text) as raised:
        await calls.call("tasks/get", {"taskId": "t"})
    assert "s3cret" not in str(raised.value)
    if isinstance(raised.value, Refused):
        assert raised.value.code in (-32602, 0)


@pytest.mark.parametrize("key", ["", "/params/data/k", "/taskId"])
def test_a_source_whose_key_no_task_has_is_refused(key: str) -> None:
    """What would be emitted could not be told from what the stream brings."""
    scope = KeyScope.DURABLE if key else KeyScope.NONE
    with pytest.raises(UsageError, match="/params/taskId"):
        mcp_tasks(Source(url="http://x/", keys=scope, key=key, dialect="mcp"))
