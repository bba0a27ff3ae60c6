"""A node of three dies, and workers go on: nobody ends, nothing is in doubt, each runs once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fencepost import Context
from fencepost.errors import Unreachable
from fencepost_schemas.question import QuestionKind
from fencepost_schemas.row import State
from fencepost_schemas.subject import EVENTS, LEDGER
from kit.cluster import Cluster
from kit.house import House, make_settings
from kit.pool import SOURCE, Runs, app_with, event, publish, questions, settle, states, working
from kit.wait import until

EVENTS_COUNT = 60
POOL: dict[str, Any] = {
    "slots": 8,
    "handler_timeout_s": 20.0,
    "lease_s": 25.0,
    "ack_wait_s": 30.0,
}


@asynccontextmanager
async def clustered(folder: Path) -> AsyncIterator[tuple[Cluster, House]]:
    """Yield three servers and a house on them, with its streams made."""
    with Cluster(folder, 3) as cluster:
        broker = {"servers": list(cluster.urls), "replicas": 3, "reply_s": 2.0}
        settings = make_settings(cluster.urls[0], SOURCE, pool=POOL, broker=broker)
        connection = await cluster.connect()
        home = House(settings, connection)

        async def made() -> bool:
            try:
                await home.init()
            except Unreachable:
                return False
            return True

        try:
            await until(made, "the streams to be made")
            yield cluster, home
        finally:
            await connection.close()


async def leader(home: House, what: str) -> str:
    """Return which node leads a stream, or a consumer of it, once one does."""
    found: list[str] = []

    async def leads() -> bool:
        try:
            info = await home.connection.api(what)
        except Unreachable:
            return False
        name = info.get("cluster", {}).get("leader")
        found[:] = [name] if name else []
        return bool(found)

    await until(leads, f"a leader of {what}")
    return found[0]


async def publish_all(home: House, first: int, last: int) -> None:
    """Publish events, each again until the broker has it: an election may be on."""
    for number in range(first, last):
        one = event(f"k{number}", position=str(number))

        async def stored(one: Any = one) -> bool:
            try:
                await publish(home, one)
            except (Unreachable, AssertionError):
                return False
            return True

        await until(stored, "an event to be stored")


@pytest.mark.parametrize(
    "what",
    [f"CONSUMER.INFO.{EVENTS}.fp-shop", f"STREAM.INFO.{EVENTS}", f"STREAM.INFO.{LEDGER}"],
    ids=["consumer", "events", "ledger"],
)
async def test_a_node_that_dies_ends_no_worker(what: str, tmp_path: Path) -> None:
    """The one that leads the consumer, the events, or the ledger."""
    runs = Runs()

    async def work(payload: bytes, ctx: Context) -> None:
        await asyncio.sleep(0.05)

    async with clustered(tmp_path) as (cluster, home):
        async with working(home, app_with(runs, work), app_with(runs, work)) as workers:
            await publish_all(home, 0, EVENTS_COUNT // 2)
            await until(lambda: len(runs.done) >= 5, "some events to be worked on")
            cluster.kill(await leader(home, what))
            await publish_all(home, EVENTS_COUNT // 2, EVENTS_COUNT)
            await until(lambda: len(set(runs.done)) == EVENTS_COUNT, "all events")
            await settle(home)
            assert not any(worker.done() for worker in workers)
        assert {State.APPLIED} == set((await states(home)).values())
        assert 1 == runs.most
        assert [] == await questions(home, QuestionKind.DOUBT)
        assert [] == await questions(home, QuestionKind.PAUSE)


async def test_a_consumer_that_is_deleted_under_load_ends_no_worker(tmp_path: Path) -> None:
    """What runs comes to its end, and the rest is delivered to the consumer that is made again."""
    runs, go = Runs(), asyncio.Event()

    async def work(payload: bytes, ctx: Context) -> None:
        await go.wait()

    async with clustered(tmp_path) as (_, home):
        async with working(home, app_with(runs, work)) as workers:
            await publish_all(home, 0, EVENTS_COUNT)
            await until(lambda: len(runs.started) == POOL["slots"], "all slots to be busy")
            await home.connection.api(f"CONSUMER.DELETE.{EVENTS}.fp-shop")
            go.set()
            await until(lambda: len(set(runs.done)) == EVENTS_COUNT, "all events")
            await settle(home)
            assert not any(worker.done() for worker in workers)
        assert {State.APPLIED} == set((await states(home)).values())
        assert 1 == runs.most
