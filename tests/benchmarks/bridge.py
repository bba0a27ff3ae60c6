"""From HTTP to JetStream, beside the most that the same client and broker take: `make bench`.

A source in a process of its own sends small events as fast as they are read; the bridge decodes,
judges, classifies and stores them durably. The ceiling is a process that does nothing but publish:
messages of the same subjects, headers and payloads, made beforehand, in pipelined bursts, which the
target speaks of, and in atomic batches, which the bridge itself uses. They take turns on one
broker, and what counts is the ratio.
"""

import argparse
import asyncio
import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec

from fencepost.bridge.classify import classify, message_of
from fencepost.broker.embedded import EmbeddedBroker
from fencepost.broker.jetstream import JetStream, connect
from fencepost.cli.init import initialise
from fencepost.ports import Message, Stored
from fencepost.settings import Settings
from fencepost.settings_file import login_for
from fencepost_schemas.cursor import Cursor, Position
from fencepost_schemas.limits import BATCH_EVENTS_MAX
from fencepost_schemas.sse import Frame
from fencepost_schemas.standing import Standing
from fencepost_schemas.subject import EVENTS, Subjects
from kit.command import configure
from kit.house import make_settings

EVENT_BYTES = 256
TARGET = 0.6
TOKENS = {"scheme": "integer", "generation_header": "gen", "window_header": "floor"}
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ngen: g\r\nfloor: 1\r\n\r\n"
WAYS = ("burst", "batch")


def data_of(number: int) -> str:
    head = f'{{"k":"t{number:08d}","pad":"'
    return head + "x" * (EVENT_BYTES - len(head) - 2) + '"}'


# --- the processes --------------------------------------------------------------------------------
async def serve(count: int) -> None:
    """Be the source: print the port, and then the time (CLOCK_MONOTONIC) of each request."""
    events = "".join(
        f"id: {number}\nevent: task\ndata: {data_of(number)}\n\n" for number in range(1, count + 1)
    ).encode()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            print(time.monotonic(), flush=True)
            writer.write(HEAD)
            for at in range(0, len(events), 65_536):
                writer.write(events[at : at + 65_536])
                await writer.drain()
            await reader.read()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def publish(server: str, count: int, way: str) -> None:
    """Be the ceiling: print the seconds that it took until the broker had all of it."""
    settings = make_settings(server, {})
    connection = await connect(settings.broker, login_for(settings.broker, "bridge"), "bridge")
    messages = messages_of(count)
    began_s = time.perf_counter()
    for first in range(0, count, BATCH_EVENTS_MAX):
        part = messages[first : first + BATCH_EVENTS_MAX]
        if way == "batch":
            assert isinstance(await connection.store_batch(part), Stored)
        else:
            stored = await connection.store_burst(part)
            assert all(isinstance(one, Stored) for one in stored)
    print(time.perf_counter() - began_s)
    await connection.close()


def messages_of(count: int) -> list[Message]:
    """Return the very messages that the bridge makes of the source's events."""
    source = make_settings("nats://nobody", source_at("http://nobody/", "ceiling")).sources[
        "ceiling"
    ]
    generation, subjects = "0001-aaaaaaaa", Subjects("fp")
    made = []
    for number in range(1, count + 1):
        cursor = Cursor(
            source="ceiling",
            generation=generation,
            standing=Standing.GENESIS,
            ledger="l",
            owner="b",
            position=Position(str(number)),
        )
        frame = Frame("task", data_of(number), str(number), id_seen=True)
        event = classify(source, cursor, Standing.GENESIS, frame, "2026-01-01T00:00:00.000Z")
        made.append(message_of(event, subjects, 1024 * 1024))
    return made


# --- measuring ------------------------------------------------------------------------------------
def source_at(url: str, name: str) -> dict[str, Any]:
    return {name: {"url": url, "keys": "durable", "key": "/k", "plain": TOKENS}}


