"""What ordinary handlers emit: the app's own events, applied once however often they are sent."""

from collections.abc import Callable

import msgspec
import pytest

from fencepost import Context, Fencepost, NotApplied
from fencepost.broker.embedded import EmbeddedBroker
from fencepost.broker.jetstream import JetStream
from fencepost.errors import Unanswered, UsageError
from fencepost.ports import Message, NotStored, Stored
from fencepost_schemas.question import QuestionKind
from fencepost_schemas.row import State
from fencepost_schemas.standing import Standing
from kit.gaps import Refills, publish_record, reconciling, register
from kit.house import house
from kit.pool import (
    SOURCE,
    Runs,
    app_with,
    dead,
    event,
    publish,
    say,
    see_questions,
    settle,
    states,
    working,
)
from kit.wait import until


def chained(ran: list[str], first: Callable[[Context], object] = lambda ctx: None) -> Fencepost:
    """Return an app whose first handler emits for its second."""
    app = Fencepost("shop")

    @app.on("task", effect="idempotent")
    async def begin(payload: bytes, ctx: Context) -> None:
        await ctx.emit(type="step", key=f"step-{ctx.event.key}", data={"of": ctx.event.key})
        first(ctx)

    @app.on("step")
    async def go_on(payload: bytes, ctx: Context) -> None:
        ran.append(payload.decode())

    return app


async def test_an_emitted_event_goes_to_its_handler(broker: EmbeddedBroker) -> None:
    """As an event of the app, with a key in a namespace of its own."""
    ran: list[str] = []
    async with house(broker, SOURCE) as home:
        await home.init()
        await publish(home, event("a"))
        async with working(home, chained(ran)):
            await until(lambda: bool(ran), "the second handler")
            await settle(home)
        found = {row.key: row for row in await home.rows()}
        (emitted,) = await home.events("app-shop")
    assert ['{"of":"a"}'] == ran
    assert ("app-shop", State.APPLIED, "") == (
        found["k:step-a"].namespace,
        found["k:step-a"].state,
        found["k:step-a"].gap,
    )
    assert (Standing.REORIGINATED, "", "") == (emitted.standing, emitted.fills, emitted.gap)


async def test_an_attempt_that_fails_emits_again_and_is_applied_once(
    broker: EmbeddedBroker,
) -> None:
    ran: list[str] = []

    def fail_twice(ctx: Context) -> None:
        if ctx.attempt < 3:
            raise NotApplied("not yet")

    async with house(broker, SOURCE) as home:
        await home.init()
        await publish(home, event("a"))
        async with working(home, chained(ran, fail_twice)):
            await until(lambda: bool(ran), "the second handler")
            await settle(home)
        emitted = await home.events("app-shop")
    assert (3, 1) == (len(emitted), len({(one.generation, one.position) for one in emitted}))
    assert ['{"of":"a"}'] == ran


async def test_what_an_app_emits_twice_in_other_words_is_a_conflict(
    broker: EmbeddedBroker,
) -> None:
    """Only what fills a gap is told by its key alone: here the app contradicts itself."""
    ran: list[str] = []
    app = Fencepost("shop")

    @app.on("task")
    async def begin(payload: bytes, ctx: Context) -> None:
        await ctx.emit(type="step", key="same", data={"of": ctx.event.key})

    @app.on("step")
    async def go_on(payload: bytes) -> None:
        ran.append(payload.decode())

    async with house(broker, SOURCE) as home:
        await home.init()
        async with working(home, app):
            for key in ("a", "b"):
                await publish(home, event(key))
                await settle(home)
            await until(lambda: bool(ran), "the second handler")
            await settle(home)
        assert State.CONFLICT in (await states(home)).values()
    assert ['{"of":"a"}'] == ran


async def test_a_checker_may_not_emit(broker: EmbeddedBroker) -> None:
    """It may be asked any number of times, about what may have happened or not."""
    said: list[str] = []
    app = Fencepost("shop")

    @app.on("task", name="charge")
    async def charge(payload: bytes, ctx: Context) -> None:
        raise ConnectionError("away")

    @app.verify("charge")
    async def look(payload: bytes, ctx: Context) -> bool:
        with pytest.raises(UsageError) as refused:
            await ctx.emit(type="step", key="a", data={})
        said.append(str(refused.value))
        return True

    short = {"handler_timeout_s": 0.4, "lease_s": 1.0, "ack_wait_s": 1.2}
    async with house(broker, SOURCE, pool=short) as home:
        await home.init()
        await publish(home, event("a"))
        async with working(home, app):
            await settle(home)
        assert [] == await home.events("app-shop")
    assert ["a checker only looks: emit from the handler"] == said


async def test_what_lacks_its_handlers_key_waits_for_a_person(broker: EmbeddedBroker) -> None:
    """Under a question of what one row emitted; the answer reaches nothing else."""
    runs, refills = Runs(), Refills()
    app = reconciling(app_with(runs, key="/id"), refills)
    async with house(broker, SOURCE) as home:
        await home.init()
        await register(home, app)
        await publish_record(home)
        async with working(home, app):
            (question,) = await see_questions(home, 1, QuestionKind.SEAM)
            assert ("app-shop", []) == (question.source, runs.keys)
            await say(home, question.id, "discard")
            await settle(home)
            await publish_record(home, gap=msgspec.structs.replace(refills.gaps[0], exact=False))
    assert "without the key" in question.text


async def test_a_broker_that_does_not_take_is_asked_until_it_does(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lost reply, or a stream that is full, is no reason to fail an attempt."""
    ran: list[str] = []
    store = JetStream.store
    answers: list[object] = [Unanswered("lost"), NotStored(10077, "maximum bytes exceeded")]

    async def spoiled(connection: JetStream, message: Message) -> Stored | NotStored:
        if ".events.app-shop." in message.subject and answers:
            answer = answers.pop(0)
            if isinstance(answer, Unanswered):
                await store(connection, message)
                raise answer
            assert isinstance(answer, NotStored)
            return answer
        return await store(connection, message)

    monkeypatch.setattr(JetStream, "store", spoiled)
    async with house(broker, SOURCE) as home:
        await home.init()
        await publish(home, event("a"))
        async with working(home, chained(ran)):
            await until(lambda: bool(ran), "the second handler")
            await settle(home)
        assert [] == await dead(home)
    assert (['{"of":"a"}'], []) == (ran, answers)


@pytest.mark.parametrize(
    ("source", "key", "refused"),
    [
        ({"keys": "durable", "key": "/k"}, "", False),
        ({"keys": "generation", "key": "/k"}, "", True),
        ({"keys": "generation", "key": "/k"}, "/k", True),
        ({"keys": "none", "key": ""}, "", True),
        ({"keys": "none", "key": ""}, "/k", False),
    ],
)
async def test_only_durable_keys_tell_what_was_fetched_from_what_came(
    broker: EmbeddedBroker, source: dict[str, str], key: str, refused: bool
) -> None:
    """A worker that could apply the same task twice does not start."""
    app = reconciling(app_with(Runs(), key=key), Refills())
    async with house(broker, {"orders": {**SOURCE["orders"], **source}}) as home:
        await home.init()
        if not refused:
            await register(home, app)
            return
        async with home.worker(app) as running:
            with pytest.raises(UsageError, match="keys = "):
                await running
