"""The ledger's port on a real broker: what a write, a conflict and a read mean, trouble or not."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from fencepost.broker.embedded import EmbeddedBroker
from fencepost.broker.jetstream import connect
from fencepost.errors import LedgerDiffers, NotFine
from fencepost.ledgers.kv import KvLedger, ensure_identity
from fencepost.ports import Found, Ledger, Message, NotStored, Written
from fencepost.settings_file import login_for
from fencepost_schemas.limits import BATCH_ATOMIC_MIN, BATCH_MESSAGES_MAX
from fencepost_schemas.row import Effect, Row, State, UnknownRowVersion
from fencepost_schemas.standing import Standing
from fencepost_schemas.subject import LEDGER, digest_token
from kit.house import House, house
from kit.pool import SOURCE, Runs, app_with
from kit.wait import until

BASE = Row(
    state=State.STARTED,
    handler="charge",
    namespace="orders",
    key="",
    fingerprint="f",
    effect=Effect.ONCE,
    standing=Standing.GENESIS,
    source="orders",
    generation="0001-aaaaaaaa",
    position="1",
    first_seen_ms=1,
    changed_ms=1,
    attempt=1,
)


def row(key: str, claim: str = "first") -> Row:
    return msgspec.structs.replace(BASE, key=key, claim=claim)


def subject(home: House, key: str) -> str:
    return home.subjects.row("charge", "orders", digest_token("charge", "orders", key))


@asynccontextmanager
async def ledger(home: House, retention_s: int = 0) -> AsyncIterator[Ledger]:
    """Run a ledger on a connection of its own."""
    login = login_for(home.settings.broker, "worker")
    connection = await connect(home.settings.broker, login, "worker")
    made = KvLedger(connection, home.subjects, retention_s)
    running = asyncio.create_task(made.run())
    try:
        yield made
        if running.done():
            running.result()
    finally:
        running.cancel()
        with contextlib.suppress(BaseException):
            await running
        await connection.close()


# --- the port -----------------------------------------------------------------------------------
async def test_a_row_is_written_where_none_stands_and_then_by_its_revision(
    broker: EmbeddedBroker,
) -> None:
    """Absent, insert, update, and each time the revision that the next write must expect."""
    async with house(broker, SOURCE) as home:
        await home.init()
        async with ledger(home) as kept:
            place = subject(home, "a")
            assert await kept.read(place) == Found(None, 0)
            inserted = await kept.write(place, row("a"), 0)
            assert isinstance(inserted, Written)
            assert await kept.read(place) == Found(row("a"), inserted.revision)
            updated = await kept.write(place, row("a", "second"), inserted.revision)
            assert isinstance(updated, Written)
            assert updated.revision > inserted.revision
            assert await kept.read(place) == Found(row("a", "second"), updated.revision)


async def test_a_ledger_that_forgets_keeps_what_is_open(broker: EmbeddedBroker) -> None:
    """A decided row goes after its time, an open one stays; the key is absent again then."""
    async with house(broker, SOURCE) as home:
        await home.init()
        async with ledger(home, retention_s=1) as kept:
            done, still = subject(home, "done"), subject(home, "open")
            await kept.write(still, row("open"), 0)
            first = await kept.write(done, row("done"), 0)
            assert isinstance(first, Written)
            applied = msgspec.structs.replace(row("done"), state=State.APPLIED)
            await kept.write(done, applied, first.revision)
            assert applied == (await kept.read(done)).row

            async def forgotten() -> bool:
                return (await kept.read(done)).row is None

            await until(forgotten, "the decided row to expire")
            assert row("open") == (await kept.read(still)).row
            assert isinstance(await kept.write(done, row("done", "second"), 0), Written)


@pytest.mark.parametrize("expect", ["absent", "an older revision", "one that never was"])
async def test_a_conflict_returns_what_stands(broker: EmbeddedBroker, expect: str) -> None:
    """The loser is told the row and its revision, and what stands is not touched."""
    async with house(broker, SOURCE) as home:
        await home.init()
        async with ledger(home) as kept:
            place = subject(home, "a")
            first = await kept.write(place, row("a"), 0)
            assert isinstance(first, Written)
            second = await kept.write(place, row("a", "second"), first.revision)
            assert isinstance(second, Written)
            expected = {"absent": 0, "an older revision": first.revision}.get(expect, 10**6)
            lost = await kept.write(place, row("a", "third"), expected)
            assert lost == Found(row("a", "second"), second.revision)
            assert await kept.read(place) == lost


async def test_a_write_that_expects_a_row_where_none_stands_is_told_so(
    broker: EmbeddedBroker,
) -> None:
    """A row can never come into being by an update: that would be a ledger that lost its past."""
    async with house(broker, SOURCE) as home:
        await home.init()
        async with ledger(home) as kept:
            assert await kept.write(subject(home, "a"), row("a"), 7) == Found(None, 0)
            assert await kept.read(subject(home, "a")) == Found(None, 0)


SIZES = [1, 5, BATCH_ATOMIC_MIN, 500, BATCH_MESSAGES_MAX + 1]


@pytest.mark.parametrize("size", SIZES)
async def test_in_a_batch_each_loser_is_told_the_truth_and_each_winner_written_once(
    broker: EmbeddedBroker, size: int
) -> None:
    """Every third row stands already; all writes go at once, as inserts."""
    async with house(broker, SOURCE) as home:
        await home.init()
        async with ledger(home) as kept:
            taken = [str(number) for number in range(0, size, 3)]
            before = await asyncio.gather(
                *(kept.write(subject(home, key), row(key, "before"), 0) for key in taken)
            )
            revisions = {key: result.revision for key, result in zip(taken, before, strict=True)}
            keys = [str(number) for number in range(size)]
            results = await asyncio.gather(
                *(kept.write(subject(home, key), row(key, f"own {key}"), 0) for key in keys)
            )
        held = {
            found.subject: (found.sequence, msgspec.json.decode(found.payload, type=Row))
            async for found in home.connection.scan(LEDGER, home.subjects.rows())
        }
        info = await home.connection.api(f"STREAM.INFO.{LEDGER}")
    for key, result in zip(keys, results, strict=True):
        revision, stands = held[subject(home, key)]
        if key in revisions:
            assert result == Found(row(key, "before"), revisions[key])
            assert stands.claim == "before"
        else:
            assert result == Written(revision)
            assert stands.claim == f"own {key}"
    identity = 1
    assert info["state"]["last_seq"] == size + identity, "something was written twice"


@pytest.mark.parametrize("size", [3, 40])
async def test_two_writes_of_one_row_in_one_burst_are_decided_in_their_order(
    broker: EmbeddedBroker, size: int
) -> None:
    """The first insert wins, the second is told so; others around them are not disturbed."""
    async with house(broker, SOURCE) as home:
        await home.init()
        async with ledger(home) as kept:
            claims = [f"claim {number}" for number in range(size)]
            results = await asyncio.gather(
                *(kept.write(subject(home, "a"), row("a", claim), 0) for claim in claims),
                *(kept.write(subject(home, claim), row(claim), 0) for claim in claims),
            )
    first, losers, others = results[0], results[1:size], results[size:]
    assert isinstance(first, Written)
    assert losers == [Found(row("a", "claim 0"), first.revision)] * (size - 1)
    assert all(isinstance(result, Written) for result in others)


async def test_of_two_ledgers_exactly_one_wins_each_row(broker: EmbeddedBroker) -> None:
    """Two processes race for the same 200 keys: one writes each, the other is shown its row."""
    async with house(broker, SOURCE) as home:
        await home.init()
        async with ledger(home) as ours, ledger(home) as theirs:
            keys = [str(number) for number in range(200)]

            async def race(
                kept: Ledger, claim: str, order: list[str]
            ) -> dict[str, Written | Found]:
                results = await asyncio.gather(
                    *(kept.write(subject(home, key), row(key, claim), 0) for key in order)
                )
                return dict(zip(order, results, strict=True))

            one, two = await asyncio.gather(
                race(ours, "ours", keys), race(theirs, "theirs", keys[::-1])
            )
    for key in keys:
        won = [result for result in (one[key], two[key]) if isinstance(result, Written)]
        lost = [result for result in (one[key], two[key]) if isinstance(result, Found)]
        assert len(won) == len(lost) == 1
        winner = "ours" if isinstance(one[key], Written) else "theirs"
        assert lost == [Found(row(key, winner), won[0].revision)]


@pytest.mark.parametrize("size", [3, 300])
async def test_a_broker_that_is_killed_in_the_middle_leaves_no_write_untold(
    broker: EmbeddedBroker, size: int
) -> None:
    """Killed with writes in flight and started again: each ends written, and stands as it was."""
    async with house(broker, SOURCE, broker={"reply_s": 1.0}) as home:
        await home.init()
        async with ledger(home) as kept:
            keys = [str(number) for number in range(size)]
            writes = [
                asyncio.create_task(kept.write(subject(home, key), row(key, key), 0))
                for key in keys
            ]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            await broker.kill()
            await broker.start()
            results = await asyncio.gather(*writes)
            standing = [await kept.read(subject(home, key)) for key in keys]
    for key, result, stands in zip(keys, results, standing, strict=True):
        assert result == Written(stands.revision)
        assert stands.row == row(key, key)


async def test_a_ledger_out_of_reach_keeps_its_writers_waiting(broker: EmbeddedBroker) -> None:
    """Closed, never open: no write returns while the broker is away, all do once it is back."""
    async with house(broker, SOURCE, broker={"reply_s": 0.3}) as home:
        await home.init()
        async with ledger(home) as kept:
            await broker.kill()
            few = [
                asyncio.create_task(kept.write(subject(home, key), row(key), 0)) for key in "abc"
            ]
            reading = asyncio.create_task(kept.read(subject(home, "a")))
            _, waiting = await asyncio.wait([*few, reading], timeout=1.0)
            assert len(waiting) == 4
            await broker.start()
            assert all(isinstance(result, Written) for result in await asyncio.gather(*few))
            await reading


@pytest.mark.parametrize("size", [3, 50])
async def test_a_stream_that_nobody_serves_for_a_while_is_waited_for(
    broker: EmbeddedBroker, size: int
) -> None:
    """No responders, as in an election of a leader, is no answer: the ledger asks again."""
    async with house(broker, SOURCE, broker={"reply_s": 0.5}) as home:
        await home.init()
        config = (await home.connection.api(f"STREAM.INFO.{LEDGER}"))["config"]
        async with ledger(home) as kept:
            # The stream listens elsewhere for a moment, so that nobody takes what is written.
            away = {**config, "subjects": ["elsewhere.>"]}
            assert "error" not in await home.connection.api(f"STREAM.UPDATE.{LEDGER}", away)
            writes = [
                asyncio.create_task(kept.write(subject(home, str(one)), row(str(one)), 0))
                for one in range(size)
            ]
            _, waiting = await asyncio.wait(writes, timeout=0.5)
            assert len(waiting) == size
            assert "error" not in await home.connection.api(f"STREAM.UPDATE.{LEDGER}", config)
            results = await asyncio.gather(*writes)
    assert all(isinstance(result, Written) for result in results)


OPEN_BATCHES_MAX = 50
"""The broker's own bound, for each stream."""


