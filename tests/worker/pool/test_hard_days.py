"""Hard days on a real broker, for each effect at once: frozen, killed, its ledger lost.

Many keys of every effect live through the same trouble. At the end each of them has happened as its
effect allows, and what cannot be known is asked about.
"""

import asyncio
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fencepost import Context, Fencepost
from fencepost.broker.embedded import EmbeddedBroker
from fencepost.errors import LedgerDiffers
from fencepost.pool.intake import PENDING_MAX
from fencepost.ports import ConsumerPlan
from fencepost_schemas.question import QuestionKind
from fencepost_schemas.row import State
from fencepost_schemas.subject import EVENTS, LEDGER
from kit.house import House, house
from kit.lives import EFFECTS, Before, at_once
from kit.pool import (
    SHORT,
    SOURCE,
    event,
    held,
    publish,
    questions,
    rule,
    see_questions,
    settle,
    working,
)
from kit.rows import fencepost
from kit.wait import until

FREEZE_S = 10.0


class Shop:
    """An app with a handler for each effect, and what landed with whom."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.landed: list[tuple[str, str]] = []
        """Event's key and idempotency key, for each call that the receiver got."""
        self.before: Before = at_once

    def app(self) -> Fencepost:
        app = Fencepost("shop")
        declared: dict[str, dict[str, Any]] = {
            "once": {"effect": "once"},
            "barrier": {"barrier": True},
            "keyed": {"effect": "keyed", "sink_retention_s": 600.0},
            "idempotent": {"effect": "idempotent"},
        }
        for effect in EFFECTS:
            app.on(f"task.{effect}", name=effect, **declared[effect])(self._handle)
        return app

    async def _handle(self, payload: bytes, ctx: Context) -> None:
        self.started.append(str(ctx.event.key))
        await self.before(ctx)
        async with ctx.effect():
            self.landed.append((str(ctx.event.key), ctx.idempotency_key))

    def effects(self, key: str) -> int:
        """Return how much has happened for a key: the receiver of a keyed effect knows it."""
        told = [token for landed, token in self.landed if landed == key]
        return len(set(told)) if key.startswith("keyed") else len(told)


async def come(home: House, numbers: range, **fields: Any) -> list[str]:
    """Publish an event of each effect for each number; return their keys."""
    keys = [f"{effect}-{number}" for number in numbers for effect in EFFECTS]
    await publish(
        home,
        *(event(key, key, type=f"task.{key.split('-')[0]}", **fields) for key in keys),
    )
    return keys


async def judge(home: House, shop: Shop, keys: list[str]) -> Counter[tuple[str, State]]:
    """Check that nothing is lost and nothing doubled; return how many rows stand how."""
    stand = {row.key.removeprefix("k:"): row.state for row in await home.rows()}
    assert set(keys) <= set(stand), "every event has a row"
    for key in keys:
        done, state = shop.effects(key), stand[key]
        assert state in (State.APPLIED, State.IN_DOUBT), key
        assert done >= 1 or state is State.IN_DOUBT, f"{key} is applied, and nothing happened"
        assert done <= 1 or key.startswith("idempotent"), f"{key} happened {done} times"
    doubts = {key for key in keys if stand[key] is State.IN_DOUBT}
    asked = [one.key.removeprefix("k:") for one in await questions(home, QuestionKind.DOUBT)]
    assert sorted(doubts) == sorted(asked), "a doubt is asked about, and once"
    return Counter((key.split("-")[0], stand[key]) for key in keys)


