"""The only socket to a source: the bytes that are sent, and every way in which it can fail."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from fencepost import ports
from fencepost.ports import SourceUnreachable, Way
from fencepost.settings import Bridge, Source
from fencepost.transport.http import HttpTransport
from fencepost_schemas.limits import HEADER_VALUE_BYTES_MAX
from kit.source import End, Reply, Request, ScriptedSource, sse, stream

HASTY = Bridge(headers_s=0.3, stall_s=0.3, connect_s=0.3)


@asynccontextmanager
async def transport(settings: Bridge = HASTY) -> AsyncIterator[HttpTransport]:
    opened = HttpTransport(settings)
    try:
        yield opened
    finally:
        await opened.close()


def way(http: HttpTransport, url: str, **fields: Any) -> Way:
    """Return the way to a source at this url, configured with these fields."""
    source = msgspec.convert({"url": url, "keys": "none", **fields}, Source)
    return http.of("orders", source)


async def body_of(http: HttpTransport, url: str) -> bytes:
    async with way(http, url).open(ports.Request("GET", url, {}, "")) as response:
        return b"".join([chunk async for chunk in response.chunks()])


def _lines(request: Request) -> dict[str, list[bytes]]:
    """Return the request's header lines as they travelled, under their lower-case names."""
    found: dict[str, list[bytes]] = {}
    for line in request.head.encode("latin-1").split(b"\r\n")[1:]:
        name, colon, _ = line.partition(b":")
        if colon:
            found.setdefault(name.decode().lower(), []).append(line)
    return found


async def test_the_bytes_of_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line each, the id as UTF-8, our own headers beside; no proxy of the environment."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    async with ScriptedSource(stream(sse(("1", "{}")))) as source, transport() as http:
        own = {"Authorization": "Bearer t0ken", "X-Tenant": "ada"}
        async with way(http, source.url).open(
            ports.Request("GET", source.url, own, "é✓/7")
        ) as response:
            assert 200 == response.status

        lines = _lines(source.requests[0])
        assert [b"Accept: text/event-stream"] == lines["accept"]
        assert [b"Accept-Encoding: identity"] == lines["accept-encoding"]
        assert [b"Cache-Control: no-store"] == lines["cache-control"]
        assert ["Last-Event-ID: é✓/7".encode()] == lines["last-event-id"]
        assert [b"Authorization: Bearer t0ken"] == lines["authorization"]
        assert [b"X-Tenant: ada"] == lines["x-tenant"]
        assert "GET /events HTTP/1.1" == source.requests[0].head.split("\r\n")[0]


async def test_no_position_is_no_header() -> None:
    """An empty id asks for nothing, and is not sent as an empty header either."""
    async with ScriptedSource(stream()) as source, transport() as http:
        assert b"" == await body_of(http, source.url)
        assert "last-event-id" not in source.requests[0].headers


async def test_a_cookie_is_not_kept() -> None:
    """What one source sets is sent to nobody: not to it again, and not to its neighbours."""
    setting = stream(set_cookie="session=s3cret; Path=/")
    async with (
        ScriptedSource(setting) as source,
        ScriptedSource(stream()) as neighbour,
        transport() as http,
    ):
        for url in (source.url, source.url, neighbour.url):
            await body_of(http, url)

        assert not any("cookie" in one.headers for one in source.requests + neighbour.requests)


async def test_a_redirect_to_another_origin_is_not_followed() -> None:
    """Credentials would travel along; the status is handed on, and nobody else is asked."""
    own = {"Authorization": "Bearer t0ken"}
    async with ScriptedSource(stream()) as other:
        moved = Reply(status=307, headers={"location": other.url})
        async with (
            ScriptedSource(moved) as source,
            transport() as http,
            way(http, source.url).open(ports.Request("GET", source.url, own, "")) as response,
        ):
            assert (307, other.url) == (response.status, response.headers["location"])
        assert [] == other.requests


async def test_headers_are_bounded_and_in_lower_case() -> None:
    """A header of a source is kept up to its bound, under its lower-case name."""
    reply = stream(X_Generation="g" * 20_000)
    async with (
        ScriptedSource(reply) as source,
        transport() as http,
        way(http, source.url).open(ports.Request("GET", source.url, {}, "")) as response,
    ):
        assert "g" * HEADER_VALUE_BYTES_MAX == response.headers["x-generation"]


@pytest.mark.parametrize("encoding", ["gzip", "br, gzip"])
async def test_an_encoded_body_is_refused(encoding: str) -> None:
    """It was not asked for, and to decode it would hide what was sent."""
    reply = stream(b"\x1f\x8b", content_encoding=encoding)
    async with ScriptedSource(reply) as source, transport() as http:
        with pytest.raises(SourceUnreachable, match=f"content-encoding '{encoding}', unasked"):
            await body_of(http, source.url)


async def test_silence_in_the_body() -> None:
    """No byte for the stall limit ends the connection."""
    async with ScriptedSource(stream(b": hello\n\n", end=End.HANG)) as source, transport() as http:
        with pytest.raises(SourceUnreachable, match=r"^went silent$"):
            await body_of(http, source.url)


@pytest.mark.parametrize("chunk", [b"", b"data: half"])
async def test_a_body_that_is_cut_off(chunk: bytes) -> None:
    """A chunked body without its end is a break, and never a proper end of the stream."""
    chunks = (chunk,) if chunk else ()
    async with ScriptedSource(stream(*chunks, end=End.BREAK)) as source, transport() as http:
        with pytest.raises(SourceUnreachable, match="broke off in the middle of the response"):
            await body_of(http, source.url)


class _Mute(ScriptedSource):
    """Takes connections and never answers."""

    async def _respond(self, number: int, request: Request, writer: asyncio.StreamWriter) -> None:
        await self._cut.wait()


async def test_no_response_headers_in_time() -> None:
    """A source that takes the connection and says nothing is given up on."""
    async with _Mute() as source, transport() as http:
        with pytest.raises(SourceUnreachable, match="sent no response headers in time"):
            await body_of(http, source.url)


class _Babble(ScriptedSource):
    """Speaks something else than HTTP."""

    async def _respond(self, number: int, request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n")
        await writer.drain()


async def test_no_http_at_all() -> None:
    """Another protocol behind the port is a source that cannot be reached."""
    async with _Babble() as source, transport() as http:
        with pytest.raises(SourceUnreachable):
            await body_of(http, source.url)


async def test_nobody_listens() -> None:
    """The url is not shown: its query string may carry a secret."""
    async with ScriptedSource() as source:
        url = f"{source.url}?token=s3cret"
    async with transport() as http:
        with pytest.raises(SourceUnreachable) as failed:
            await body_of(http, url)
    assert "does not take connections" == str(failed.value)
