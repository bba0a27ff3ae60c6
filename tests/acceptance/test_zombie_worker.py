"""A worker that was frozen past its leases comes back and finds that the world has gone on.

Real processes, SIGSTOP and SIGCONT. For each effect: what its successor made of the event stands,
and the zombie neither changes a row nor takes an event away.
"""

import signal
from collections import Counter
from pathlib import Path

from fencepost.broker.embedded import EmbeddedBroker
from fencepost_schemas.question import QuestionKind
from fencepost_schemas.row import State
from kit.command import started, toml
from kit.house import house
from kit.pool import SOURCE, event, publish, questions, settle
from kit.wait import until

HANDLERS = ("once", "barred", "keyed", "idempotent")
POOL = {"slots": 8, "handler_timeout_s": 5.0, "lease_s": 1.5, "ack_wait_s": 2.0}
APP = """
import asyncio
import os
from pathlib import Path

from fencepost import Context, Fencepost

app = Fencepost("shop")
HOLD, SINK = Path(os.environ["HOLD"]), os.environ["SINK"]


def note(what: str, ctx: Context) -> None:
    sink = os.open(SINK, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(sink, f"{what} {ctx.handler} {ctx.attempt} {ctx.idempotency_key}\\n".encode())
    os.close(sink)


async def held(ctx: Context) -> None:
    note("began", ctx)
    while HOLD.exists():
        await asyncio.sleep(0.005)


@app.on("task.once", name="once")
async def once(payload: bytes, ctx: Context) -> None:
    await held(ctx)
    note("effect", ctx)


@app.on("task.barred", name="barred", barrier=True)
async def barred(payload: bytes, ctx: Context) -> None:
    await held(ctx)
    async with ctx.effect():
        note("effect", ctx)


@app.on("task.keyed", name="keyed", effect="keyed", sink_retention_s=600)
async def keyed(payload: bytes, ctx: Context) -> None:
    await held(ctx)
    note("effect", ctx)


@app.on("task.idempotent", name="idempotent", effect="idempotent")
async def idempotent(payload: bytes, ctx: Context) -> None:
    await held(ctx)
    note("effect", ctx)
"""


def noted(sink: Path, what: str) -> list[tuple[str, int, str]]:
    lines = [line.split() for line in sink.read_text().splitlines()]
    return [(handler, int(attempt), key) for word, handler, attempt, key in lines if word == what]


async def test_a_frozen_worker_comes_back_to_nothing(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """In doubt for `once`, done by the successor for all others, and no event lost or left over."""
    sink, hold = tmp_path / "sink", tmp_path / "hold"
    sink.touch()
    hold.touch()
    (tmp_path / "shop.py").write_text(APP)
    document = {"app": "shop:app", "broker": {"servers": [broker.url]}, "pool": POOL}
    (tmp_path / "fencepost.toml").write_text(toml({**document, "sources": SOURCE}))
    more = {"SINK": str(sink), "HOLD": str(hold)}
    async with house(broker, SOURCE, pool=POOL) as home:
        await home.init()
        await publish(home, *(event(name, name, type=f"task.{name}") for name in HANDLERS))
        async with started("worker", folder=tmp_path, more=more) as zombie:
            await until(lambda: len(noted(sink, "began")) == 4, "every handler to begin")
            zombie.signal(signal.SIGSTOP)
            hold.unlink()
            async with started("worker", folder=tmp_path, more=more) as successor:
                await settle(home)
                before = {row.handler: row for row in await home.rows()}
                # Ended properly, so that it has said all that it had to say.
                zombie.signal(signal.SIGTERM)
                zombie.signal(signal.SIGCONT)
                assert (await zombie.ended()).code == 0
                await settle(home)
                after = {row.handler: row for row in await home.rows()}
                asked = await questions(home, QuestionKind.DOUBT)
                successor.signal(signal.SIGTERM)
                assert (await successor.ended()).code == 0
    assert before == after
    assert {name: row.state for name, row in after.items()} == {
        "once": State.IN_DOUBT,
        "barred": State.APPLIED,
        "keyed": State.APPLIED,
        "idempotent": State.APPLIED,
    }
    assert 1 == len(asked)
    effects = Counter(handler for handler, _, _ in noted(sink, "effect"))
    assert 1 == effects["barred"], "nobody comes through a barrier with a lease that is over"
    assert effects["once"] <= 1
    keys = {key for handler, _, key in noted(sink, "effect") if handler == "keyed"}
    assert 1 == len(keys), "the receiver sees the same key again"
