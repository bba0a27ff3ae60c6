"""Which addresses are connected to: what a name leads to is checked, and no name is asked twice."""

import asyncio
from typing import Any

import pytest

from fencepost.ports import SourceUnreachable
from fencepost.transport.addresses import addresses_of
from kit.source import ScriptedSource, sse, stream
from kit.ways import read, way_to

PUBLIC = "93.184.216.34"


class Names:
    """Answers for every name: with the first list the first time, and so on; the last repeats."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def getaddrinfo(self, host: str, port: int, **_: Any) -> list[Any]:
        found = self.answers[min(len(self.asked), len(self.answers) - 1)]
        self.asked.append(host)
        if not found:
            raise OSError("no such name")
        return [(2, 1, 6, "", (address, port)) for address in found]


async def names(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> Names:
    resolver = Names(*answers)
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolver.getaddrinfo)
    return resolver


async def test_a_name_that_leads_inside_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """What to do if it is meant is said; nothing is connected to, and the name is not shown."""
    async with ScriptedSource(stream()) as source:
        await names(monkeypatch, ["127.0.0.1"])
        url = source.url.replace("127.0.0.1", "crm.example")
        async with way_to(url) as way:
            with pytest.raises(SourceUnreachable) as refused:
                await read(way, url)
        assert [] == source.requests
    assert (
        "leads to an address inside a network: set allow_private = true in its configuration "
        "if that is meant"
    ) == str(refused.value)


async def test_the_checked_address_is_the_one_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that says something else the second time is not asked a second time."""
    async with ScriptedSource(stream(sse(("1", "{}")))) as source:
        resolver = await names(monkeypatch, ["127.0.0.1"], ["127.0.0.2"])
        url = source.url.replace("127.0.0.1", "crm.example")
        async with way_to(url, allow_private=True) as way:
            assert (200, sse(("1", "{}"))) == await read(way, url)
        assert ["crm.example"] == resolver.asked
        assert url.split("/")[2] == source.requests[0].headers["host"]


async def test_an_address_that_does_not_answer_is_not_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next one is tried."""
    async with ScriptedSource(stream(sse(("1", "{}")))) as source:
        await names(monkeypatch, ["127.0.0.9", "127.0.0.1"])
        url = source.url.replace("127.0.0.1", "crm.example")
        async with way_to(url, allow_private=True) as way:
            assert (200, sse(("1", "{}"))) == await read(way, url)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_what_is_written_down_is_meant(host: str) -> None:
    """The demo, a test and a service beside it need no word more."""
    async with ScriptedSource(stream(sse(("1", "{}")))) as source:
        url = source.url.replace("127.0.0.1", host)
        async with way_to(url) as way:
            assert (200, sse(("1", "{}"))) == await read(way, url)


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://[::ffff:169.254.169.254]/latest/",
        "http://[fe80::1]/",
        "http://0.0.0.0:9/",
        "http://224.0.0.1/",
    ],
)
async def test_where_nobody_serves_events(url: str) -> None:
    """Metadata and its like are refused though they are written down."""
    async with way_to(url) as way:
        with pytest.raises(SourceUnreachable, match="leads to an address inside"):
            await read(way, url)


async def test_of_several_addresses_those_outside_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the resolver's order, each once; none left is a refusal."""
    await names(monkeypatch, ["10.0.0.1", PUBLIC, "::1", PUBLIC, "2606:2800:220:1::1"])
    found = await addresses_of("crm.example", 443, written=False, allow_private=False)
    assert [PUBLIC, "2606:2800:220:1::1"] == found


@pytest.mark.parametrize("answer", [[], ["fe80::1%2", "100.64.0.1"]])
async def test_names_without_an_address(monkeypatch: pytest.MonkeyPatch, answer: list[str]) -> None:
    """One that cannot be resolved, and one that leads nowhere outside."""
    await names(monkeypatch, answer)
    said = "has a name that cannot be resolved" if not answer else "inside a network"
    with pytest.raises(SourceUnreachable, match=said):
        await addresses_of("crm.example", 443, written=False, allow_private=False)


@pytest.mark.parametrize("host", ["a..b", "-", "xn--", "x" * 300, "a_b..", "%20"])
async def test_a_host_that_is_none(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    """Settings let it pass, so it is a source that cannot be reached, and no crash."""
    await names(monkeypatch, [])
    url = f"http://{host}/events"
    async with way_to(url) as way:
        with pytest.raises(SourceUnreachable, match=r"url that cannot be used|cannot be resolved"):
            await read(way, url)


async def test_a_name_that_no_resolver_takes() -> None:
    """A label of a hundred characters is no name, and no crash."""
    with pytest.raises(SourceUnreachable, match="cannot be resolved"):
        await addresses_of("x" * 100 + ".example", 443, written=False, allow_private=False)
