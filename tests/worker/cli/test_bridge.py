"""`fencepost init` and `fencepost bridge` as processes: their codes, and one clear line each."""

import re
import signal
from pathlib import Path
from typing import Any

import pytest

from fencepost.bridge.genesis import checked_start
from fencepost.broker.embedded import EmbeddedBroker
from fencepost.errors import UsageError
from kit.command import Ran, configure, run_command, started
from kit.house import House, house
from kit.log import LogSource
from kit.orders import orders, see
from kit.source import End, Reply, ScriptedSource, sse, stream
from kit.wait import until

NO_TEXT = b"\xff".decode("utf-8", "surrogateescape")
HTML = {"content-type": "text/html; charset=utf-8"}


async def _bridge(broker: EmbeddedBroker, folder: Path, url: str, **fields: Any) -> Ran:
    """Begin the source `orders` and run a bridge on it to its end."""
    sources = orders(url, **fields)
    async with house(broker, sources) as home:
        await home.init()
    configure(folder, broker.url, sources)
    return await run_command("bridge", folder=folder)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (
            Reply([b"<html>"], headers=HTML),
            "the source answered 200 with text/html where text/event-stream is due: "
            "check the source's url",
        ),
        (Reply(status=204), "the source answered 204, which means: do not come back"),
        (Reply(status=401), "the source answered 401: check the source's credentials"),
        (Reply(status=404), "the source answered 404: check the source's url"),
    ],
    ids=["html", "204", "401", "404"],
)
async def test_a_source_that_gives_no_stream(
    broker: EmbeddedBroker, tmp_path: Path, reply: Reply, expected: str
) -> None:
    """The bridge ends with 1: somebody has to look at the source, or at its configuration."""
    async with ScriptedSource(reply) as source:
        ran = await _bridge(broker, tmp_path, source.url)
    assert (1, f"orders: {expected}") == (ran.code, ran.complaint)
    assert 1 == len(source.requests)