@contextlib.asynccontextmanager
async def process(*arguments: str, **options: Any) -> AsyncIterator[asyncio.subprocess.Process]:
    running = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdout=asyncio.subprocess.PIPE, **options
    )
    try:
        yield running
    finally:
        with contextlib.suppress(ProcessLookupError):
            running.terminate()
        await running.communicate()


async def line_of(running: asyncio.subprocess.Process) -> str:
    assert running.stdout is not None
    async with asyncio.timeout(60):
        return (await running.stdout.readline()).decode().strip()


async def ceiling(server: str, count: int, way: str) -> float:
    async with process(__file__, "--publish", server, "--events", str(count), "--way", way) as one:
        return float(await line_of(one))


async def bridged(settings: Settings, connection: JetStream, folder: Path, count: int) -> float:
    """Return the seconds from the bridge's request until all of it is stored, cursor included."""
    server = (settings.broker.servers or ("",))[0]
    async with process(__file__, "--serve", "--events", str(count)) as source:
        url = f"http://127.0.0.1:{await line_of(source)}/"
        name = folder.name
        # Nothing else runs in this loop while a round is made ready.
        folder.mkdir()  # noqa: ASYNC240
        sources = source_at(url, name)
        await initialise(make_settings(server, sources), [name], "earliest")
        configure(folder, server, sources)
        subject = Subjects(settings.broker.prefix).cursor(name)
        async with process("-m", "fencepost", "bridge", "--quiet", cwd=folder):
            began_s = float(await line_of(source))
            while True:
                stored = await connection.last(EVENTS, subject)
                assert stored is not None
                now_s = time.monotonic()
                if msgspec.json.decode(stored.payload, type=Cursor).published >= count:
                    return now_s - began_s
                await asyncio.sleep(0.02)


async def measure(sync: str, count: int, rounds: int) -> dict[str, Any]:
    taken: dict[str, list[float]] = {who: [] for who in ("bridge", *WAYS)}
    with tempfile.TemporaryDirectory(prefix="fencepost-bench-") as name:
        folder = Path(name)
        async with EmbeddedBroker(folder / "broker", sync_always=sync == "always") as server:
            settings = make_settings(server.url, {})
            await initialise(settings, [], "earliest")
            connection = await connect(settings.broker, login_for(settings.broker, "desk"), "desk")
            for number in range(rounds + 1):
                for who, spent in taken.items():
                    if who == "bridge":
                        one = folder / f"round-{number}"
                        seconds = await bridged(settings, connection, one, count)
                    else:
                        seconds = await ceiling(server.url, count, who)
                    if number:  # the first round warms up
                        spent.append(seconds)
                    print(f"  {sync:8} {who:7} {count / seconds:8.0f} events/s", file=sys.stderr)
            await connection.close()
    medians = {who: count / statistics.median(spent) for who, spent in taken.items()}
    return {
        "broker": sync,
        "events_per_s": round(medians["bridge"]),
        "ceilings": {way: round(medians[way]) for way in WAYS},
        "ratios": {way: round(medians["bridge"] / medians[way], 3) for way in WAYS},
        "target": TARGET,
    }


async def bench(count: int, rounds: int, as_json: bool) -> None:
    lines = [await measure(sync, count, rounds) for sync in ("always", "default")]
    if as_json:
        print(json.dumps(lines))
        return
    print("broker      bridge   pipelined  ratio  target     batches  ratio")
    for line in lines:
        burst, batch = line["ceilings"]["burst"], line["ceilings"]["batch"]
        print(
            f"{line['broker']:8} {line['events_per_s']:7}/s {burst:9}/s "
            f"{line['ratios']['burst']:6.2f} {line['target']:7} {batch:9}/s "
            f"{line['ratios']['batch']:6.2f}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--publish", help=argparse.SUPPRESS)
    parser.add_argument("--way", choices=WAYS, default="batch", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(serve(chosen.events))
    elif chosen.publish:
        asyncio.run(publish(chosen.publish, chosen.events, chosen.way))
    else:
        asyncio.run(bench(chosen.events, chosen.rounds, chosen.json))
