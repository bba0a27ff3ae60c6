"""Rows that wait for the answer to a pause are shown as that, and as nobody's overdue work."""

import json
from pathlib import Path

import pytest

from fencepost import Context
from fencepost.broker.embedded import EmbeddedBroker
from fencepost.desk.rows import PausedCount, Rows
from fencepost.errors import NotFine
from fencepost.ports import Message
from fencepost_schemas.question import QuestionKind
from fencepost_schemas.row import State
from fencepost_schemas.subject import LEDGER
from kit.house import House, house
from kit.pool import SHORT, SOURCE, Runs, app_with, event, publish, questions, settle, working
from kit.rows import fencepost, put, row

DOUBTS = [f"d{number}" for number in range(5)]
LEFT = {"k:started": State.STARTED, "k:claimed": State.CLAIMED, "k:waits": State.RETRY_WAIT}


async def paused_house(home: House) -> str:
    """Have a handler paused, and rows of a worker that died brought under it; return the pause."""

    async def fails(payload: bytes, ctx: Context) -> None:
        raise RuntimeError("the bank's certificate has expired")

    await publish(home, *(event(key, key) for key in DOUBTS))
    async with working(home, app_with(Runs(), fails)):
        await settle(home)
        [pause] = await questions(home, QuestionKind.PAUSE)
        for key, state in LEFT.items():
            one = event(key.removeprefix("k:"), key)
            made = row(key, state, position=key, fingerprint=one.fingerprint, lease_until_ms=1)
            await put(home, made)
            await publish(home, one)
        await settle(home)
    return pause.id


async def test_they_are_counted_under_their_question(broker: EmbeddedBroker) -> None:
    """A row of another handler, one whose lease runs and one whose event is not here are not."""
    async with house(broker, SOURCE, pool={**SHORT, "slots": 1}) as home:
        await home.init()
        pause = await paused_house(home)
        now_ms = await home.connection.clock_ms(LEDGER)
        await put(
            home,
            row("k:elsewhere", State.STARTED, handler="mail", lease_until_ms=1),
            row("k:runs", State.STARTED, lease_until_ms=now_ms + 60_000),
            row("k:unseen", State.STARTED, position="unseen", lease_until_ms=1),
        )
        counted = await Rows(home.connection, home.subjects).count()
        assert [PausedCount(pause, "charge", len(LEFT))] == counted.paused
        assert {"in_doubt": 5, "paused": 3, "started": 2} == counted.counts["charge"]
        assert {"started": 1} == counted.counts["mail"]
        oldest = {one.row.key for one in counted.oldest_open if one.row is not None}
        assert not oldest & set(LEFT)


async def test_the_commands_show_them(broker: EmbeddedBroker, tmp_path: Path) -> None:
    async with house(broker, SOURCE, pool={**SHORT, "slots": 1}) as home:
        await home.init()
        pause = await paused_house(home)
        ran = await fencepost(home, tmp_path, "ledger", "stats")
        assert 0 == ran.code, ran.err
        assert f"{pause}\tcharge\t3" in ran.out
        ran = await fencepost(home, tmp_path, "ledger", "stats", "--json")
        told = json.loads(ran.out)["counted"]
        assert [{"question": pause, "handler": "charge", "rows": 3}] == told["paused"]
        ran = await fencepost(home, tmp_path, "ledger", "ls", "--state", "paused", "--json")
        found = json.loads(ran.out)["rows"]
        assert {key: pause for key in LEFT} == {one["row"]["key"]: one["pause"] for one in found}
        ran = await fencepost(home, tmp_path, "ledger", "ls", "--state", "started")
        assert "no row" in ran.out
        ran = await fencepost(home, tmp_path, "ledger", "get", "charge", "orders", "started")
        assert f"waits for the answer to {pause}" in ran.out
        named = ("charge", "orders", "started", "--yes")
        ran = await fencepost(home, tmp_path, "ledger", "release", *named)
        assert 1 == ran.code
        assert "its handler is paused" in ran.complaint
        assert pause in ran.complaint


async def test_behind_the_answer_they_are_what_they_were(broker: EmbeddedBroker) -> None:
    """What the pause's answer brings back is a worker's again."""
    async with house(broker, SOURCE, pool={**SHORT, "slots": 1}) as home:
        await home.init()
        pause = await paused_house(home)
        await home.book.answer(pause, "resume", "eve")
        rows = Rows(home.connection, home.subjects)
        assert [] == (await rows.count()).paused
        entry = await rows.find("charge", "orders", "started")
        assert ("started", "") == (entry.state, entry.pause)
        with pytest.raises(NotFine, match="its lease is over"):
            await rows.releasable("charge", "orders", "started")


async def test_a_question_of_another_release_is_passed_over(broker: EmbeddedBroker) -> None:
    async with house(broker, SOURCE, pool={**SHORT, "slots": 1}) as home:
        await home.init()
        pause = await paused_house(home)
        strange = home.subjects.question("app-shop", "aaaaaaaaaaaaaaaaaaaaaaaaaa")
        await home.connection.store(Message(strange, b'{"kind":"unheard of"}'))
        [entry] = (await Rows(home.connection, home.subjects).page(states=["paused"], limit=1)).rows
        assert entry.pause == pause