async def test_a_redirect_carries_nothing_along(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """Its host is told, for the configuration; path and query are not, and it is not asked."""
    async with ScriptedSource(stream()) as other:
        target = other.url + "/s3cret-path?token=s3cret"
        moved = Reply(status=302, headers={"location": target})
        async with ScriptedSource(moved) as source:
            headers = {"Authorization": "Bearer s3cret"}
            ran = await _bridge(broker, tmp_path, source.url, headers=headers)
    assert 1 == ran.code
    host = other.url.removesuffix("/events")
    assert (
        f"orders: the source redirects to {host}: put the final url in the configuration"
    ) == ran.complaint
    assert "s3cret" not in ran.err + ran.out
    assert [] == other.requests


async def test_an_endless_line(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """Three strikes at the same place end the bridge; the events before it are kept."""
    line = b"data: " + b"x" * 5_000
    script = (
        stream(sse(("1", '{"k":"a"}')) + line, gen="g", floor="1"),
        stream(line, gen="g", floor="1"),
    )
    async with ScriptedSource(*script) as source:
        fields: dict[str, Any] = {"line_bytes_max": 1_000, "event_bytes_max": 4_000}
        ran = await _bridge(broker, tmp_path, source.url, **fields)
        async with house(broker, orders(source.url)) as home:
            assert ["1"] == [event.position for event in await home.events()]
    assert 1 == ran.code
    assert "3 times at the same place: raise sources.orders.line_bytes_max" in ran.complaint
    assert 3 == len(source.requests)


async def test_a_bridge_before_init(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """Neither streams nor a beginning: what to run is said, for both."""
    async with ScriptedSource(stream()) as source:
        configure(tmp_path, broker.url, orders(source.url))
        ran = await run_command("bridge", folder=tmp_path)
        assert 1 == ran.code
        assert "the broker has no stream FENCEPOST_EVENTS: run `fencepost init`" in ran.complaint
        configure(tmp_path, broker.url)
        assert 0 == (await run_command("init", folder=tmp_path)).code
        ran = await run_command("bridge", folder=tmp_path)
        assert 2 == ran.code
        assert ran.complaint.startswith("there is no source to follow: add a [sources.NAME] to")
        configure(tmp_path, broker.url, orders(source.url))
        ran = await run_command("bridge", folder=tmp_path)
        assert (1, "orders: not begun yet: run `fencepost init` once") == (ran.code, ran.complaint)
        assert [] == source.requests


async def test_init_twice(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """The second time changes nothing, and says so."""
    configure(tmp_path, broker.url, orders("http://127.0.0.1:9/x"))
    first = await run_command("init", folder=tmp_path)
    assert (0, "") == (first.code, first.err)
    assert "source\torders begins now" in first.out
    async with house(broker, orders("http://127.0.0.1:9/x")) as home:
        before = await home.cursor()
        second = await run_command("init", "--from", "7", folder=tmp_path)
        assert before == await home.cursor()
    assert (0, "") == (second.code, second.err)
    assert "source\torders was begun before; nothing changed" in second.out
    assert "made" not in second.out
    ledgers = {re.findall(r"^ledger\t(\w+)$", ran.out, re.M)[0] for ran in (first, second)}
    assert 1 == len(ledgers)


async def test_init_from_an_id(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """The first request asks for it; one that no header can hold is refused at once."""
    live = stream(sse(("43", '{"k":"a"}')), gen="g", floor="1", end=End.HANG)
    async with ScriptedSource(live) as source:
        configure(tmp_path, broker.url, orders(source.url))
        ran = await run_command("init", "--from", NO_TEXT, folder=tmp_path)
        assert 2 == ran.code
        assert "this id cannot be sent in a request header" in ran.complaint
        assert 0 == (await run_command("init", "--from", "42", folder=tmp_path)).code
        async with started("bridge", folder=tmp_path), house(broker, orders(source.url)) as home:
            await see(home, 1)
            assert ["42"] == [request.asked for request in source.requests]
            assert ["genesis"] == await home.verdicts()


@pytest.mark.parametrize("start", ["", "a\nb", " a", "x" * 5_000, NO_TEXT])
def test_a_start_that_cannot_be_asked_for(start: str) -> None:
    """Init refuses it, and not the first request."""
    with pytest.raises(UsageError, match="this id cannot be sent in a request header"):
        checked_start(start)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_bridge_that_is_told_to_stop(
    broker: EmbeddedBroker, tmp_path: Path, number: signal.Signals
) -> None:
    """It ends with 0, and says nothing more."""
    async with LogSource() as source, house(broker, orders(source.url)) as home:
        await home.init()
        configure(tmp_path, broker.url, orders(source.url))
        async with started("bridge", "--quiet", folder=tmp_path) as command:
            await source.add("a")
            await see(home, 1)
            command.signal(number)
            ran = await command.ended()
    assert (0, "", "") == (ran.code, ran.out, ran.err)


async def test_a_bridge_that_is_killed(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """kill -9 in the middle of a flow: the next process resumes, and each event is there once."""
    async with LogSource() as source, house(broker, orders(source.url)) as home:
        await home.init()
        configure(tmp_path, broker.url, orders(source.url))
        await source.add(*(f"k{number}" for number in range(2_000)))
        async with started("bridge", folder=tmp_path) as command:
            await until(lambda: _flows(home), "the flow")
            command.signal(signal.SIGKILL)
            await command.ended()
        async with started("bridge", folder=tmp_path):
            await until(lambda: _at(home, "2000"), "the last event")

        positions = [event.position for event in await home.events()]
        assert [str(number) for number in range(1, 2_001)] == positions
        assert ["genesis", "resumed"] == await home.verdicts()


async def _flows(home: House) -> bool:
    return (await home.cursor()).position is not None


async def _at(home: House, position: str) -> bool:
    return str((await home.cursor()).position) == position


async def test_one_source_of_several(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """Named ones are followed alone; a name that is not there is a matter of usage."""
    configure(tmp_path, broker.url, orders("http://127.0.0.1:9/x"))
    for command in ("bridge", "init"):
        ran = await run_command(command, "order", folder=tmp_path)
        assert 2 == ran.code
        assert "there is no source order in the configuration" in ran.complaint
