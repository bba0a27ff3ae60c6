"""What a probe may cost a server: requests, time, and what is kept of its answers."""

import asyncio

import pytest

from fencepost.errors import Unreachable, UsageError
from fencepost.probe.bounds import ANSWER_BYTES_MAX, FRAMES_MAX, SAID_BYTES_MAX
from fencepost_policies.dialects.mcp import Dialect as Mcp
from fencepost_policies.probe.answers import Ending, Question
from fencepost_policies.probe.troubles import Trouble
from kit.probing import probed
from kit.source import End, Reply, ScriptedSource, sse, stream
from kit.speaker import Speaker, accepts_and_forgets, numbered

INITIALIZED = Reply(
    (b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25"}}',),
    headers={"content-type": "application/json", "mcp-session-id": "s-1"},
)
ACCEPTED = Reply(status=202)
NO_SESSION = Reply(
    (b'{"jsonrpc":"2.0","error":{"code":-32600,"message":"Missing session ID"}}',),
    400,
    {"content-type": "application/json"},
)


@pytest.mark.parametrize("most", [1, 2, 4])
async def test_no_request_more_than_was_said(most: int) -> None:
    async with Speaker(numbered(5)) as server:
        report = await probed(server.url, requests=most)
    assert most == len(server.requests) == report.requests
    asked = {one.question for one in report.asked}
    assert {Question.NEWEST, Question.FUTURE} - asked <= set(report.not_asked)


async def test_no_longer_than_was_said() -> None:
    """Each silent answer is waited for, until the time is over."""
    async with Speaker(numbered(5), accepts_and_forgets) as server:
        report = await probed(server.url, wait_s=0.2, answer_s=0.4, seconds=1.0)
    assert report.took_s < 2.0
    assert Question.FUTURE in report.not_asked


async def test_a_session_that_takes_more_requests_than_there_are() -> None:
    async with ScriptedSource(INITIALIZED, ACCEPTED, stream(end=End.HANG)) as server:
        with pytest.raises(UsageError, match="raise --requests"):
            await probed(server.url, Mcp(), requests=2)
    assert 2 == len(server.requests)


async def test_a_stream_without_an_end() -> None:
    """So much of it is kept, and the rest is not read."""
    flood = sse(*numbered(FRAMES_MAX + 200))
    async with ScriptedSource(stream(flood, end=End.HANG)) as server:
        report = await probed(server.url)
    assert all(FRAMES_MAX <= one.events < FRAMES_MAX + 300 for one in report.asked)


async def test_events_that_are_large() -> None:
    """So many bytes of them are read."""
    chunks = [sse((str(number), "x" * 1_000_000)) for number in range(1, 40)]
    async with ScriptedSource(stream(*chunks, end=End.HANG)) as server:
        report = await probed(server.url, requests=1, wait_s=20.0, answer_s=20.0)
    # The last chunk that is read may go past the bound.
    assert ANSWER_BYTES_MAX // 1_000_000 <= report.asked[0].events + 1 <= 19


async def test_an_event_without_an_end() -> None:
    """The decoder's own bound ends it, and it is told."""
    chunk = b"x" * 1_000_000
    async with ScriptedSource(stream(b"data: ", *[chunk] * 9, end=End.HANG)) as server:
        report = await probed(server.url, wait_s=5.0)
    assert not report.provable
    assert Ending.BROKE is report.asked[0].ending
    assert "sent more than" in report.because


async def test_a_page_without_an_end() -> None:
    """What is no event stream is looked at, not read."""
    pages = Reply([b"<p>" * SAID_BYTES_MAX] * 50, headers={"content-type": "text/html"})
    async with ScriptedSource(pages) as server:
        report = await probed(server.url)
    assert (Trouble.WRONG_TYPE,) == report.troubles
    assert "text/html" in report.because


async def test_a_server_that_sends_no_headers() -> None:
    async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(never, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(Unreachable, match="sent no response headers in time"):
        await probed(f"http://127.0.0.1:{port}/", seconds=0.5)
    server.close()
    await server.wait_closed()


async def test_a_connection_that_breaks() -> None:
    """What came before is looked at all the same."""
    async with ScriptedSource(stream(sse(*numbered(5)), end=End.BREAK)) as server:
        report = await probed(server.url)
    assert Ending.BROKE is report.asked[0].ending
    assert 5 == report.asked[0].events


async def test_an_endpoint_that_makes_no_session_is_asked_without_one() -> None:
    """It is told by its answer to a plain GET, and refuses to initialize."""
    refused = Reply(
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"unsupported"}}',),
        headers={"content-type": "application/json"},
    )
    listening = stream(b'data: {"jsonrpc":"2.0","method":"notifications/x"}\n\n', end=End.HANG)
    async with ScriptedSource(NO_SESSION, refused, listening) as server:
        report = await probed(server.url)
    assert ("mcp", False) == (report.dialect, report.provable)
    assert ["no_resumption"] == list(report.conclusions[0].reasons)
    assert 'protocol = "2026-07-28"' in report.toml


async def test_a_session_without_a_stream() -> None:
    """Many servers answer requests only, and say so with 405."""
    async with ScriptedSource(NO_SESSION, INITIALIZED, ACCEPTED, Reply(status=405)) as server:
        report = await probed(server.url)
    assert not report.provable
    assert "answered 405" in report.because


async def test_a_session_whose_last_stream_is_not_noticed_to_be_gone() -> None:
    """It is asked once more, and only then taken at its word."""
    session = {"content-type": "text/event-stream", "mcp-session-id": "s-1"}
    ids = ("qwer", "asdf", "yxcv")
    notified = [
        sse((id, f'{{"jsonrpc":"2.0","method":"n","params":{{"k":"{id}"}}}}')) for id in ids
    ]
    busy, gone = Reply(status=409), Reply(status=404)
    streams = [Reply(notified[at:], headers=session, end=End.HANG) for at in range(4)]
    beginning, replay, last, newest = streams
    script = (
        *(INITIALIZED, ACCEPTED, beginning, busy, replay, busy),
        *(gone, gone, last, newest, gone),
    )
    async with ScriptedSource(*script) as server:
        report = await probed(server.url, Mcp())
    assert report.provable, report
    assert ["qwer"] * 3 == [request.asked for request in server.requests[3:6]]
    assert (Trouble.ONE_STREAM,) == report.troubles
