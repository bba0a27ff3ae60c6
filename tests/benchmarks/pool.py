"""The pool against a plain loop, side by side on one broker: `make bench`.

The plain loop is what one would write without any ledger: nats-py, fetch(500), ack. Both work off
the same events with one process that does nothing else; what is compared is how long it takes until
the broker has all acks. Each figure is a median of rounds that take turns, and given as a ratio.

The bare loop is the most that a ledger of two writes could reach: the pool's own client, an insert
and an update of a row for each event, in batches, an ack, and nothing that is decided or run.
"""

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nats

from fencepost.broker.embedded import EmbeddedBroker
from fencepost.broker.jetstream import JetStream, connect
from fencepost.cli.init import initialise
from fencepost.ports import Message, Stored
from fencepost.settings import Settings
from fencepost.settings_file import login_for
from fencepost_schemas.event import ClassifiedEvent, KeyScope, fingerprint_of, headers_of
from fencepost_schemas.standing import Standing
from fencepost_schemas.subject import EVENTS, Subjects, lane_of
from kit.house import make_settings
from kit.wait import until

EVENT_BYTES = 256
BATCH = 500
SLOTS = 1_000
SINGLES = 200
SOURCE: dict[str, Any] = {"orders": {"url": "http://127.0.0.1:9/", "keys": "durable", "key": "/k"}}
LEASES: dict[str, Any] = {
    "slots": SLOTS,
    "handler_timeout_s": 20.0,
    "lease_s": 30.0,
    "ack_wait_s": 45.0,
    "drain_s": 10.0,
}
APP = """
from fencepost import Fencepost

app = Fencepost("bench-{name}")


@app.on("task", name="no-op-{name}", effect="{effect}")
async def no_op(payload: bytes) -> None:
    return None
"""
ONE_APP = """
import os
from contextlib import asynccontextmanager

import nats

from fencepost import Fencepost

client = None


@asynccontextmanager
async def lifespan():
    global client
    client = await nats.connect(os.environ["BENCH_SERVER"])
    yield
    await client.close()


app = Fencepost("bench-one", lifespan=lifespan)


@app.on("task", name="one", effect="once")
async def one(payload: bytes) -> None:
    await client.publish("bench.done", b"")
    await client.flush()
"""
ONE_PLAIN = """
import asyncio, sys
import nats
from nats.errors import TimeoutError

async def main(url):
    client = await nats.connect(url)
    pull = await client.jetstream().pull_subscribe_bind("plain", "{events}")
    while True:
        try:
            messages = await pull.fetch({batch}, timeout=5)
        except TimeoutError:
            continue
        for message in messages:
            await client.publish("bench.done", b"")
            await client.flush()
            await message.ack()

asyncio.run(main(sys.argv[1]))
"""
PLAIN = """
import asyncio, sys
import nats
from nats.errors import TimeoutError

async def main(url, count):
    client = await nats.connect(url)
    stream = client.jetstream()
    pull = await stream.pull_subscribe_bind("plain", "{events}")
    taken = 0
    while taken < count:
        try:
            messages = await pull.fetch({batch}, timeout=5)
        except TimeoutError:
            continue
        for message in messages:
            await message.ack()
        taken += len(messages)
    await client.flush()
    await client.close()

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""
BARE = """
import asyncio, sys
from fencepost.broker.jetstream import connect
from fencepost.ports import Message
from fencepost.settings import Broker
from fencepost.settings_file import login_for
from fencepost_schemas.limits import LEDGER_BATCH_WELL_FILLED, LEDGER_BATCHES_MAX

ROW = b"x" * {row}
waiting, at_work, stirred = [], {{}}, asyncio.Event()

def take(message):
    waiting.append(message)
    stirred.set()

def over(task):
    del at_work[task]
    task.result()
    stirred.set()

async def see_through(connection, group):
    # Events are told apart by their places in the stream.
    places = [message.reply.split(".")[5].zfill(26) for message in group]
    rows = [Message("fp.ledger.bare.orders." + place, ROW, {{}}, 0) for place in places]
    claimed = await connection.store_batch(rows)
    first = claimed.sequence - len(rows) + 1
    rows = [Message(row.subject, ROW, {{}}, first + n) for n, row in enumerate(rows)]
    await connection.store_batch(rows)
    await connection.settle_all([(message, b"+ACK") for message in group])

async def main(url):
    broker = Broker(servers=(url,))
    connection = await connect(broker, login_for(broker, "worker"), "worker")
    puller = connection.puller("{events}", "bare", take)
    await puller.open()
    while True:
        await puller.want({slots} - sum(at_work.values()) - len(waiting))
        stirred.clear()
        await stirred.wait()
        while len(at_work) < LEDGER_BATCHES_MAX and waiting and (
            not at_work or len(waiting) >= LEDGER_BATCH_WELL_FILLED
        ):
            group = waiting[:{batch}]
            del waiting[:{batch}]
            task = asyncio.create_task(see_through(connection, group))
            at_work[task] = len(group)
            task.add_done_callback(over)

