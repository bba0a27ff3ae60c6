"""No secret comes out of a bridge, whatever goes wrong: in no output, log, span or subject."""

import asyncio
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from fencepost.broker.embedded import EmbeddedBroker
from fencepost_schemas.subject import stream_plans
from kit.command import configure, started
from kit.hostile import HANG, HEAD, Raw, Server, Step, bare, live, ok, status
from kit.house import house
from kit.orders import TOKENS
from kit.source import End, Reply, sse, stream
from kit.wait import until

MARK = "s3cret"
"""Is part of every secret; those that the broker may hold are told apart by what follows."""
SPANS = {"OTEL_TRACES_EXPORTER": "console", "OTEL_BSP_SCHEDULE_DELAY": "200"}
STOPPED = ("html", "moved-at-first", "oversized", "no-token")
"""These are not asked again and again: they have failed once they are in the log."""
LONG = b"data: " + b"x" * 5_000

COMMAND = [
    sys.executable,
    "-S",
    "-c",
    "import sys, time; sys.stderr.write('stderr-s3cret'); print(f'token-s3cret{time.time_ns()}')",
]
BAD = [sys.executable, "-S", "-c", "import sys; print('s3cret'); sys.exit('s3cret')"]


def cursors(*names: str, gen: str = "") -> Reply:
    """Return a stream whose ids are cursors that nobody should see."""
    events = sse(*((f"cursor-s3cret-{name}", f'{{"k":"{name}"}}') for name in names))
    return stream(events, gen=gen)


def servers() -> dict[str, Server]:
    """Return one server for each way to fail, every one with secrets wherever they may be."""
    moved = {"location": "http://eve:pw-s3cret@localhost:{port}/path-s3cret?q=s3cret"}
    secret_head = HEAD.replace(b"gen: g", b"gen: gen-s3cret\r\nset-cookie: a=cookie-s3cret")
    hello = b"\r\nid: cursor-s3cret-1\ndata: {}\n\n"
    silent: list[Step] = [secret_head, hello, b"id: cursor-s3cret-2\n", HANG]
    return {
        "refused": Server(cursors("1"), *[status(code) for code in (400, 410, 404)], cursors("2")),
        "denied": Server(cursors("1"), status(401), status(403), cursors("2")),
        "moved": Server(ok(1), Reply(status=307, headers=moved), ok(2)),
        "moved-at-first": Server(Reply(status=307, headers=moved)),
        "looping": Server(Reply(status=302, headers={"location": "/x?q=s3cret"})),
        "broken": Server(cursors("1"), Reply([b"id: cursor-s3cret"], status=500, end=End.BREAK)),
        "cut": Raw([secret_head, hello], [secret_head, b"\r\n"], []),
        "silent": Raw(*[silent] * 9),
        "babbling": Raw([b"HTTP/1.1 200 OK s3cret\r\ngarbage-s3cret\r\n\r\n"]),
        "oversized": Server(stream(LONG, gen="gen-s3cret", floor="1")),
        "encoded": Server(live(1, content_encoding="gzip")),
        "html": Server(Reply([b"s3cret"], headers={"content-type": "text/html; s3cret"})),
        "overlapping": Server(
            bare(1, 2, 3), cursors("9"), cursors("4", "5"), bare(1, end=HANG), cursors("6")
        ),
        "forgetting": Server(
            cursors("1", gen="gen-s3cret"), cursors("2", gen="gen2-s3cret"), cursors("1", gen="x")
        ),
        "unsendable": Server(stream(sse(("id-s3cret\x01", "{}")), gen="g", floor="1")),
        "no-token": Server(ok(1)),
        "session": Server(
            Reply(
                [b'{"jsonrpc":"2.0","id":"x","result":{}}'],
                headers={"content-type": "application/json", "mcp-session-id": "session-s3cret"},
            ),
            status(202),
            cursors("1"),
            status(404),
        ),
    }


def source_of(name: str, server: Server) -> dict[str, Any]:
    port = server.url.split(":")[2]
    source: dict[str, Any] = {
        "url": f"http://ada:pw-s3cret@127.0.0.1:{port}?query=query-s3cret",
        "keys": "durable",
        "key": "/k",
        "headers": {"X-Api-Key": "header-s3cret"},
        "headers_env": {"X-Other-Key": "SHOP_KEY"},
        "line_bytes_max": 2_000,
        "event_bytes_max": 4_000,
        "credentials": {"command": BAD if name == "no-token" else COMMAND, "header": "X-Token"},
    }
    if name == "session":
        return {**source, "dialect": "mcp"}
    plain = {**TOKENS, "scheme": "opaque", "generation_secret": True}
    return {**source, "plain": {} if name == "overlapping" else plain}


def _waiting(up: dict[str, Server], err: str) -> list[str]:
    """Return which servers have not failed often enough yet."""
    asked = [name for name in up if name not in STOPPED and len(up[name].requests) < 5]
    return asked + [name for name in STOPPED if f"{name}: " not in err]


async def test_no_secret_comes_out_of_any_failure(tmp_path: Path) -> None:
    """Each server has failed several times; then everything that was said is looked through.

    Positions and sessions are in the broker's messages, whose work they are, and in no subject.
    """
    async with AsyncExitStack() as stack:
        broker = await stack.enter_async_context(EmbeddedBroker(tmp_path / "broker"))
        up = {name: await stack.enter_async_context(server) for name, server in servers().items()}
        sources = {name: source_of(name, server) for name, server in up.items()}
        hasty = {"stall_s": 0.7, "headers_s": 2.0, "event_s": 2.0, "overlap_s": 0.3}
        configure(tmp_path, broker.url, sources, bridge={**hasty, "connects_per_s": 500.0})
        more = {"SHOP_KEY": "env-s3cret", **SPANS}
        home = await stack.enter_async_context(house(broker, sources))
        await home.init()
        async with started("bridge", folder=tmp_path, more=more) as command:
            await until(lambda: [] == _waiting(up, command.err), "every failure", limit_s=60.0)
            await asyncio.sleep(0.5)  # the spans are exported in batches
            command.process.terminate()
            ran = await command.ended()
        assert "connect refused" in ran.err, "spans are printed"
        assert "header-s3cret" == up["refused"].requests[0].headers["x-api-key"]
        assert up["refused"].requests[0].headers["x-token"].startswith("Bearer token-s3cret")
        assert up["refused"].requests[0].headers["authorization"].startswith("Basic ")
        lines = [line for line in (ran.out + ran.err).splitlines() if MARK in line]
        assert [] == lines

        for plan in stream_plans("fp"):
            async for stored in home.connection.scan(plan.name, "fp.>"):
                assert MARK not in stored.subject
                text = f"{stored.headers} {stored.payload!r}"
                for kind in ("cursor-s3cret", "session-s3cret", "id-s3cret"):
                    text = text.replace(kind, "")
                assert MARK not in text, f"{stored.subject}: {text}"
