"""A claim whose reply comes late: the handler does not begin once its lease is over."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from fencepost import Context, Fencepost
from fencepost.ledgers.told import write_and_wait
from fencepost.ports import Found, Told, Written
from fencepost_policies.plan import Settlement
from fencepost_schemas.row import Row, State
from kit.driver import LEASE_MS, RULED, ToldTime, driving, work_for
from kit.pool import event


class SlowLedger:
    """Takes each write, and takes its time to say so."""

    def __init__(self, time: ToldTime, takes_ms: int) -> None:
        self.rows: list[Row] = []
        self._time = time
        self._takes_ms = takes_ms

    def submit(self, subject: str, row: Row, expect: int, told: Told) -> None:
        self.rows.append(row)
        asyncio.get_running_loop().call_soon(self._tell, told, len(self.rows))

    async def write(self, subject: str, row: Row, expect: int) -> Written | Found:
        return await write_and_wait(self, subject, row, expect)

    def _tell(self, told: Told, revision: int) -> None:
        self._time.ms += self._takes_ms
        told(Written(revision))

    async def read(self, subject: str) -> Found:
        return Found(self.rows[-1], len(self.rows)) if self.rows else Found(None, 0)

    async def confirm(self) -> None: ...

    async def identity(self) -> str | None:
        return "one"

    async def run(self) -> None:
        await asyncio.Event().wait()


Play = Callable[[int], Awaitable[tuple[Settlement, list[State], int]]]


@pytest.fixture
def play() -> Play:
    """Return what settles, which states the row goes through, and how often the handler ran."""

    async def played(takes_ms: int) -> tuple[Settlement, list[State], int]:
        ran: list[int] = []
        app = Fencepost("shop")

        @app.on("task")
        async def charge(payload: bytes, ctx: Context) -> None:
            ran.append(ctx.attempt)

        time = ToldTime()
        ledger = SlowLedger(time, takes_ms)
        async with driving(app, ledger, time) as driver:
            done = await driver.arrived(work_for(app, "charge", event()), RULED)
        return done.settlement, [row.state for row in ledger.rows], len(ran)

    return played


async def test_in_time(play: Play) -> None:
    """A slow reply is no reason to hesitate, as long as the lease runs."""
    assert (Settlement.ACK, [State.STARTED, State.APPLIED], 1) == await play(LEASE_MS - 1)


async def test_too_late(play: Play) -> None:
    """Another worker may have asked whether it happened, and been told that it did not."""
    assert (Settlement.LATER, [State.STARTED, State.RETRY_WAIT], 0) == await play(LEASE_MS)
