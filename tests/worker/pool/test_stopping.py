"""A worker that is told to stop: what has come is seen through, and what goes wrong is told."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from fencepost import Context, NotApplied
from fencepost.errors import Denied, LedgerDiffers, NotFine
from fencepost.pool.crash_points import Crash
from fencepost.pool.deliveries import Deliveries
from fencepost.pool.intake import Intake
from fencepost.ports import Delivery, Pull
from fencepost_schemas.row import State
from fencepost_schemas.subject import EVENTS
from kit.anywhere import play_in_memory
from kit.house import House
from kit.lives import Life
from kit.pool import CrashAt
from kit.wait import until
from kit.wires import Wire

DRAIN_S = 20.0
POOL: dict[str, Any] = {
    "drain_s": DRAIN_S,
    "handler_timeout_s": 20.0,
    "lease_s": 25.0,
    "ack_wait_s": 30.0,
}


class LatePull:
    """A pull that brings its first message in the very moment in which no more are asked for."""

    def __init__(self, inner: Pull, kept: list[Delivery], take: Callable[[Delivery], None]) -> None:
        self._inner = inner
        self._kept = kept
        self._take = take

    @property
    def gone(self) -> asyncio.Event:
        return self._inner.gone

    async def open(self) -> None:
        await self._inner.open()

    async def want(self, count: int) -> None:
        await self._inner.want(count)

    async def close(self) -> None:
        self._take(self._kept[0])
        await self._inner.close()


class DeafPull(LatePull):
    """A pull whose first asking swallows a cancellation, as the client library's flush does."""

    deaf = True

    async def want(self, count: int) -> None:
        if self.deaf:
            self.deaf = False
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    async def close(self) -> None:
        await self._inner.close()


class DeafOnce(Wire):
    def puller(self, stream: str, consumer: str, take: Callable[[Delivery], None]) -> Pull:
        return DeafPull(super().puller(stream, consumer, take), [], take)


class FailingPull(LatePull):
    """A pull that fails once it is told to."""

    def __init__(self, inner: Pull, take: Callable[[Delivery], None], wire: "Failing") -> None:
        super().__init__(inner, [], take)
        self._wire = wire

    async def want(self, count: int) -> None:
        if self._wire.error is not None:
            raise self._wire.error
        await self._inner.want(count)

    async def close(self) -> None:
        await self._inner.close()


class Failing(Wire):
    """The next asking for messages fails with this error, if there is one."""

    def __init__(self) -> None:
        super().__init__()
        self.error: Exception | None = None

    def puller(self, stream: str, consumer: str, take: Callable[[Delivery], None]) -> Pull:
        return FailingPull(super().puller(stream, consumer, take), take, self)


class LateEvent(Wire):
    """Keeps the first event back until the worker stops."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Delivery] = []

    def puller(self, stream: str, consumer: str, take: Callable[[Delivery], None]) -> Pull:
        if stream != EVENTS:
            return super().puller(stream, consumer, take)
        return LatePull(super().puller(stream, consumer, self.kept.append), self.kept, take)


@pytest.mark.parametrize(("point", "nth"), [("ran", 1), ("written", 2)])
def test_a_fault_behind_the_stop_is_told_at_once(point: str, nth: int) -> None:
    """Wherever it strikes: in what sees to the event, or in what decides on all of them."""

    async def play(home: House) -> float:
        loop, going_on = asyncio.get_running_loop(), asyncio.Event()
        life = Life(home, "once")

        async def wait(ctx: Context) -> None:
            await going_on.wait()

        life.before = wait
        await life.comes()
        async with life.worker(reached=CrashAt(point, nth)) as running:
            await life.begun.wait()
            loop.call_soon(going_on.set)
            began_s = loop.time()
        assert isinstance(running.exception(), Crash)
        return loop.time() - began_s

    assert play_in_memory(play, 1, pool=POOL) < DRAIN_S / 4


def test_what_comes_at_the_very_end_is_seen_through() -> None:
    async def play(home: House) -> list[State]:
        life, wire = Life(home, "once"), LateEvent()
        await life.comes()
        async with life.worker(wire=wire) as running:
            await until(lambda: bool(wire.kept), "the event to be kept back")
        running.result()
        return [row.state for row in await life.rows()]

    assert [State.APPLIED] == play_in_memory(play, 1, pool=POOL)


def test_a_fault_at_the_very_end_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nobody waits for what could not be begun."""
    fault = ValueError("a fault of this program")

    def begin(self: Deliveries, intake: Intake, messages: Sequence[Delivery]) -> None:
        raise fault

    async def play(home: House) -> BaseException | None:
        life, wire = Life(home, "once"), LateEvent()
        await life.comes()
        monkeypatch.setattr(Deliveries, "begin", begin)
        async with life.worker(wire=wire) as running:
            await until(lambda: bool(wire.kept), "the event to be kept back")
        return running.exception()

    assert fault is play_in_memory(play, 1, pool=POOL)


def test_who_did_not_hear_that_it_is_to_stop_is_told_again() -> None:
    async def play(home: House) -> bool:
        async with Life(home, "once").worker(wire=DeafOnce()) as running:
            await asyncio.sleep(1.0)
        return running.done()

    assert play_in_memory(play, 1, pool=POOL)


@pytest.mark.parametrize(
    "error",
    [
        NotFine("the broker has no stream"),
        Denied("no right to ask"),
        LedgerDiffers("another ledger"),
        ValueError("a fault of this program"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_ends_a_worker_lets_what_runs_come_to_its_end(error: Exception) -> None:
    """Nothing is in doubt because something else failed, and the reason is told at the end."""

    async def play(home: House) -> tuple[BaseException | None, list[State]]:
        life, wire, go = Life(home, "once"), Failing(), asyncio.Event()

        async def wait(ctx: Context) -> None:
            await go.wait()

        life.before = wait
        await life.comes()
        async with life.worker(wire=wire) as running:
            await life.begun.wait()
            wire.error = error
            asyncio.get_running_loop().call_later(5.0, go.set)
            await asyncio.wait([running])
        return running.exception(), [row.state for row in await life.rows()]

    assert (error, [State.APPLIED]) == play_in_memory(play, 1, pool=POOL)


def test_a_worker_whose_ledger_is_another_one_starts_nothing_more() -> None:
    """What waits behind the attempt that runs comes again, to a worker that may start it."""

    async def play(home: House) -> list[int]:
        life, wire, go = Life(home, "idempotent"), Failing(), asyncio.Event()

        async def fail(ctx: Context) -> None:
            await go.wait()
            raise NotApplied("no connection")

        life.before = fail
        await life.comes()
        async with life.worker(wire=wire) as running:
            await life.begun.wait()
            wire.error = LedgerDiffers("another ledger")
            asyncio.get_running_loop().call_later(5.0, go.set)
            await asyncio.wait([running])
        return life.started

    assert [1] == play_in_memory(play, 1, pool={**POOL, "retry_first_s": 0.01})
