"""How a source is asked, on a real socket: where its dialect wants a position, and nowhere else."""

import logging
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec
import pytest

from fencepost.bridge.doors import door_for
from fencepost.broker.embedded import EmbeddedBroker
from fencepost.clock import RealWorld
from fencepost.ports import SourceUnreachable
from fencepost.registry import shipped
from fencepost.settings import Bridge, Source
from fencepost.transport.http import HttpTransport
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.sse import Frame
from fencepost_schemas.standing import Standing
from kit.house import house
from kit.orders import see, see_verdicts
from kit.source import End, Reply, ScriptedSource, stream

FRESH = Cursor("orders", "0001-aaaaaaaa", Standing.GENESIS, "l", "o", fresh=True)
SECRET = "s3cret-position"


def source_at(url: str, **fields: Any) -> Source:
    table = {"url": url, "keys": "durable", "key": "/k", **fields}
    return msgspec.convert(table, Source)


async def asked_of(source: ScriptedSource, table: Source, cursor: Cursor, asked: str) -> str:
    """Open the source once; return the request line's target."""
    transport = HttpTransport(Bridge())
    try:
        door = door_for("orders", table, transport, RealWorld())
        async with door.open(cursor, asked):
            pass
    finally:
        await transport.close()
    return source.requests[-1].path


async def test_a_position_goes_where_the_dialect_wants_it() -> None:
    """In the query, no header says it too; what the url held for the beginning is replaced."""
    async with ScriptedSource(stream()) as source:
        table = source_at(source.url + "?offset=x&live=sse", dialect="durable_streams")
        path = await asked_of(source, table, FRESH, "0_13")
        assert [("live", "sse"), ("offset", "0_13")] == parse_qsl(urlsplit(path).query)
        assert source.requests[-1].asked is None


@pytest.mark.parametrize(
    ("start", "fresh", "expected"),
    [("now", True, "now"), ("earliest", True, "-1"), ("now", False, "-1")],
)
async def test_where_a_stream_without_a_position_begins(
    start: str, fresh: bool, expected: str
) -> None:
    """As init said at first; later, where a position was refused, as the dialect says."""
    cursor = msgspec.structs.replace(FRESH, start=start, fresh=fresh)
    async with ScriptedSource(stream()) as source:
        table = source_at(source.url, dialect="durable_streams")
        assert f"/events?offset={expected}" == await asked_of(source, table, cursor, "")


async def test_a_body_is_posted() -> None:
    """With the configured headers, and the type of what it is."""
    ask = {"in": "body", "json": {"from": "$position", "epoch": "$generation"}}
    async with ScriptedSource(stream()) as source:
        table = source_at(source.url, plain={"ask": ask}, headers={"x-own": "1"})
        cursor = msgspec.structs.replace(FRESH, token="e1")
        await asked_of(source, table, cursor, "7")
        request = source.requests[-1]
        assert request.head.startswith("POST /events ")
        assert ("1", "application/json") == (
            request.headers["x-own"],
            request.headers["content-type"],
        )
        assert str(len(b'{"from":"7","epoch":"e1"}')) == request.headers["content-length"]


async def test_no_position_is_logged_or_told(caplog: pytest.LogCaptureFixture) -> None:
    """A cursor may open another's backlog: it is in no log line and no error, at any level."""
    caplog.set_level(logging.DEBUG)
    ask = {"in": "query", "name": "since"}
    async with ScriptedSource(Reply(status=410)) as source:
        await asked_of(source, source_at(source.url, plain={"ask": ask}), FRESH, SECRET)
        url = source.url
    transport = HttpTransport(Bridge())
    door = door_for("orders", source_at(url, plain={"ask": ask}), transport, RealWorld())
    with pytest.raises(SourceUnreachable) as caught:
        async with door.open(FRESH, SECRET):
            pass
    await transport.close()
    assert SECRET not in str(caught.value)
    assert SECRET not in "\n".join(record.getMessage() for record in caplog.records)


def numbered(*numbers: int) -> bytes:
    texts = [f'data: {{"sequence_number":{number},"k":"k{number}"}}\n\n' for number in numbers]
    return "".join(texts).encode()


async def test_a_position_in_the_data_is_resumed_from(broker: EmbeddedBroker) -> None:
    """Through the whole bridge: it asks from the oldest mark, gets it all back, and goes on."""
    script = (stream(numbered(0, 1, 2)), stream(numbered(1, 2, 3), end=End.HANG))
    async with ScriptedSource(*script) as source:
        sources = {
            "orders": {
                "url": source.url,
                "keys": "durable",
                "key": "/k",
                "dialect": "sequence",
            }
        }
        async with house(broker, sources) as home:
            await home.init()
            async with home.bridge():
                await see(home, 4)
                await see_verdicts(home, 2)
            assert ["genesis", "resumed"] == await home.verdicts()
            assert ["0", "1", "2", "3"] == [event.position for event in await home.events()]
        assert ["/events", "/events?starting_after=0"] == [r.path for r in source.requests]