async def test_ten_seconds_without_the_broker(broker: EmbeddedBroker) -> None:
    """Stopped with handlers at work: nothing begins meanwhile, and afterwards all is as it should.

    The handlers at work end while the broker is away, so that their commits have nowhere to go,
    their leases run out, and whoever stands before its barrier does not get through.
    """
    shop, go = Shop(), asyncio.Event()

    async def waits(ctx: Context) -> None:
        await go.wait()

    # Four of each effect fill all slots: no handler gets into doubt five times and is paused.
    pool = {"slots": 8, "handler_timeout_s": 30.0, "lease_s": 3.0, "ack_wait_s": 4.0}
    async with house(broker, SOURCE, broker={"reply_s": 0.5}, pool=pool) as home:
        await home.init()
        async with working(home, shop.app(), shop.app()) as workers:
            shop.before = waits
            keys = await come(home, range(8))
            await until(lambda: len(shop.started) == 16, "all slots to be taken")
            assert broker.process is not None
            broker.process.send_signal(signal.SIGSTOP)
            try:
                go.set()
                done, _ = await asyncio.wait(workers, timeout=FREEZE_S)
                assert not done, "the workers wait, they do not give up"
                assert 16 == len(shop.started), "no row, no run"
                assert "barrier" not in {key.split("-")[0] for key, _ in shop.landed}
            finally:
                broker.process.send_signal(signal.SIGCONT)
            await settle(home)
        stand = await judge(home, shop, keys)
    assert {effect for effect, state in stand if state is State.IN_DOUBT} <= {"once", "barrier"}


async def test_acked_events_that_come_back_are_not_run_again(broker: EmbeddedBroker) -> None:
    """Fifty of each effect were acked, the broker is killed and forgets it: all ran once."""
    shop = Shop()
    async with house(broker, SOURCE, broker={"reply_s": 1.0}, pool=SHORT) as home:
        await home.init()
        async with working(home, shop.app()):
            keys = await come(home, range(50))
            await settle(home)
            assert len(keys) == len(shop.landed)
            await broker.kill()
            await broker.start()
            await settle(home)
        # Whether or not this broker had kept the acks, bring all of it once more. A worker would
        # have its consumer begin where the app is.
        await home.connection.api(f"CONSUMER.DELETE.{EVENTS}.fp-shop")
        pool = home.settings.pool
        everything = ConsumerPlan(
            EVENTS, "fp-shop", (home.subjects.events_of(),), pool.ack_wait_s, PENDING_MAX
        )
        await home.connection.ensure_consumer(everything)
        async with working(home, shop.app(), shop.app()):

            async def all_again() -> bool:
                info = await home.connection.api(f"CONSUMER.INFO.{EVENTS}.fp-shop")
                return "error" not in info and info["delivered"]["consumer_seq"] >= len(keys)

            await until(all_again, "all of it to come again")
            await settle(home)
        assert {State.APPLIED} == {state for _, state in await judge(home, shop, keys)}
    assert sorted(keys) == sorted(shop.started)


@pytest.mark.parametrize("standing", ["keep", "doubt"])
async def test_a_ledger_that_was_made_again(
    broker: EmbeddedBroker, tmp_path: Path, standing: str
) -> None:
    """Refused until a person adopts it; then work goes on, or is asked about where it matters."""
    shop = Shop()
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        async with working(home, shop.app()):
            await come(home, range(3))
            await settle(home)
        done = len(shop.started)
        await home.connection.api(f"STREAM.DELETE.{LEDGER}")
        with pytest.raises(LedgerDiffers):
            await home.init()
        keys = await come(home, range(3, 6))
        async with home.worker(shop.app()) as refused:
            await asyncio.wait([refused], timeout=20)
            assert isinstance(refused.exception(), LedgerDiffers)
        assert done == len(shop.started), "nothing runs by a ledger that remembers nothing"

        told = ("--standing", standing, "--actor", "ada", "--yes")
        ran = await fencepost(home, tmp_path, "ledger", "adopt", *told)
        assert 0 == ran.code, ran.err
        cursor = await home.cursor()
        async with working(home, shop.app()):
            keys += await come(
                home, range(6, 9), generation=cursor.generation, standing=cursor.standing
            )
            await settle(home)
            if standing == "doubt":
                await accept_what_waits(home, cursor.generation)
        assert {State.APPLIED} == {state for _, state in await judge(home, shop, keys)}
    assert sorted(keys) == sorted(shop.started[done:])


async def accept_what_waits(home: House, generation: str) -> None:
    """Rule on a doubtful generation, in which only the idempotent went on by itself."""
    waiting = Counter(one.handler for one in await held(home))
    assert {"once": 3, "barrier": 3, "keyed": 3} == waiting
    [seam] = await see_questions(home, 1, QuestionKind.SEAM)
    assert generation == seam.generation
    await rule(home, "accept", generation)
    await settle(home)
