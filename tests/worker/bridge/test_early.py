"""A loss that a source proves is told at once, and not with the next event."""

import logging
from typing import Any

import msgspec
import pytest

from fencepost import Fencepost
from fencepost.broker.embedded import EmbeddedBroker
from fencepost.desk.lineages import Lineages
from fencepost_schemas.cursor import KnownLoss
from fencepost_schemas.subject import EVENTS
from fencepost_schemas.verdict import EpochRecord, Gap
from kit.command import configure, run_command
from kit.gaps import Refills, reconciling
from kit.house import House, house
from kit.orders import RESET, TOKENS, TWO, live, orders, see
from kit.source import End, Reply, ScriptedSource, stream
from kit.wait import until

GONE = {**TOKENS, "reset_comments": ["^410:"]}
QUIET = {"gen": "g", "floor": "202"}
"""The second connection's headers: what follows 2 is gone up to 201, and nothing comes."""


async def loss(home: House) -> KnownLoss | None:
    return (await home.cursor()).loss


async def see_loss(home: House) -> KnownLoss:
    """Return what is known to be gone, once it is."""

    async def known() -> bool:
        return await loss(home) is not None

    await until(known, "the loss to be told")
    found = await loss(home)
    assert found is not None
    return found


async def early_records(home: House) -> list[EpochRecord]:
    scan = home.connection.scan(EVENTS, home.subjects.epochs_of("orders"))
    records = [msgspec.json.decode(one.payload, type=EpochRecord) async for one in scan]
    return [record for record in records if record.early]


@pytest.mark.parametrize(
    ("plain", "replies", "reasons"),
    [
        (TOKENS, (live(**QUIET),), {"window_exceeded"}),
        (TOKENS, (live(gen="h", floor="1"),), {"generation_changed"}),
        (TOKENS, (live(gen="h", floor="202"),), {"generation_changed"}),
        (RESET, (Reply(status=410), live(gen="g", floor="1")), {"reset_status"}),
        (GONE, (stream(b":410: Gone\n\n", end=End.HANG, gen="g", floor="1"),), {"reset_comment"}),
    ],
    ids=["window", "generation", "both", "status", "comment"],
)  # fmt: skip
async def test_what_is_said_before_any_event_is_told(
    broker: EmbeddedBroker,
    plain: dict[str, Any],
    replies: tuple[Reply, ...],
    reasons: set[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """In the cursor, in what the desk says of the source, and once in the log."""
    async with (
        ScriptedSource(TWO, *replies) as source,
        house(broker, orders(source.url, plain=plain)) as home,
    ):
        await home.init()
        with caplog.at_level(logging.WARNING, "fencepost.bridge"):
            async with home.bridge():
                await see(home, 2)
                told = await see_loss(home)
                (entry,) = await Lineages(home.connection, home.subjects).entries(["orders"])
        assert reasons <= {reason.value for reason in told.reasons}
        assert entry.loss == told and not entry.fine
        (record,) = await early_records(home)
        cursor = await home.cursor()
        assert Gap(cursor.generation, "2", "", "", missing=told.missing) == record.gap
        assert ["genesis"] == await home.verdicts()
    assert 1 == sum("does not have what follows 2" in line for line in caplog.messages)


async def test_the_next_event_brings_the_verdict_and_takes_the_note_back(
    broker: EmbeddedBroker,
) -> None:
    """The generation begins with an event, as always; its gap has an end."""
    script = (TWO, live(**QUIET), live(("300", '{"k":"c"}'), **QUIET), live(**QUIET))
    async with ScriptedSource(*script) as source, house(broker, orders(source.url)) as home:
        await home.init()
        async with home.bridge():
            await see(home, 2)
            await see_loss(home)
            source.cut()
            await see(home, 3)
        assert ["genesis", "reoriginated"] == await home.verdicts()
        assert await loss(home) is None
        _, second = await home.records()
        assert second.gap is not None and "300" == second.gap.before_position


async def test_a_replica_that_is_the_right_one_again_takes_the_note_back(
    broker: EmbeddedBroker,
) -> None:
    """It goes on behind what we have, so nothing was lost; the same note is not written again."""
    wrong = live(gen="h", floor="1")
    right = live(("3", '{"k":"c"}'), gen="g", floor="1")
    script = (TWO, wrong, wrong, right, live(gen="g", floor="1"))
    async with ScriptedSource(*script) as source, house(broker, orders(source.url)) as home:
        await home.init()
        async with home.bridge():
            await see(home, 2)
            await see_loss(home)
            source.cut()  # and each one that follows
            await see(home, 3)
        assert ["genesis", "resumed"] == await home.verdicts()
        assert await loss(home) is None
        assert 1 == len(await early_records(home))


async def test_the_note_survives_its_bridge(broker: EmbeddedBroker) -> None:
    """Another bridge takes the source over and finds it written down."""
    script = (TWO, live(**QUIET), live(**QUIET))
    async with ScriptedSource(*script) as source, house(broker, orders(source.url)) as home:
        await home.init()
        async with home.bridge():
            await see(home, 2)
            told = await see_loss(home)
        async with home.bridge():
            await source.asked_times(3)
            assert told == await loss(home)
        assert 1 == len(await early_records(home))


async def test_the_reconciler_is_called_at_once_and_again_when_the_end_is_known(
    broker: EmbeddedBroker,
) -> None:
    """What comes between the two calls is in the second one."""
    refills = Refills()
    app = reconciling(Fencepost("shop"), refills)
    script = (TWO, live(**QUIET), live(("300", '{"k":"c"}'), **QUIET), live(**QUIET))
    async with ScriptedSource(*script) as source, house(broker, orders(source.url)) as home:
        await home.init()
        async with home.worker(app):

            async def listening() -> bool:
                info = await home.connection.api(f"CONSUMER.INFO.{EVENTS}.fp-shop-gaps-orders")
                return "error" not in info

            await until(listening, "the reconciler's consumer")
            async with home.bridge():
                await see(home, 2)
                await refills.called.wait()
                assert [("2", "")] == [
                    (gap.after_position, gap.before_position) for gap in refills.gaps
                ]
                source.cut()
                await until(lambda: len(refills.gaps) == 2, "the second call")
    assert [("2", ""), ("2", "300")] == [
        (gap.after_position, gap.before_position) for gap in refills.gaps
    ]


async def test_sources_ls_ends_with_1(broker: EmbeddedBroker, tmp_path: Any) -> None:
    """Somebody who looks, or a script that does, hears of it before the next event."""
    async with (
        ScriptedSource(TWO, live(**QUIET)) as source,
        house(broker, orders(source.url)) as home,
    ):
        await home.init()
        configure(tmp_path, broker.url, orders(source.url))
        async with home.bridge(shares=True):
            await see(home, 2)
            before = await run_command("sources", "ls", folder=tmp_path)
            await see_loss(home)
            ran = await run_command("sources", "ls", folder=tmp_path)
            shown = await run_command("sources", "show", "orders", folder=tmp_path)
    assert before.code in (0, 1)
    assert (1, 1) == (ran.code, shown.code)
    for out in (ran.out, shown.out):
        assert "events are gone since the last one (window_exceeded)" in out
