"""An attempt is stopped at the end of its time or before its lease ends, and by nothing else."""

import asyncio
import contextlib

import msgspec
import pytest

from fencepost.pool.limits import Limit, Limits
from fencepost.settings import Pool

POOL = Pool(handler_timeout_s=0.05, lease_s=60.0, ack_wait_s=90.0)


async def forever() -> None:
    await asyncio.Event().wait()


async def test_a_handler_over_its_time_is_stopped_and_its_limit_says_so() -> None:
    limit = Limit(lambda: 60.0)
    with pytest.raises(TimeoutError):
        await Limits(POOL).hold(forever(), limit)
    assert limit.text == "ran into its limit of 0.05 s"
    assert _cancellations() == 0


async def test_a_lease_that_is_renewed_meanwhile_does_not_stop_its_handler() -> None:
    """The look that its lease called for finds a longer one, and comes back at the end of that."""
    pool = msgspec.structs.replace(POOL, handler_timeout_s=60.0)
    left_s = [10.05]
    limit, ended = Limit(lambda: left_s[0]), asyncio.Event()
    held = asyncio.create_task(Limits(pool).hold(_until(ended), limit))
    await asyncio.sleep(0)
    left_s[0] = 11.0
    done, _ = await asyncio.wait({held}, timeout=0.15)
    assert not done
    left_s[0] = 0.0
    ended.set()
    assert await held == "ended"
    assert limit.text == ""


async def test_a_lease_that_ends_stops_its_handler_before_its_end() -> None:
    pool = msgspec.structs.replace(POOL, handler_timeout_s=60.0)
    limit = Limit(lambda: pool.cancel_before_s)
    with pytest.raises(TimeoutError):
        await Limits(pool).hold(forever(), limit)
    assert limit.text == "its lease could not be renewed, so it was stopped"


async def test_one_timer_stops_each_at_its_own_time() -> None:
    pool = msgspec.structs.replace(POOL, handler_timeout_s=60.0)
    limits, order = Limits(pool), list[str]()

    async def hold(name: str, left_s: float) -> None:
        at_s = asyncio.get_running_loop().time() + left_s + pool.cancel_before_s
        limit = Limit(lambda: at_s - asyncio.get_running_loop().time())
        with pytest.raises(TimeoutError):
            await limits.hold(forever(), limit)
        order.append(name)

    await asyncio.gather(hold("late", 0.09), hold("early", 0.03), hold("between", 0.06))
    assert order == ["early", "between", "late"]


async def test_a_worker_that_ends_is_not_taken_for_a_limit() -> None:
    limit = Limit(lambda: 60.0)
    pool = msgspec.structs.replace(POOL, handler_timeout_s=60.0)
    held = asyncio.create_task(Limits(pool).hold(forever(), limit))
    await asyncio.sleep(0)
    held.cancel()
    with pytest.raises(asyncio.CancelledError):
        await held
    assert limit.text == ""


async def test_a_worker_that_ends_at_the_limit_still_ends() -> None:
    """Both cancel at once: the limit takes back its own word only, and the task is cancelled."""
    limits, limit = Limits(POOL), Limit(lambda: 60.0)

    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            held.cancel()
            raise

    held = asyncio.create_task(limits.hold(stubborn(), limit))
    with pytest.raises(asyncio.CancelledError):
        await held
    assert limit.text


async def test_a_handler_that_ends_well_though_stopped_has_its_result() -> None:
    async def stubborn() -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "done after all"

    limit = Limit(lambda: 60.0)
    assert await Limits(POOL).hold(stubborn(), limit) == "done after all"
    assert _cancellations() == 0


async def _until(ended: asyncio.Event) -> str:
    await ended.wait()
    return "ended"


def _cancellations() -> int:
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling()


async def test_a_lease_that_ended_while_the_machine_was_suspended_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The loop's time stood still meanwhile, so no timer of it would have come for long."""
    monkeypatch.setattr("fencepost.pool.limits.LOOK_S", 0.01)
    pool = msgspec.structs.replace(POOL, handler_timeout_s=600.0, lease_s=900.0, ack_wait_s=1000.0)
    left_s = [900.0]
    limit = Limit(lambda: left_s[0])
    held = asyncio.create_task(Limits(pool).hold(forever(), limit))
    await asyncio.sleep(0)
    left_s[0] = -60.0
    with pytest.raises(TimeoutError, match="its lease could not be renewed"):
        async with asyncio.timeout(20):
            await held
