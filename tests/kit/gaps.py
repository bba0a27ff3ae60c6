"""Gaps, and apps that fill them."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from fencepost import Context, Fencepost, Gap
from fencepost.pool.work import row_subject
from fencepost.ports import Message, Stored
from fencepost_schemas.row import Row, decode_row
from fencepost_schemas.standing import Standing
from fencepost_schemas.subject import EVENTS, LEDGER
from fencepost_schemas.verdict import EpochRecord, Verdict, gap_id
from kit.house import House
from kit.pool import FIRST, SECOND, all_acked
from kit.wait import until

GAP = Gap(FIRST, "1", SECOND, "9")
JOIN_GAP = Gap(FIRST, "3", FIRST, "5", exact=True)

Refill = Callable[[Gap, Context], Awaitable[None]]


async def publish_record(
    home: House,
    *,
    gap: Gap | None = GAP,
    join_gap: Gap | None = None,
    generation: str = SECOND,
    source: str = "orders",
) -> None:
    """Store a verdict's record as a bridge would have."""
    record = EpochRecord(
        source=source,
        generation=generation,
        parent=FIRST,
        verdict=Verdict(Standing.UNVERIFIABLE, ()),
        standing=Standing.UNVERIFIABLE,
        gap=gap,
        ledger="",
        bridge="test",
        at_ms=0,
        join_gap=join_gap,
    )
    subject = home.subjects.epoch(source, generation)
    stored = await home.connection.store(Message(subject, msgspec.json.encode(record)))
    assert isinstance(stored, Stored)


class Refills:
    """What a reconciler was called with."""

    def __init__(self) -> None:
        self.gaps: list[Gap] = []
        self.attempts: list[int] = []
        self.called = asyncio.Event()


async def emit_missed(gap: Gap, ctx: Context) -> None:
    """Emit two tasks, in the bytes in which the source would have brought them."""
    for key in ("missed", "other"):
        await ctx.emit(type="task", key=key, data={"k": key})


def reconciling(
    app: Fencepost, refills: Refills, refill: Refill = emit_missed, *, attempts: int = 5
) -> Fencepost:
    """Give the app a reconciler of `orders`, which notes its gaps."""

    @app.reconcile("orders", attempts=attempts)
    async def fill(gap: Gap, ctx: Context) -> None:
        refills.gaps.append(gap)
        refills.attempts.append(ctx.attempt)
        refills.called.set()
        await refill(gap, ctx)

    return app


async def register(home: House, app: Fencepost) -> None:
    """Run a worker of the app until its consumers of gaps are there."""

    async def there() -> bool:
        for source in app.reconcilers:
            name = f"fp-{app.name}-gaps-{source}"
            if "error" in await home.connection.api(f"CONSUMER.INFO.{EVENTS}.{name}"):
                return False
        return True

    async with home.worker(app):
        await until(there, "the consumers of gaps")


async def filled(home: House, app: str = "shop") -> None:
    """Return once every record of gaps is acked, and every event behind them."""
    await all_acked(home, [(EVENTS, f"fp-{app}-gaps-orders"), (EVENTS, f"fp-{app}")])


async def gap_row(home: House, gap: Gap = GAP) -> Row:
    """Return the row of a gap of `orders`."""
    subject = row_subject(home.subjects, "fill", "orders", f"k:{gap_id('orders', gap)}")
    stored = await home.connection.last(LEDGER, subject)
    assert stored is not None, "the gap has no row"
    return decode_row(stored.payload)
