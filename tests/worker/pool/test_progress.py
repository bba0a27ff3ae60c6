"""What no worker took in time is asked about, and a consumer that is made again begins behind."""

import asyncio
import logging

import msgspec
import pytest

from fencepost import Context, Fencepost, Gap
from fencepost.broker.embedded import EmbeddedBroker
from fencepost.pool.progress import Track
from fencepost.ports import Message
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.progress import Progress
from fencepost_schemas.question import QuestionKind
from fencepost_schemas.subject import EVENTS, SOURCES
from kit.gaps import GAP, Refills, publish_record, reconciling
from kit.house import House, house
from kit.pool import (
    SECOND,
    SHORT,
    SOURCE,
    THIRD,
    Runs,
    app_with,
    event,
    publish,
    questions,
    settle,
    working,
)
from kit.wait import until


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.pool.progress.LOOK_S", 0.05)


async def record(home: House, feed: str = "events") -> Progress | None:
    stored = await home.connection.last(SOURCES, home.subjects.progress("shop", feed))
    return msgspec.json.decode(stored.payload, type=Progress) if stored is not None else None


async def caught_up(home: House) -> None:
    """Return once it is written down that the app has dealt with all there is."""
    last = (await home.connection.stream_state(EVENTS)).last

    async def there() -> bool:
        known = await record(home)
        return known is not None and known.sequence >= last and not known.waiting

    await until(there, "the record of how far the app is")


async def remove_waiting(home: House) -> None:
    """Take away every event that is there, as its age would."""
    config = (await home.connection.api(f"STREAM.INFO.{EVENTS}"))["config"]
    aged = {**config, "max_age": 1_000_000_000, "duplicate_window": 1_000_000_000}
    assert "error" not in await home.connection.api(f"STREAM.UPDATE.{EVENTS}", aged)

    async def gone() -> bool:
        return not await home.connection.count(EVENTS, home.subjects.events_of())

    await until(gone, "the events to grow too old")


async def move_cursor(home: House, count: int, cursor: Cursor | None = None) -> Cursor:
    """Say what a bridge says that has published so many events."""
    moved = msgspec.structs.replace(cursor or await home.cursor(), published=count)
    subject = home.subjects.cursor("orders")
    await home.connection.store(Message(subject, msgspec.json.encode(moved)))
    return moved


