"""Bridges, short commands and the demo when a signal comes: they end, in one line, and clear up."""

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fencepost.broker.embedded import EmbeddedBroker
from kit.command import configure, started
from kit.house import house
from kit.log import LogSource
from kit.orders import orders, see
from kit.processes import alive, descendants
from kit.stubborn import STUBBORN
from kit.wait import until

BOUND_S = 30.0
APP = f"{STUBBORN}:app"


@asynccontextmanager
async def mute() -> AsyncIterator[tuple[str, asyncio.Event]]:
    """Yield the url of a broker that takes connections and says nothing, and when one has come."""
    came = asyncio.Event()

    async def take(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.set()
        try:
            await asyncio.Event().wait()
        finally:
            writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    try:
        yield f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}", came
    finally:
        server.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("arguments", [["init"], ["questions", "ls"]])
async def test_a_short_command(
    tmp_path: Path, arguments: list[str], number: signal.Signals
) -> None:
    """While it waits for a broker: one line, and the code that shells give for the signal."""
    async with mute() as (url, came):
        configure(tmp_path, url, orders("http://127.0.0.1:9/x"), broker={"connect_s": 300.0})
        async with started(*arguments, folder=tmp_path) as command:
            await came.wait()
            command.signal(number)
            ran = await command.ended(BOUND_S)
    assert (128 + number, f"stopped by {number.name}") == (ran.code, ran.complaint)
    assert 1 == len(ran.err.splitlines())


@pytest.mark.parametrize("role", ["bridge", "worker"])
async def test_while_it_waits_for_a_broker(tmp_path: Path, role: str) -> None:
    """What stays ends with 0 when it is told to, at its start, too."""
    async with mute() as (url, came):
        broker = {"connect_s": 300.0}
        configure(tmp_path, url, orders("http://127.0.0.1:9/x"), broker=broker, app=APP)
        async with started(role, folder=tmp_path) as command:
            await came.wait()
            command.signal(signal.SIGTERM)
            ran = await command.ended(BOUND_S)
    assert (0, "") == (ran.code, ran.err)


@pytest.mark.parametrize("trouble", [signal.SIGSTOP, signal.SIGKILL])
async def test_a_bridge_whose_broker_is_away(
    broker: EmbeddedBroker, tmp_path: Path, trouble: signal.Signals
) -> None:
    async with LogSource() as source, house(broker, orders(source.url)) as home:
        await home.init()
        configure(tmp_path, broker.url, orders(source.url))
        async with started("bridge", folder=tmp_path) as command:
            await source.add("a")
            await see(home, 1)
            assert broker.process is not None
            broker.process.send_signal(trouble)
            if trouble == signal.SIGKILL:
                await until(lambda: "connection lost" in command.err, "the loss to be noticed")
            command.signal(signal.SIGTERM)
            ran = await command.ended(BOUND_S)
            if trouble == signal.SIGSTOP:
                broker.process.send_signal(signal.SIGCONT)
    assert ran.code in (0, 3), ran.err
    assert "Traceback" not in ran.err


async def test_nohup_is_heard(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """A SIGHUP that is ignored where a bridge is started stays ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        async with LogSource() as source, house(broker, orders(source.url)) as home:
            await home.init()
            configure(tmp_path, broker.url, orders(source.url))
            async with started("bridge", folder=tmp_path) as command:
                await source.add("a")
                await see(home, 1)
                command.signal(signal.SIGHUP)
                await source.add("b")
                await see(home, 2)
                command.signal(signal.SIGTERM)
                ran = await command.ended(BOUND_S)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert 0 == ran.code, ran.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
async def test_a_demo_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    async with started("demo", folder=tmp_path, more={"TMPDIR": str(tmp_path)}) as command:
        family: set[int] = set()

        def plays() -> bool:
            family.update(descendants(command.process.pid))
            return len(family) >= 12

        await until(plays, "the processes of the first act")
        command.signal(number)
        ran = await command.ended(BOUND_S)
        await until(lambda: not any(alive(pid) for pid in family), "all of it to end")
    if number != signal.SIGKILL:
        assert (128 + number, f"stopped by {number.name}") == (ran.code, ran.complaint)
        assert not [name for name in os.listdir(tmp_path) if name.startswith("fencepost-demo-")]


async def test_a_collector_that_hangs_does_not_hold_the_end(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """Spans that nobody takes are given up."""
    with socket.socket() as collector:
        collector.bind(("127.0.0.1", 0))
        collector.listen()
        url = f"http://127.0.0.1:{collector.getsockname()[1]}"
        (tmp_path / "sitecustomize.py").write_text(COLLECTED, "utf-8")
        async with LogSource() as source, house(broker, orders(source.url)) as home:
            await home.init()
            configure(tmp_path, broker.url, orders(source.url))
            more = {
                "OTEL_TRACES_EXPORTER": "otlp",
                "COLLECTOR": url,
                "PYTHONPATH": str(tmp_path),
            }
            async with started("bridge", folder=tmp_path, more=more) as command:
                await source.add("a")
                await see(home, 1)
                command.signal(signal.SIGTERM)
                ran = await command.ended(BOUND_S)
    assert 0 == ran.code, ran.err


COLLECTED = '''
"""Stands in for the OTLP exporter, which is not installed here: it posts, and waits for ever."""
import os, sys, types, urllib.request

class OTLPSpanExporter:
    def export(self, spans):
        urllib.request.urlopen(os.environ["COLLECTOR"], data=b"spans")

    def shutdown(self):
        pass

    def force_flush(self, timeout_millis=0):
        return True

name = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
module = types.ModuleType(name)
module.OTLPSpanExporter = OTLPSpanExporter
sys.modules[name] = module
'''
