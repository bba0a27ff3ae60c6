"""What happens to a piece of work from outside leaves its row and its slot to the next one."""

import asyncio
from typing import Any

from fencepost import Context
from fencepost.broker.embedded import EmbeddedBroker
from fencepost_schemas.row import State
from kit.house import house
from kit.pool import SHORT, SOURCE, Runs, app_with, event, publish, settle, states, working

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