async def test_events_that_no_worker_took_are_asked_about_once(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """All workers were away for longer than events live; two come back and ask one question."""
    runs = Runs()
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        async with working(home, app_with(runs)):
            await publish(home, event("a", "1"))
            cursor = await move_cursor(home, 1)
            await settle(home)
            await caught_up(home)
        await publish(home, *(event(f"k{number}", str(number)) for number in range(2, 7)))
        await remove_waiting(home)
        await move_cursor(home, 6, cursor)
        async with working(home, app_with(runs), app_with(runs)):

            async def asked() -> bool:
                return bool(await questions(home, QuestionKind.LOSS))

            await until(asked, "the question")
            await publish(home, event("b", "8"))
            await settle(home)
            [question] = await questions(home, QuestionKind.LOSS)
            assert "5 of orders" in question.text and "app-shop" == question.source
            await home.book.answer(question.id, "resume", "ada", "told the shop")
            await settle(home)
        assert [] == await questions(home)
    assert ['{"k":"a"}', '{"k":"b"}'] == runs.keys
    assert any(question.id in line for line in caplog.messages)


async def test_an_event_that_was_waiting_and_is_gone_is_noticed(broker: EmbeddedBroker) -> None:
    """The worker itself held it up: its handler ran for longer than events live."""
    running, go = asyncio.Event(), asyncio.Event()

    async def slow(payload: bytes, ctx: Context) -> None:
        running.set()
        await go.wait()

    patient = {"slots": 1, "handler_timeout_s": 20.0, "lease_s": 25.0, "ack_wait_s": 30.0}
    async with house(broker, SOURCE, pool=patient) as home:
        await home.init()
        async with working(home, app_with(Runs(), slow)):
            await publish(home, event("a", "1"), event("b", "2"))
            await running.wait()

            async def waits() -> bool:
                known = await record(home)
                return known is not None and known.waiting > 0

            await until(waits, "the record of what waits")
            await remove_waiting(home)

            async def asked() -> bool:
                return bool(await questions(home, QuestionKind.LOSS))

            await until(asked, "the question")
            go.set()
            await settle(home)


async def test_cursors_that_grow_old_are_no_loss(broker: EmbeddedBroker) -> None:
    """A quiet source rewrites its cursor, and only cursors are gone."""
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        async with working(home, app_with(Runs())):
            await publish(home, event("a", "1"))
            cursor = await move_cursor(home, 1)
            await settle(home)
            await caught_up(home)
        for _ in range(20):
            await move_cursor(home, 1)
        await remove_waiting(home)
        await move_cursor(home, 1, cursor)
        async with working(home, app_with(Runs())):
            await caught_up(home)
            await publish(home, event("b", "2"))
            await settle(home)
        assert [] == await questions(home, QuestionKind.LOSS)


async def test_a_stream_that_was_made_again_is_told(broker: EmbeddedBroker) -> None:
    """Its sequences begin afresh, and what had not been dealt with is gone."""
    runs = Runs()
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        async with working(home, app_with(runs)):
            await publish(home, *(event(f"k{number}", str(number)) for number in range(9)))
            await settle(home)
            await caught_up(home)
        await home.connection.api(f"STREAM.DELETE.{EVENTS}")
        await home.init()
        await publish(home, event("a", "1"))
        async with working(home, app_with(runs)):
            await settle(home)

            async def asked() -> bool:
                return bool(await questions(home, QuestionKind.LOSS))

            await until(asked, "the question")
        [question] = await questions(home, QuestionKind.LOSS)
    assert "made again" in question.text
    assert '{"k":"a"}' in runs.keys


async def test_an_event_that_has_waited_long_is_warned_of(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """Before it is gone, with when that will be."""
    running, go = asyncio.Event(), asyncio.Event()

    async def slow(payload: bytes, ctx: Context) -> None:
        running.set()
        await go.wait()

    async with house(broker, SOURCE, broker={"events_age_s": 60}) as home:
        await home.init()
        with caplog.at_level(logging.WARNING, "fencepost.pool"):
            async with working(home, app_with(Runs(), slow)):
                await publish(home, event("a", "1"))
                await running.wait()
                track = Track(
                    "shop", "events", "fp-shop", "fp.events.>", home.connection, home.subjects
                )
                state = await home.connection.stream_state(EVENTS)
                assert 60_000 == state.age_ms
                await _as_if_later(home, track, 31_000)
                go.set()
                await settle(home)
    assert any("removed unseen at" in line for line in caplog.messages)


async def _as_if_later(home: House, track: Track, by_ms: int) -> None:
    """Have one look at a broker whose clock is ahead by so much."""
    real = home.connection.stream_state

    async def later(stream: str) -> object:
        state = await real(stream)
        return msgspec.structs.replace(state, now_ms=state.now_ms + by_ms)

    home.connection.stream_state = later  # type: ignore[method-assign, assignment]
    try:
        await track.look()
    finally:
        home.connection.stream_state = real  # type: ignore[method-assign]


# --- consumers that are made again --------------------------------------------------------------
MISSED = Gap(SECOND, "9", THIRD, "1")


async def delete_running(home: House, name: str) -> None:
    await home.connection.api(f"CONSUMER.DELETE.{EVENTS}.{name}")


async def test_a_consumer_that_is_made_again_begins_where_the_app_is(
    broker: EmbeddedBroker,
) -> None:
    """What was dealt with is not delivered once more, and nothing is passed over."""
    runs = Runs()
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        async with working(home, app_with(runs)):
            await publish(home, *(event(f"k{number}", str(number)) for number in range(20)))
            await settle(home)
            await caught_up(home)
        await home.connection.api(f"CONSUMER.DELETE.{EVENTS}.fp-shop")
        await publish(home, event("new", "99"))
        async with working(home, app_with(runs)):
            await settle(home)
            info = await home.connection.api(f"CONSUMER.INFO.{EVENTS}.fp-shop")
    assert 1 == info["delivered"]["consumer_seq"]
    assert 21 == len(runs.keys) and 1 == runs.most


@pytest.mark.parametrize("while_it_runs", [True, False])
async def test_a_gap_that_was_recorded_without_a_consumer_is_called_up(
    broker: EmbeddedBroker, while_it_runs: bool
) -> None:
    """The reconciler's consumer was deleted by hand; what was there before it began stays so."""
    refills = Refills()
    app = reconciling(Fencepost("shop"), refills)

    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        await publish_record(home, gap=GAP)

        async def remembered() -> bool:
            return await record(home, "gaps.orders") is not None

        if while_it_runs:
            async with working(home, app):
                await until(remembered, "where the reconciler begins")
                await delete_running(home, "fp-shop-gaps-orders")
                await publish_record(home, gap=MISSED, generation=THIRD)
                await refills.called.wait()
        else:
            async with working(home, app):
                await until(remembered, "where the reconciler begins")
            await delete_running(home, "fp-shop-gaps-orders")
            await publish_record(home, gap=MISSED, generation=THIRD)
            async with working(home, app):
                await refills.called.wait()
    assert [MISSED] == refills.gaps
