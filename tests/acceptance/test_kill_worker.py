"""The promise itself, with real processes: a worker is killed ten times in the midst of its work.

A real source, broker, bridge and worker; the handler writes to a file what it began and what it
ended. Whatever the kills did, each task is applied once or asked about, and none is lost.
"""

import asyncio
import contextlib
import json
import signal
import socket
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

from fencepost.broker.embedded import EmbeddedBroker
from fencepost.demo.source import FLOOR_HEADER, GENERATION_HEADER
from fencepost_schemas.question import QuestionKind
from fencepost_schemas.row import State
from kit.command import Command, environment, run_command, started, toml
from kit.house import House, house
from kit.pool import questions, settle
from kit.wait import until

KILLS = 10
TASKS_A_ROUND = 6
APP = """
import asyncio
import os
from pathlib import Path

import msgspec

from fencepost import Fencepost

app = Fencepost("shop")
HOLD, SINK = Path(os.environ["HOLD"]), os.environ["SINK"]


class Task(msgspec.Struct):
    idempotency_key: str


def note(what: str, key: str) -> None:
    sink = os.open(SINK, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(sink, f"{what} {key}\\n".encode())
    os.close(sink)


@app.on("task.assigned", name="execute", effect="once")
async def execute(task: Task) -> None:
    note("started", task.idempotency_key)
    while HOLD.exists():
        await asyncio.sleep(0.005)
    note("done", task.idempotency_key)
"""


class Sink:
    """What the handlers wrote; `hold` keeps those that begin from ending."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "sink"
        self.hold = folder / "hold"
        self.path.touch()

    def noted(self, what: str) -> list[str]:
        lines = [line.split() for line in self.path.read_text().splitlines()]
        return [key for word, key in lines if word == what]

    def cut_off(self) -> set[str]:
        """Return the tasks that were begun and not ended."""
        return set(self.noted("started")) - set(self.noted("done"))


class Source:
    """A real source in a process of its own, told over HTTP what to emit."""

    def __init__(self, port: int, log: Path) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.emitted: list[str] = []
        self._log = log

    def followed(self) -> bool:
        """Return True once the bridge is connected; this source repeats nothing for a newcomer."""
        return self._log.exists() and "connected" in self._log.read_text()

    async def emit(self, count: int) -> None:
        tasks = [f"task-{len(self.emitted) + number}" for number in range(count)]
        async with httpx2.AsyncClient(trust_env=False) as client:
            reply = await client.post(f"{self.url}/emit", json={"tasks": tasks})
            reply.raise_for_status()
        self.emitted += tasks


@asynccontextmanager
async def running_source(folder: Path) -> AsyncIterator[Source]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        line = [sys.executable, "-m", "fencepost.demo.source", "--name", "one", "--declare"]
        line += ["--fd", str(listening.fileno()), "--first-id", "1"]
        line += ["--log", str(folder / "source.log")]
        process = await asyncio.create_subprocess_exec(
            *line, pass_fds=(listening.fileno(),), env=environment(), start_new_session=True
        )
        port = int(listening.getsockname()[1])
    try:
        yield Source(port, folder / "source.log")
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def configuration(url: str) -> dict[str, Any]:
    plain = {
        "scheme": "integer",
        "generation_header": GENERATION_HEADER,
        "window_header": FLOOR_HEADER,
    }
    source = {"url": url, "keys": "durable", "key": "/idempotency_key", "plain": plain}
    return {"orders": source}


POOL = {"slots": 2, "handler_timeout_s": 1.0, "lease_s": 2.0, "ack_wait_s": 3.0}


async def test_a_worker_killed_ten_times_applies_once_or_asks(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """kill -9 while a task is begun and not ended, again and again; then everything is counted."""
    sink = Sink(tmp_path)
    (tmp_path / "shop.py").write_text(APP)
    async with running_source(tmp_path) as source:
        sources = configuration(f"{source.url}/events/fencepost")
        pool = {**POOL, "retry_longest_s": 0.2}
        (tmp_path / "fencepost.toml").write_text(
            toml({"app": "shop:app", "broker": {"servers": [broker.url]}, "pool": pool}
                 | {"sources": sources})
        )  # fmt: skip
        assert (await run_command("init", folder=tmp_path)).code == 0
        async with (
            house(broker, sources, pool=pool) as home,
            started("bridge", folder=tmp_path) as bridge,
        ):
            await until(source.followed, "the bridge to follow the source")
            more = {"SINK": str(sink.path), "HOLD": str(sink.hold)}
            for _ in range(KILLS):
                await one_kill(tmp_path, sink, source, more)
            async with started("worker", folder=tmp_path, more=more) as worker:
                await source.emit(TASKS_A_ROUND)
                await count(home, source, sink)
                worker.signal(signal.SIGTERM)
                assert (await worker.ended()).code == 0
            bridge.signal(signal.SIGTERM)
            assert (await bridge.ended()).code == 0


async def one_kill(folder: Path, sink: Sink, source: Source, more: dict[str, str]) -> None:
    """Let a worker bring something to an end, then kill it while it is at something else."""
    async with started("worker", folder=folder, more=more) as worker:
        done = len(sink.noted("done"))
        await source.emit(1)
        await until(lambda: len(sink.noted("done")) > done, "the worker to bring a task to an end")
        before = sink.cut_off()
        sink.hold.touch()
        await source.emit(TASKS_A_ROUND - 1)
        await until(lambda: bool(sink.cut_off() - before), "a task that is begun and not ended")
        kill(worker)
        await worker.process.wait()
    sink.hold.unlink()


def kill(command: Command) -> None:
    """End it as the kernel does when memory is short."""
    command.process.kill()


async def open_pauses(home: House) -> list[str]:
    asked = [entry.question for entry in await home.book.entries()]
    return [question.id for question in asked if question.kind is QuestionKind.PAUSE]


async def count(home: House, source: Source, sink: Sink) -> None:
    """Every task the source emitted is applied or asked about, and no effect came twice."""

    async def published() -> bool:
        return len(await home.events()) == len(source.emitted)

    await until(published, "the bridge to publish everything")
    await settle(home)
    while pauses := await open_pauses(home):
        # So many kills are five doubts in a row: what came since is held until somebody says so.
        for pause in pauses:
            await home.book.answer(pause, "resume", "ada")
        await settle(home)
    rows = {row.key.removeprefix("k:"): row for row in await home.rows()}
    asked = await questions(home)
    done, begun = Counter(sink.noted("done")), Counter(sink.noted("started"))
    applied = {key for key, row in rows.items() if row.state is State.APPLIED}
    in_doubt = {key for key, row in rows.items() if row.state is State.IN_DOUBT}

    assert set(rows) == set(source.emitted), "nothing is lost, nothing is invented"
    assert applied | in_doubt == set(rows)
    assert max(done.values()) == 1, "no task was done twice"
    assert max(begun.values()) == 1, "no task was begun twice"
    assert set(done) <= applied | in_doubt
    assert applied <= set(done), "what is applied was done"
    assert sink.cut_off() <= in_doubt, "what was cut off is in doubt"
    assert len(in_doubt) >= KILLS
    assert {one.kind for one in asked} <= {QuestionKind.DOUBT, QuestionKind.PAUSE}
    carried = [json.loads(one.event.payload)["idempotency_key"] for one in asked if one.event]
    assert sorted(carried) == sorted(in_doubt), "each doubt has one question, with its bytes"