async def test_rows_do_not_wait_for_other_batches_to_end(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """Workers that died left as many open as the broker has room for: rows go one by one then."""
    async with house(broker, SOURCE) as home:
        await home.init()
        for number in range(OPEN_BATCHES_MAX):
            left = {"Nats-Batch-Id": f"left-{number}", "Nats-Batch-Sequence": "1"}
            await home.connection.post(subject(home, f"left-{number}"), b"", left)
        refused = await home.connection.store_batch([Message(subject(home, "another"), b"")])
        assert isinstance(refused, NotStored) and refused.unbatched

        keys = [str(number) for number in range(4 * BATCH_ATOMIC_MIN)]
        async with ledger(home) as kept:
            written = await asyncio.gather(
                *(kept.write(subject(home, key), row(key), 0) for key in keys)
            )
            assert all(isinstance(one, Written) for one in written)
            assert [row(key) for key in keys] == [
                (await kept.read(subject(home, key))).row for key in keys
            ]
    assert [] == [one.message for one in caplog.records if one.levelno >= logging.WARNING]


# --- rows that this release does not know -------------------------------------------------------
@pytest.mark.parametrize(
    "payload", [b'{"version":99,"state":"dreaming"}', b"\xff", b'{"version":1}']
)
async def test_a_row_that_is_not_known_raises_and_is_left_alone(
    broker: EmbeddedBroker, payload: bytes
) -> None:
    """Neither a read nor a lost write may take it for absent, and its neighbours are written."""
    async with house(broker, SOURCE) as home:
        await home.init()
        place = subject(home, "a")
        await home.connection.store(Message(place, payload))
        async with ledger(home) as kept:
            with pytest.raises(UnknownRowVersion):
                await kept.read(place)
            others = [str(number) for number in range(20)]
            unknown, *results = await asyncio.gather(
                kept.write(place, row("a"), 0),
                *(kept.write(subject(home, key), row(key), 0) for key in others),
                return_exceptions=True,
            )
        stored = await home.connection.last(LEDGER, place)
    assert isinstance(unknown, UnknownRowVersion)
    assert all(isinstance(result, Written) for result in results)
    assert stored is not None
    assert stored.payload == payload


# --- identity -----------------------------------------------------------------------------------
async def test_two_inits_agree_on_one_identity(broker: EmbeddedBroker) -> None:
    """Made once, however many are faster than one another; then never again."""
    async with house(broker, SOURCE) as home:
        first = await home.init()
        made = await asyncio.gather(
            *(ensure_identity(home.connection, home.subjects, name, 1) for name in "abcdef")
        )
        async with ledger(home) as kept:
            found = await kept.identity()
        assert {first.ledger, found, *made} == {first.ledger}
        assert (await home.init()).ledger == first.ledger


async def test_inits_at_one_moment_make_one_identity(broker: EmbeddedBroker) -> None:
    """Two hosts begin a house together: the broker decides whose name the ledger bears."""
    async with house(broker, SOURCE) as home:
        reports = await asyncio.gather(home.init(), home.init(), home.init())
        assert len({report.ledger for report in reports}) == 1


async def test_a_ledger_that_was_made_again_is_refused(broker: EmbeddedBroker) -> None:
    """It knows nothing of what was applied; init and worker say so, and what to do."""
    async with house(broker, SOURCE) as home:
        old = (await home.init()).ledger
        await home.connection.api(f"STREAM.DELETE.{LEDGER}")
        with pytest.raises(LedgerDiffers, match=old):
            await home.init()
        async with ledger(home) as made:
            new = await made.identity()
        assert new is not None
        assert new != old
        async with home.worker(app_with(Runs())) as worker:
            await asyncio.wait([worker])
            with pytest.raises(LedgerDiffers, match=old) as refused:
                worker.result()
    text = str(refused.value)
    assert new in text
    assert "orders" in text
    assert "Bring back" in text
    assert "\n" not in text


async def test_a_ledger_without_identity_is_refused(broker: EmbeddedBroker) -> None:
    """A worker that was started before init is told to run it."""
    async with house(broker, SOURCE) as home:
        await home.init()
        await home.connection.api(f"STREAM.DELETE.{LEDGER}")
        async with home.worker(app_with(Runs())) as worker:
            await asyncio.wait([worker])
            with pytest.raises(NotFine, match="fencepost init"):
                worker.result()
