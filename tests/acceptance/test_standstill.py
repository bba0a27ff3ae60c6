"""A worker that stood still for a while puts nobody in doubt: real processes, shorter than a lease.

Once a handler blocks the loop, once the whole process is stopped and goes on. Both are longer than
a handler may take, and than the broker has to answer.
"""

import asyncio
import signal
from collections import Counter
from pathlib import Path

import pytest

from fencepost.broker.embedded import EmbeddedBroker
from fencepost_schemas.question import QuestionKind
from fencepost_schemas.row import State
from kit.command import Command, started, toml
from kit.house import house
from kit.pool import SOURCE, event, publish, questions, rows, settle
from kit.wait import until

TIMEOUT_S, STANDS_S = 1.0, 2.5
POOL = {"slots": 8, "handler_timeout_s": TIMEOUT_S, "lease_s": 12.0, "ack_wait_s": 14.0}
NEIGHBOURS = [f"neighbour-{number}" for number in range(6)]
APP = """
import asyncio
import os
import time
from pathlib import Path

from fencepost import Context, Fencepost

app = Fencepost("shop")
SINK, STANDS_S = Path(os.environ["SINK"]), float(os.environ["STANDS_S"])


def note(what: str) -> None:
    sink = os.open(SINK, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(sink, f"{what}\\n".encode())
    os.close(sink)


def begun() -> int:
    return SINK.read_text().count("began")


@app.on("task", name="charge", effect="once")
async def charge(payload: bytes, ctx: Context) -> None:
    note("began")
    if ctx.event.key == "culprit":
        while begun() < 7:
            await asyncio.sleep(0.005)
        time.sleep(STANDS_S)
        return
    await asyncio.sleep(0.3)
    await ctx.emit(type="charged", key=ctx.event.key)
    await asyncio.sleep(0.1)
"""


def write(folder: Path, url: str) -> dict[str, str]:
    """Put the app and its configuration in a folder; return its environment."""
    (folder / "sink").touch()
    (folder / "shop.py").write_text(APP)
    document = {"app": "shop:app", "broker": {"servers": [url], "reply_s": 1.0}, "pool": POOL}
    (folder / "fencepost.toml").write_text(toml({**document, "sources": SOURCE}))
    return {"SINK": str(folder / "sink"), "STANDS_S": str(STANDS_S)}


async def stop_and_go_on(worker: Command, folder: Path) -> None:
    """Stop the process with all its handlers at work, for longer than they may take."""
    began = folder / "sink"
    await until(lambda: began.read_text().count("began") == len(NEIGHBOURS), "all to begin")
    worker.signal(signal.SIGSTOP)
    await asyncio.sleep(STANDS_S)
    worker.signal(signal.SIGCONT)


@pytest.mark.parametrize("stopped", [False, True], ids=["a handler blocks", "SIGSTOP"])
async def test_neighbours_are_applied(
    broker: EmbeddedBroker, tmp_path: Path, stopped: bool
) -> None:
    more = write(tmp_path, broker.url)
    keys = NEIGHBOURS if stopped else ["culprit", *NEIGHBOURS]
    async with house(broker, SOURCE, pool=POOL) as home:
        await home.init()
        await publish(home, *(event(key, key) for key in keys))
        async with started("worker", folder=tmp_path, more=more) as worker:
            if stopped:
                await stop_and_go_on(worker, tmp_path)
            await settle(home)
            stand = await rows(home)
            asked = await questions(home, QuestionKind.DOUBT)
            worker.signal(signal.SIGTERM)
            assert (await worker.ended()).code == 0
    assert Counter({State.APPLIED: len(keys)}) == Counter(row.state for row in stand.values())
    assert {1} == {row.attempt for row in stand.values()}
    assert [] == asked
