"""Doubt after doubt: the handler is paused, one question is asked, and its answer goes on."""

from fencepost import Context, Fencepost
from fencepost.broker.embedded import EmbeddedBroker
from fencepost_schemas.limits import DOUBTS_IN_A_ROW_MAX
from fencepost_schemas.question import QuestionKind
from fencepost_schemas.row import State
from fencepost_schemas.subject import QUESTIONS, app_source
from kit.house import House, house
from kit.pool import (
    SOURCE,
    Runs,
    doubtful,
    event,
    publish,
    publish_seam,
    questions,
    rule,
    see_questions,
    settle,
    states,
    working,
)
from kit.wait import until

ONE_BY_ONE = {"slots": 1}
MANY = [f"t{number:02d}" for number in range(12)]


def app_that_breaks(runs: Runs, mended: list[bool], spared: str = "") -> Fencepost:
    """Return an app one of whose handlers fails without a word until it is mended."""
    app = Fencepost("shop")

    @app.on("task", name="charge")
    async def charge(payload: bytes, ctx: Context) -> None:
        runs.started.append((payload.decode(), ctx.attempt))
        if not mended and ctx.event.key != spared:
            raise RuntimeError("the bank's certificate has expired")

    @app.on("task", name="mirror")
    async def mirror(payload: bytes, ctx: Context) -> None:
        runs.done.append(payload.decode())

    return app


async def waiting(home: House, question: str) -> list[str]:
    under = home.subjects.held_under(app_source("shop"), question)
    found = [one async for one in home.connection.scan(QUESTIONS, under)]
    return [one.subject for one in found if b'"handler":"charge"' in one.payload]


async def test_a_handler_that_gets_into_doubt_again_and_again_is_paused(
    broker: EmbeddedBroker,
) -> None:
    """Five doubts and one question; the rest is held, and the other handler goes on."""
    runs, mended = Runs(), list[bool]()
    async with house(broker, SOURCE, pool=ONE_BY_ONE) as home:
        await home.init()
        await publish(home, *(event(key) for key in MANY))
        app = app_that_breaks(runs, mended)
        async with working(home, app):
            await settle(home)
            [pause] = await questions(home, QuestionKind.PAUSE)
            assert "charge" == pause.handler
            assert "certificate has expired" in pause.error
            assert DOUBTS_IN_A_ROW_MAX == len(await questions(home, QuestionKind.DOUBT))
            assert DOUBTS_IN_A_ROW_MAX == len(runs.started)
            assert len(MANY) - DOUBTS_IN_A_ROW_MAX == len(await waiting(home, pause.id))
            assert len(MANY) == len(runs.done)
            [entry] = [e for e in await home.book.entries() if e.question.id == pause.id]
            assert len(MANY) - DOUBTS_IN_A_ROW_MAX == entry.held

            mended.append(True)
            await home.book.answer(pause.id, "resume", "eve")
            await until(lambda: len(runs.started) == len(MANY), "the held ones to be run")
            await settle(home)
            assert [] == await waiting(home, pause.id)
            await publish(home, event("one more"))
            await settle(home)
        found = [row.state for row in await home.rows() if row.handler == "charge"]
    assert DOUBTS_IN_A_ROW_MAX == found.count(State.IN_DOUBT)
    assert len(MANY) + 1 - DOUBTS_IN_A_ROW_MAX == found.count(State.APPLIED)


async def test_a_pause_is_another_workers_too(broker: EmbeddedBroker) -> None:
    """A worker that starts while a question is open holds from its first event on."""
    runs, mended = Runs(), list[bool]()
    async with house(broker, SOURCE, pool=ONE_BY_ONE) as home:
        await home.init()
        await publish(home, *(event(key) for key in MANY[:5]))
        async with working(home, app_that_breaks(runs, mended)):
            [pause] = await see_questions(home, 1, QuestionKind.PAUSE)
            await settle(home)
        await publish(home, event("later"))
        async with working(home, app_that_breaks(runs, mended)):
            await settle(home)
        assert 5 == len(runs.started)
        assert 1 == len(await waiting(home, pause.id))


async def test_an_answer_before_the_event_is_safe_is_not_overlooked(
    broker: EmbeddedBroker,
) -> None:
    """A worker that has not heard of the answer yet holds the event, looks again, and runs it."""
    runs, mended = Runs(), list[bool]()
    async with house(broker, SOURCE, pool=ONE_BY_ONE) as home:
        await home.init()
        await publish(home, *(event(key) for key in MANY[:5]))
        async with working(home, app_that_breaks(runs, mended)):
            [pause] = await see_questions(home, 1, QuestionKind.PAUSE)
            await settle(home)
            mended.append(True)
            # Within the five seconds in which this worker does not look.
            await home.book.answer(pause.id, "resume", "eve")
            await publish(home, event("late"))
            await settle(home)
            assert '{"k":"late"}' in runs.keys
            assert [] == await waiting(home, pause.id)


async def test_what_comes_again_under_a_key_does_not_take_the_place_of_what_is_held(
    broker: EmbeddedBroker,
) -> None:
    """The same task from a generation that is discarded meanwhile: the good one is still run."""
    runs, mended = Runs(), list[bool]()
    async with house(broker, SOURCE, pool=ONE_BY_ONE) as home:
        await home.init()
        await publish(home, *(event(key) for key in MANY[:5]))
        async with working(home, app_that_breaks(runs, mended)):
            [pause] = await see_questions(home, 1, QuestionKind.PAUSE)
            await settle(home)
            await publish_seam(home)
            # The other handler asks about the seam, as it has not seen the new task before.
            await publish(home, event("twice"), doubtful("twice"), doubtful("new", "2"))
            await settle(home)
            assert 3 == len(await waiting(home, pause.id))
            await rule(home, "discard")
            mended.append(True)
            await home.book.answer(pause.id, "resume", "eve")
            await until(lambda: '{"k":"twice"}' in runs.keys, "the good one to be run")
            await settle(home)
            assert [] == await waiting(home, pause.id)
        assert State.APPLIED is (await states(home))["k:twice"]


async def test_one_success_in_between_begins_the_count_anew(broker: EmbeddedBroker) -> None:
    """Four, one that goes well, and four again are no row of five."""
    runs, mended = Runs(), list[bool]()
    async with house(broker, SOURCE, pool=ONE_BY_ONE) as home:
        await home.init()
        keys = [*MANY[:4], "good", *MANY[4:8]]
        await publish(home, *(event(key) for key in keys))
        async with working(home, app_that_breaks(runs, mended, spared="good")):
            await settle(home)
        assert [] == await questions(home, QuestionKind.PAUSE)
        assert 8 == len(await questions(home, QuestionKind.DOUBT))
        assert State.APPLIED is (await states(home))["k:good"]