def durable(offset: str, *keys: str) -> bytes:
    array = ",".join(f'{{"k":"{key}"}}' for key in keys)
    control = f'{{"streamNextOffset":"{offset}","upToDate":true}}'
    return f"event: data\ndata: [{array}]\n\nevent: control\ndata: {control}\n\n".encode()


async def test_a_replay_in_one_array_is_resumed_from(broker: EmbeddedBroker) -> None:
    """What came in three arrays comes back in one, and only what is new is published."""
    live = durable("0_1", "a") + durable("0_2", "b") + durable("0_3", "c")
    script = (stream(live), stream(durable("0_4", "b", "c", "d"), end=End.HANG))
    async with ScriptedSource(*script) as source:
        sources = {
            "orders": {
                "url": source.url,
                "keys": "durable",
                "key": "/k",
                "dialect": "durable_streams",
            }
        }
        async with house(broker, sources) as home:
            await home.init()
            async with home.bridge():
                await see(home, 4)
                await see_verdicts(home, 2)
            assert ["genesis", "resumed"] == await home.verdicts()
            assert ["a", "b", "c", "d"] == [event.key for event in await home.events()]
        assert ["/events?offset=now", "/events?offset=0_1"] == [r.path for r in source.requests]


async def test_a_bookmark_is_asked_for_once_the_rest_is_refused(broker: EmbeddedBroker) -> None:
    """It was stored with the cursor, though no event came with it."""

    def object_at(kind: str, version: int) -> bytes:
        meta = f'{{"resourceVersion":"{version}"}}'
        return f'data: {{"type":"{kind}","object":{{"metadata":{meta}}}}}\n\n'.encode()

    first = object_at("ADDED", 1) + object_at("MODIFIED", 2) + object_at("BOOKMARK", 90)
    gone = Reply(status=410)
    script = (stream(first), gone, stream(object_at("ADDED", 91), end=End.HANG))
    async with ScriptedSource(*script) as source:
        sources = {
            "orders": {
                "url": source.url,
                "keys": "durable",
                "key": "/object/metadata/resourceVersion",
                "dialect": "mine",
            }
        }
        tables = {"mine": {"like": "kubernetes"}}
        async with house(broker, sources, dialects=tables) as home:
            await home.init()
            async with home.bridge():
                await see(home, 3)
                await see_verdicts(home, 2)
            assert ["genesis", "unverifiable"] == await home.verdicts()
            assert ["ADDED", "MODIFIED", "ADDED"] == [e.type for e in await home.events()]
        versions = [dict(parse_qsl(urlsplit(r.path).query)) for r in source.requests]
        assert [{}, {"resourceVersion": "1"}, {"resourceVersion": "90"}] == versions


async def greeted(source: ScriptedSource, endpoint: str) -> None:
    """Have a door hear where messages are to be sent."""
    transport = HttpTransport(Bridge())
    try:
        spoken = shipped()["mcp_http_sse"]
        table = source_at(source.url, dialect="mcp_http_sse", spoken=spoken, headers={"x-own": "1"})
        door = door_for("orders", table, transport, RealWorld())
        await door.answer(Frame(event="message", data="{}"))
        await door.answer(Frame(event="endpoint", data=endpoint))
        await door.answer(Frame(event="endpoint", data=endpoint))
    finally:
        await transport.close()


async def test_a_greeting_goes_where_the_source_says_and_once() -> None:
    """In its order, with the configured headers; a second endpoint event is not answered."""
    async with ScriptedSource(Reply(status=202)) as source:
        await greeted(source, "/messages?session_id=x")
        assert ["POST /messages?session_id=x HTTP/1.1"] * 2 == [
            request.head.splitlines()[0] for request in source.requests
        ]
        assert {"1"} == {request.headers["x-own"] for request in source.requests}


async def test_a_greeting_is_never_sent_to_another_origin() -> None:
    """It would carry the source's credentials along; the url is not told, it may hold a session."""
    async with ScriptedSource(Reply(status=202)) as source, ScriptedSource(stream()) as other:
        for endpoint in (other.url + "?s3cret", "http://[", "//127.0.0.1:1/x", "file:///etc/x"):
            with pytest.raises(SourceUnreachable, match="as the place to send") as caught:
                await greeted(source, endpoint)
            assert endpoint not in str(caught.value)
        assert [] == source.requests == other.requests


async def test_a_greeting_that_is_refused_ends_the_connection() -> None:
    """Nothing would come on it."""
    async with ScriptedSource(Reply(status=400)) as source:
        with pytest.raises(SourceUnreachable, match="answered a message with 400"):
            await greeted(source, "/messages")
