"""Redirects on real sockets: where they lead, what travels along, and where they end."""

from typing import Any

import pytest

from fencepost import ports
from fencepost.ports import SourceUnreachable
from fencepost_policies.redirect import REDIRECTS_MAX
from kit.source import Reply, ScriptedSource, sse, stream
from kit.ways import read, way_to

OWN = {"Authorization": "Bearer s3cret", "X-Api-Key": "s3cret", "Mcp-Session-Id": "s3cret"}
ANY: dict[str, Any] = {"redirects": "any", "allow_private": True}
SENT = {"host", "accept", "accept-encoding", "cache-control", "connection", "user-agent"}
"""All that another origin may see."""


def moved(location: str, status: int = 307) -> Reply:
    return Reply(status=status, headers={"location": location})


async def test_the_same_origin_gets_all_that_is_configured() -> None:
    """Each hop is asked with headers and position; the response tells where it came from."""
    script = (moved("/a?x=1"), moved("b", 301), stream(sse(("1", "{}"))))
    async with ScriptedSource(*script) as source, way_to(source.url) as way:
        async with way.open(ports.Request("GET", source.url, OWN, "41")) as response:
            assert (200, True) == (response.status, response.own)
            assert source.url.replace("/events", "/b") == response.url
        assert ["/events", "/a?x=1", "/b"] == [one.path for one in source.requests]
        for request in source.requests:
            assert "41" == request.asked
            assert "s3cret" == request.headers["x-api-key"]
            assert "Bearer s3cret" == request.headers["authorization"]


async def test_another_origin_gets_nothing_of_it() -> None:
    """No header, credentials, session or position; the response says that it is not ours."""
    async with ScriptedSource(stream(sse(("1", "{}")))) as other:
        async with ScriptedSource(moved(other.url)) as source:
            fields = {**ANY, "credentials": {"env": "SHOP_TOKEN"}}
            request = ports.Request("GET", source.url, OWN, "41")
            async with way_to(source.url, **ANY) as way, way.open(request) as response:
                assert (200, False, other.url) == (response.status, response.own, response.url)
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("SHOP_TOKEN", "s3cret")
                async with way_to(source.url, **fields) as way:
                    await read(way, source.url)
                assert "Bearer s3cret" == source.requests[1].headers["authorization"]
        assert 2 == len(other.requests)
        for seen in other.requests:
            assert SENT == set(seen.headers)
            assert "s3cret" not in seen.head


async def test_back_home_from_another_origin_nothing_is_sent_either() -> None:
    """It was another server that chose what is asked here."""
    async with ScriptedSource() as source:
        async with ScriptedSource(moved(source.url + "/admin")) as other:
            source.script = [moved(other.url), stream()]
            async with way_to(source.url, **ANY) as way:
                await read(way, source.url, OWN, "41")
        assert "41" == source.requests[0].asked
        assert ("/events/admin", SENT) == (
            source.requests[1].path,
            set(source.requests[1].headers),
        )


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_another_origin_is_not_asked_unless_allowed(status: int) -> None:
    """The redirect itself is the answer."""
    async with ScriptedSource(stream()) as other, ScriptedSource() as source:
        source.script = [moved(other.url, status)]
        async with way_to(source.url) as way:
            assert (status, b"") == await read(way, source.url, OWN, "41")
        assert [] == other.requests


async def test_no_redirect_at_all() -> None:
    """`none` takes the redirect as it is, the same origin's too."""
    async with ScriptedSource(moved("/other")) as source:
        async with way_to(source.url, redirects="none") as way:
            assert (307, b"") == await read(way, source.url)
        assert 1 == len(source.requests)


async def test_a_redirect_to_nowhere() -> None:
    """Without a Location there is nothing to follow; what it means is the policy's."""
    nowhere = Reply(status=302, headers={})
    async with ScriptedSource(nowhere) as source, way_to(source.url) as way:
        assert (302, b"") == await read(way, source.url)


async def test_a_loop_ends() -> None:
    """So many in a row, and the source cannot be reached."""
    async with ScriptedSource(moved("/events")) as source:
        async with way_to(source.url) as way:
            with pytest.raises(SourceUnreachable, match="redirects more than 5 times in a row"):
                await read(way, source.url)
        assert REDIRECTS_MAX + 1 == len(source.requests)


async def test_a_name_that_leads_inside_is_no_way_in() -> None:
    """The url's own address was meant; the one that a redirect leads to was not."""
    async with ScriptedSource(stream()) as other, ScriptedSource(moved(other.url)) as source:
        async with way_to(source.url, redirects="any") as way:
            with pytest.raises(SourceUnreachable, match="allow_private = true"):
                await read(way, source.url)
        assert [] == other.requests


@pytest.mark.parametrize(("status", "method"), [(303, "GET"), (307, "POST"), (308, "POST")])
async def test_a_body_is_sent_again_where_the_status_says_so(status: int, method: str) -> None:
    """To the same origin only."""
    async with ScriptedSource(moved("/mcp", status), stream()) as source:
        async with way_to(source.url) as way:
            request = ports.Request("POST", source.url, {}, "", b'{"id":1}')
            async with way.open(request) as response:
                assert 200 == response.status
        second = source.requests[1]
        assert f"{method} /mcp HTTP/1.1" == second.head.split("\r\n")[0]
        assert ("content-length" in second.headers) is (method == "POST")


async def test_an_endless_body_of_a_redirect_is_not_read() -> None:
    """The next hop does not wait for the end of what nobody wants."""
    endless = Reply([b"x" * 100] * 10_000, status=307, headers={"location": "/b"})
    async with ScriptedSource(endless, stream(sse(("1", "{}")))) as source:
        async with way_to(source.url) as way:
            status, body = await read(way, source.url)
        assert (200, sse(("1", "{}"))) == (status, body)