asyncio.run(main(sys.argv[1]))
"""
ROW_BYTES = 560
"""What a row of such an event takes."""
TARGETS = {
    ("always", "once"): 0.4,
    ("default", "once"): 0.5,
    ("always", "idempotent"): 0.6,
    ("default", "idempotent"): 0.8,
}


def event(number: int, round_: int) -> ClassifiedEvent:
    key = f"t{round_:03d}-{number:08d}"
    data = f'{{"k":"{key}","pad":"'.encode()
    data += b"x" * (EVENT_BYTES - len(data) - 2) + b'"}'
    return ClassifiedEvent(
        source="orders",
        generation="0001-aaaaaaaa",
        standing=Standing.RESUMED,
        verdict=Standing.RESUMED,
        type="task",
        position=str(number),
        fingerprint=fingerprint_of(data),
        time="2026-01-01T00:00:00Z",
        payload=data,
        key=key,
        key_scope=KeyScope.DURABLE,
        namespace="orders",
        size=len(data),
    )


async def publish(connection: JetStream, subjects: Subjects, count: int, round_: int) -> None:
    for first in range(0, count, BATCH):
        messages = []
        for number in range(first, min(first + BATCH, count)):
            one = event(number, round_)
            subject = subjects.event(
                one.source, one.generation, one.standing, lane_of(one.key or "")
            )
            messages.append(Message(subject, one.payload, headers_of(one)))
        stored = await connection.store_batch(messages)
        assert isinstance(stored, Stored), stored


async def settled(connection: JetStream, consumer: str) -> tuple[int, bool]:
    """Return how many a consumer has delivered, and whether all it may get is acked."""
    info = await connection.api(f"CONSUMER.INFO.{EVENTS}.{consumer}")
    if "error" in info:
        return 0, False
    delivered = int(info["delivered"]["consumer_seq"])
    return delivered, not info["num_pending"] and not info["num_ack_pending"]


async def timed(connection: JetStream, consumer: str, *command: str) -> float:
    """Run a process; return the seconds from its first delivery until all is acked."""
    before, _ = await settled(connection, consumer)
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    began_s = 0.0
    try:
        while True:
            delivered, all_acked = await settled(connection, consumer)
            now_s = time.perf_counter()
            if not began_s and delivered > before:
                began_s = now_s
            if began_s and all_acked:
                return now_s - began_s
            if process.returncode not in (None, 0):
                raise SystemExit((await process.stderr.read()).decode())
            await asyncio.sleep(0.02)
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.communicate()


async def one_at_a_time(
    connection: JetStream, subjects: Subjects, server: str, count: int, *command: str
) -> float:
    """Return the median seconds from publishing one event to its handler's word, with no other."""
    environment = {**os.environ, "BENCH_SERVER": server}
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, stdout=asyncio.subprocess.DEVNULL
    )
    client = await nats.connect(server)
    done = await client.subscribe("bench.done")
    taken: list[float] = []
    try:
        for number in range(count + 5):
            one = event(number, 999 + process.pid)
            subject = subjects.event(one.source, one.generation, one.standing, 0)
            began_s = time.perf_counter()
            await connection.store(Message(subject, one.payload, headers_of(one)))
            await done.next_msg(timeout=30)
            taken.append(time.perf_counter() - began_s)
    finally:
        process.terminate()
        await process.wait()
        await client.close()
    return statistics.median(taken[5:])


@contextlib.asynccontextmanager
async def bench_house(folder: Path, sync: str) -> AsyncIterator[tuple[Settings, JetStream]]:
    async with EmbeddedBroker(folder / "broker", sync_always=sync == "always") as server:
        settings = make_settings(server.url, SOURCE, pool=LEASES)
        connection = await connect(settings.broker, login_for(settings.broker, "desk"), "desk")
        try:
            await initialise(settings, list(settings.sources), "now")
            yield settings, connection
        finally:
            await connection.close()


