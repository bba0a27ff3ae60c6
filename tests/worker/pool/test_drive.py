"""What happens to one piece of work leaves its row and its slot to the next, and others be."""

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from fencepost import Context, Fencepost
from fencepost.broker.embedded import EmbeddedBroker
from fencepost.ledgers.memory import MemoryLedger
from fencepost.pool import drive
from fencepost.pool.case import Done
from fencepost.pool.work import Work
from fencepost.ports import Told
from fencepost_policies.ledger import step
from fencepost_policies.plan import CERTAIN, Given, Plan, Reading, Settlement
from fencepost_schemas.row import Row, State
from kit.driver import RULED, ToldTime, driving, work_for
from kit.house import house
from kit.pool import SHORT, SOURCE, Runs, app_with, event, publish, settle, states, working
from kit.wait import until

ONE_SLOT: dict[str, Any] = {**SHORT, "slots": 1}


async def test_a_handler_that_cancels_its_own_task_keeps_neither_slot_nor_row(
    broker: EmbeddedBroker,
) -> None:
    """It may have had its effect, so its event comes again, and is in doubt; others go on."""
    runs = Runs()

    async def cancel_once(payload: bytes, ctx: Context) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(runs.started) == 1:
            task.cancel()
            await asyncio.sleep(0)

    async with house(broker, SOURCE, pool=ONE_SLOT) as home:
        await home.init()
        await publish(home, event("a", position="1"), event("b", position="2"))
        async with working(home, app_with(runs, cancel_once)):
            await settle(home)
        found = sorted((await states(home)).values())
    assert [State.APPLIED, State.IN_DOUBT] == found


async def test_what_comes_for_one_row_is_worked_on_one_after_the_other(
    broker: EmbeddedBroker,
) -> None:
    """Three deliveries of one key to a worker with room for all: one runs, and two are told so."""
    runs = Runs()
    at_once: list[int] = []

    async def count(payload: bytes, ctx: Context) -> None:
        at_once.append(len(runs.started) - len(runs.done))
        await asyncio.sleep(0.1)

    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        await publish(home, *(event("a", position=position) for position in ("1", "2", "3")))
        async with working(home, app_with(runs, count)):
            await settle(home)
        assert [State.APPLIED] == list((await states(home)).values())
    assert [1] == at_once


# --- turns --------------------------------------------------------------------------------------
class Heard:
    """How pieces of work came out, in the order in which they did."""

    def __init__(self) -> None:
        self.settled: list[Settlement] = []
        self.errors: list[BaseException] = []

    def ended(self, done: Done) -> None:
        self.settled.append(done.settlement)

    def failed(self, error: BaseException) -> None:
        self.errors.append(error)


class NotedLedger(MemoryLedger):
    """Notes what is written; what it would tell of that may be kept back."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[str] = []
        self.keeps_back = False
        self.kept: list[Callable[[], None]] = []

    def submit(self, subject: str, row: Row, expect: int, told: Told) -> None:
        self.written.append(subject)
        if self.keeps_back:
            self.kept.append(partial(super().submit, subject, row, expect, told))
        else:
            super().submit(subject, row, expect, told)


@pytest.fixture
def ran() -> list[bytes]:
    """What the handler was called with."""
    return []


@pytest.fixture
def app(ran: list[bytes]) -> Fencepost:
    app = Fencepost("shop")

    @app.on("task", name="charge")
    async def charge(payload: bytes) -> None:
        ran.append(payload)

    return app


def works(app: Fencepost, count: int) -> list[Work]:
    return [work_for(app, "charge", event(str(number))) for number in range(count)]


async def test_more_than_a_turn_takes_is_decided_on_in_several(
    app: Fencepost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two turns whatever else is to be done in this loop has its own."""
    monkeypatch.setattr("fencepost.pool.drive.TURN_CASES_MAX", 2)
    heard, ledger, seen = Heard(), NotedLedger(), [0]

    def look() -> None:
        seen.append(len(ledger.written))
        if len(heard.settled) < 7:
            asyncio.get_running_loop().call_soon(look)

    async with driving(app, ledger, ToldTime()) as driver:
        for work in works(app, 7):
            driver.begin(work, RULED, heard)
        assert [] == ledger.written, "nothing is decided before it returns"
        look()
        await until(lambda: len(heard.settled) == 7, "all to be settled")
    assert [Settlement.ACK] * 7 == heard.settled
    assert 14 == len(ledger.written), "each is claimed and committed"
    assert 2 == max(later - before for before, later in pairwise(seen))


@pytest.mark.parametrize("at", ["step", "submit"])
async def test_a_fault_at_one_leaves_the_others_of_its_turn_be(
    at: str, app: Fencepost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever brought it hears of the fault; its row is free for the next one."""
    ledger, heard = MemoryLedger(), Heard()
    first, second, third = works(app, 3)
    fault = ValueError("a fault of this program")
    submit = ledger.submit

    def faulty_step(row: Row | None, given: Given, now_ms: int, reading: Reading = CERTAIN) -> Plan:
        if at == "step" and getattr(given, "key", "") == second.key.text:
            raise fault
        return step(row, given, now_ms, reading)

    def faulty_submit(subject: str, *rest: Any) -> None:
        if at == "submit" and subject == second.row_subject:
            raise fault
        submit(subject, *rest)

    async with driving(app, ledger, ToldTime()) as driver:
        with monkeypatch.context() as patched:
            patched.setattr(drive, "step", faulty_step)
            patched.setattr(ledger, "submit", faulty_submit)
            for work in (first, second, third):
                driver.begin(work, RULED, heard)
            await until(lambda: len(heard.settled) == 2, "the others to be settled")
        assert [fault] == heard.errors
        assert Settlement.ACK is (await driver.arrived(second, RULED)).settlement


async def test_what_is_told_after_the_end_is_not_acted_on(app: Fencepost, ran: list[bytes]) -> None:
    """Nothing is begun by a worker that ends: the claim runs out, and another one takes over."""
    heard, ledger = Heard(), NotedLedger()
    ledger.keeps_back = True
    async with driving(app, ledger, ToldTime()) as driver:
        driver.begin(works(app, 1)[0], RULED, heard)
        await until(lambda: len(ledger.kept) == 1, "the claim")
    ledger.kept[0]()
    for _ in range(5):
        await asyncio.sleep(0)
    assert ([], [], 1) == (ran, heard.settled, len(ledger.written))
