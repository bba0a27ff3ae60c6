"""A keyed effect: the same key again, as long as the receiver remembers it."""

from fencepost import Context, Fencepost
from fencepost.broker.embedded import EmbeddedBroker
from fencepost_schemas.question import QuestionKind
from fencepost_schemas.row import State
from kit.house import house
from kit.pool import (
    SHORT,
    SOURCE,
    CrashAt,
    Runs,
    crash,
    doubtful,
    event,
    held,
    publish,
    publish_seam,
    questions,
    rows,
    settle,
    working,
)


def keyed_app(runs: Runs, *, sink_s: float, fails: int = 0) -> Fencepost:
    """Return an app that hands its key on, and fails this often behind that."""
    app = Fencepost("shop")

    @app.on("task", name="charge", effect="keyed", sink_retention_s=sink_s)
    async def handler(payload: bytes, ctx: Context) -> None:
        runs.started.append((payload.decode(), ctx.attempt))
        runs.done.append(ctx.idempotency_key)
        if ctx.attempt <= fails:
            raise RuntimeError("connection lost")

    return app


async def test_a_failure_is_tried_again_with_the_same_key(broker: EmbeddedBroker) -> None:
    """The receiver knows what it has seen."""
    runs = Runs()
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        await publish(home, event("a"))
        async with working(home, keyed_app(runs, sink_s=60, fails=2)):
            await settle(home)
        assert State.APPLIED is (await rows(home))["k:a"].state
    assert 3 == len(runs.done)
    assert 1 == len(set(runs.done))


async def test_a_crash_is_followed_by_the_same_key(broker: EmbeddedBroker) -> None:
    """Another worker hands on the key of the first."""
    runs = Runs()
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        await publish(home, event("a"))
        app = keyed_app(runs, sink_s=60)
        await crash(home, app, CrashAt("ran"))
        async with working(home, app):
            await settle(home)
        assert State.APPLIED is (await rows(home))["k:a"].state
    assert 2 == len(runs.done)
    assert 1 == len(set(runs.done))


async def test_a_receiver_that_may_have_forgotten_is_not_asked_again(
    broker: EmbeddedBroker,
) -> None:
    """Its memory is shorter than the lease of the worker that died: a person is asked."""
    runs = Runs()
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        await publish(home, event("a"))
        app = keyed_app(runs, sink_s=1.5)
        await crash(home, app, CrashAt("ran"))
        async with working(home, app):
            await settle(home)
        assert State.IN_DOUBT is (await rows(home))["k:a"].state
        assert 1 == len(await questions(home, QuestionKind.DOUBT))
    assert 1 == len(runs.done)


async def test_in_an_unverifiable_lineage_it_waits_for_the_seam(broker: EmbeddedBroker) -> None:
    """The receiver may be another one's by now, or have seen the key long ago."""
    runs = Runs()
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        await publish_seam(home)
        await publish(home, doubtful("a"))
        async with working(home, keyed_app(runs, sink_s=60)):
            await settle(home)
        assert 1 == len(await held(home))
    assert [] == runs.done