async def measure(sync: str, count: int, rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each round, by who worked; "one" and "plain one" for one at a time."""
    with tempfile.TemporaryDirectory(prefix="fencepost-bench-") as name:
        folder = Path(name)
        async with bench_house(folder, sync) as (settings, connection):
            server = (settings.broker.servers or ("",))[0]
            subjects = Subjects(settings.broker.prefix)
            await add_consumers(server, subjects)
            commands = write_programs(folder, server, count)
            found = await throughput(sync, count, rounds, connection, subjects, commands)
            await catch_up(connection, commands["one"], server)
            return {**found, **await latency(sync, rounds, connection, subjects, server, commands)}


async def add_consumers(server: str, subjects: Subjects) -> None:
    """Make the consumers of what makes none of its own."""
    client = await nats.connect(server)
    for name in ("plain", "bare"):
        await client.jetstream().add_consumer(
            EVENTS,
            durable_name=name,
            ack_policy="explicit",
            ack_wait=45,
            max_ack_pending=20_000,
            filter_subject=subjects.events_of(),
        )
    await client.close()


def write_programs(folder: Path, server: str, count: int) -> dict[str, list[str]]:
    """Write what is compared into a folder; return the command of each."""
    (folder / "plain.py").write_text(PLAIN.format(events=EVENTS, batch=BATCH), "utf-8")
    (folder / "plain_one.py").write_text(ONE_PLAIN.format(events=EVENTS, batch=BATCH), "utf-8")
    bare = BARE.format(events=EVENTS, batch=BATCH, slots=SLOTS, row=ROW_BYTES)
    (folder / "bare.py").write_text(bare, "utf-8")
    pool = "\n".join(f"{field} = {value}" for field, value in LEASES.items())
    toml = folder / "fencepost.toml"
    toml.write_text(f'[broker]\nservers = ["{server}"]\n[pool]\n{pool}\n', "utf-8")
    commands = {
        "plain": [sys.executable, str(folder / "plain.py"), server, str(count)],
        "bare": [sys.executable, str(folder / "bare.py"), server],
        "plain one": [sys.executable, str(folder / "plain_one.py"), server],
    }
    for who in ("once", "idempotent", "one"):
        text = ONE_APP if who == "one" else APP.format(name=who, effect=who)
        (folder / f"bench_{who}.py").write_text(text, "utf-8")
        commands[who] = [
            *(sys.executable, "-m", "fencepost", "worker", "--quiet"),
            *("--config", str(toml), "--app", f"{folder}/bench_{who}.py:app"),
        ]
    return commands


async def throughput(
    sync: str,
    count: int,
    rounds: int,
    connection: JetStream,
    subjects: Subjects,
    commands: dict[str, list[str]],
) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {"plain": [], "bare": [], "once": [], "idempotent": []}
    names = list(found)
    for number in range(rounds + 1):
        await publish(connection, subjects, count, number)
        # Each has each place in turn: the broker still tidies up behind whoever went before.
        first = number % len(names)
        for who in names[first:] + names[:first]:
            consumer = who if who in ("plain", "bare") else f"fp-bench-{who}"
            seconds = await timed(connection, consumer, *commands[who])
            if number:  # the first round warms up, and makes the consumers
                found[who].append(seconds)
            print(f"  {sync:8} {who:11} {count / seconds:8.0f} events/s", file=sys.stderr)
    return found


async def latency(
    sync: str,
    rounds: int,
    connection: JetStream,
    subjects: Subjects,
    server: str,
    commands: dict[str, list[str]],
) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {"plain one": [], "one": []}
    for _ in range(rounds):
        for who, taken in found.items():
            seconds = await one_at_a_time(connection, subjects, server, SINGLES, *commands[who])
            taken.append(seconds)
            print(f"  {sync:8} {who:11} {seconds * 1000:8.2f} ms", file=sys.stderr)
    return found


async def catch_up(connection: JetStream, command: list[str], server: str) -> None:
    """Have the app of the single events see to what the others have worked off before."""
    process = await asyncio.create_subprocess_exec(
        *command, env={**os.environ, "BENCH_SERVER": server}, stdout=asyncio.subprocess.DEVNULL
    )

    async def all_acked() -> bool:
        return (await settled(connection, "fp-bench-one"))[1]

    await until(all_acked, "the app of the single events to catch up", 120)
    process.terminate()
    await process.wait()


def report(sync: str, found: dict[str, list[float]], count: int) -> list[dict[str, Any]]:
    plain = statistics.median(found["plain"])
    lines = []
    for effect in ("once", "idempotent", "bare"):
        median = statistics.median(found[effect])
        lines.append(
            {
                "broker": sync,
                "effect": effect,
                "events_per_s": round(count / median),
                "plain_events_per_s": round(count / plain),
                "ratio": round(plain / median, 3),
                "target": TARGETS.get((sync, effect), ""),
            }
        )
    one, plain_one = (statistics.median(found[who]) for who in ("one", "plain one"))
    lines.append(
        {
            "broker": sync,
            "effect": "one at a time",
            "ms": round(one * 1000, 2),
            "plain_ms": round(plain_one * 1000, 2),
            "ratio": round(plain_one / one, 3),
        }
    )
    return lines


async def bench(count: int, rounds: int, as_json: bool) -> None:
    lines = []
    for sync in ("always", "default"):
        lines += report(sync, await measure(sync, count, rounds), count)
    if as_json:
        print(json.dumps(lines))
        return
    print("broker    effect                pool   plain loop  ratio  target")
    for line in lines:
        if "ms" in line:
            figures = f"{line['ms']:8.2f} ms {line['plain_ms']:9.2f} ms"
        else:
            figures = f"{line['events_per_s']:8}/s {line['plain_events_per_s']:10}/s"
        target = line.get("target", "")
        print(f"{line['broker']:9} {line['effect']:14} {figures} {line['ratio']:6.2f} {target:7}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    asyncio.run(bench(chosen.events, chosen.rounds, chosen.json))
