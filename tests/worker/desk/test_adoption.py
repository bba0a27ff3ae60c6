"""Another ledger than the one that the sources began with: refused, adopted, and what it means."""

import asyncio

import pytest

from fencepost import Context, Fencepost
from fencepost.broker.embedded import EmbeddedBroker
from fencepost.desk.adoption import ADOPTER, Choice, Pins, doubted
from fencepost.errors import Fenced, LedgerDiffers, NotFine, UsageError
from fencepost.ledgers.kv import read_identity
from fencepost_schemas.cursor import Cursor, Mark, Position, Seam
from fencepost_schemas.question import QuestionKind
from fencepost_schemas.standing import Standing
from fencepost_schemas.subject import LEDGER
from kit.house import House, house
from kit.log import LogSource
from kit.orders import orders, see
from kit.pool import Runs, app_with, event, publish, see_questions, settle, working
from kit.rows import audit
from kit.wait import until


def pins(home: House) -> Pins:
    return Pins(home.connection, home.subjects)


async def lose_the_ledger(home: House) -> str:
    """Make the ledger's stream again, and return the identity of the new one."""
    await home.connection.api(f"STREAM.DELETE.{LEDGER}")
    with pytest.raises(LedgerDiffers):
        await home.init()
    identity = await read_identity(home.connection, home.subjects)
    assert identity is not None
    return identity


async def adopt(home: House, standing: Choice = "doubt") -> None:
    identity = await read_identity(home.connection, home.subjects)
    adoption = await pins(home).adoption(identity)
    for one in adoption.differing:
        await pins(home).adopt(adoption.identity, one.source, standing, "ada")


def shop(runs: Runs) -> Fencepost:
    """Return an app whose handler takes what the source sends, and notes its key."""
    app = Fencepost("shop")

    @app.on("message", name="charge")
    async def charge(task: dict[str, str], ctx: Context) -> None:
        runs.started.append((task["k"], ctx.attempt))
        runs.done.append(task["k"])

    return app


async def work(home: House, source: LogSource, runs: Runs, *keys: str) -> None:
    """Bring keys through bridge and worker until all of them ran."""
    async with home.bridge(), working(home, shop(runs)):
        await source.add(*keys)
        await until(lambda: len(runs.done) >= len(keys), "the work")
        await settle(home)


async def test_in_doubt_whatever_comes_is_asked_about(broker: EmbeddedBroker) -> None:
    """The bridge resumes, the workers run, and each loss asks anew: no old ruling speaks for it."""
    async with LogSource() as source, house(broker, orders(source.url)) as home:
        await home.init()
        await work(home, source, Runs(), "a", "b")
        for count, key in enumerate(("c", "d"), 1):
            before = await home.cursor()
            identity = await lose_the_ledger(home)
            async with home.worker(shop(Runs())) as refused:
                await asyncio.wait([refused])
                assert isinstance(refused.exception(), LedgerDiffers)
            await adopt(home)
            after = await home.cursor()
            assert (identity, ADOPTER) == (after.ledger, after.owner)
            assert Standing.UNVERIFIABLE is after.standing
            assert before.position == after.position
            assert before.generation != after.generation

            runs = Runs()
            async with home.bridge(), working(home, shop(runs)):
                await source.add(key)
                [question] = await see_questions(home, 1, QuestionKind.SEAM)
                assert after.generation == question.generation
                assert [] == runs.started
                await home.book.answer(question.id, "accept", "ada")
                await until(lambda runs=runs: len(runs.done) == 1, "the ruling")  # type: ignore[misc]
                await settle(home)
            assert [key] == runs.done
            assert "resumed" == (await home.verdicts())[-1]
            assert count == len([one for one in await audit(home) if "adopted" in one.action])
        assert 4 == len(await home.events())


async def test_kept_standing_goes_on_as_before(broker: EmbeddedBroker) -> None:
    """Generation and standing stay; what comes runs at once."""
    async with LogSource() as source, house(broker, orders(source.url)) as home:
        await home.init()
        await work(home, source, Runs(), "a")
        before = await home.cursor()
        identity = await lose_the_ledger(home)
        await adopt(home, "keep")
        after = await home.cursor()
        assert (before.generation, before.standing) == (after.generation, after.standing)
        assert identity == after.ledger
        runs = Runs()
        await work(home, source, runs, "b")
        assert 1 == len(runs.done)
        (entry,) = await audit(home)
    assert (entry.actor, entry.action, entry.subject) == ("ada", "adopted the ledger", "orders")
    assert f"{before.ledger} -> {identity}" in entry.detail


async def test_a_running_bridge_is_fenced(broker: EmbeddedBroker) -> None:
    """Its next write is refused whole, and it says who wrote."""
    async with LogSource() as source, house(broker, orders(source.url)) as home:
        await home.init()
        async with home.bridge() as bridge:
            await source.add("a")
            await see(home, 1)
            await pins(home).adopt("another", "orders", "keep", "ada")
            await source.add("b")
            await asyncio.wait([bridge], timeout=20)
            with pytest.raises(Fenced, match=ADOPTER):
                bridge.result()
        assert 1 == len(await home.events())


async def test_nothing_to_adopt_or_nothing_that_may_be(broker: EmbeddedBroker) -> None:
    """The pinned ledger, no ledger, half a ledger, a source that is none, a name that is none."""
    async with house(broker, orders("http://127.0.0.1:9/")) as home:
        identity = (await home.init()).ledger
        desk = pins(home)
        assert [] == (await desk.adoption(identity)).differing
        with pytest.raises(NotFine, match="fencepost init"):
            await desk.adoption(None)
        with pytest.raises(NotFine, match="broken off"):
            await desk.adoption("importing-x")
        with pytest.raises(NotFine, match="its cursor is gone"):
            await desk.adopt("other", "crm", "keep", "ada")
        with pytest.raises(UsageError, match="no name"):
            await desk.adopt("other", "orders", "keep", " ")
        assert identity == (await home.cursor()).ledger
        assert [] == await audit(home)


async def test_what_is_on_its_way_is_told(broker: EmbeddedBroker) -> None:
    """Events that no worker has settled keep their standing, so their number is said."""
    async with house(broker, orders("http://127.0.0.1:9/")) as home:
        identity = (await home.init()).ledger
        async with working(home, app_with(Runs())):
            await publish(home, event("a"))
            await settle(home)
        assert [] == (await pins(home).adoption(identity)).unsettled
        await publish(home, event("b"), event("c"))
        (one,) = (await pins(home).adoption(identity)).unsettled
        assert ("fp-shop", 2) == (one.consumer, one.events)


async def test_two_who_adopt_at_once_do_it_once(broker: EmbeddedBroker) -> None:
    """The second finds it done: one generation more, and one record of it."""
    async with house(broker, orders("http://127.0.0.1:9/")) as home:
        await home.init()
        before = await home.cursor()
        await asyncio.gather(*(pins(home).adopt("another", "orders", "doubt", "a") for _ in "ab"))
        assert "another" == (await home.cursor()).ledger
        assert "0001" == before.generation[:4]
        assert "0002" == (await home.cursor()).generation[:4]
        assert 1 == len(await audit(home))


@pytest.mark.parametrize("standing", Standing)
def test_a_cursor_in_doubt_keeps_what_a_resume_needs(standing: Standing) -> None:
    """Position, ring and token; its standing is never better than it was."""
    place = Position("7")
    ring = (Mark(place, "digest"),)
    cursor = Cursor(
        source="orders",
        generation="0003-aaaaaaaa",
        standing=standing,
        ledger="l",
        owner="o",
        position=place,
        token="t",
        session="s",
        published=9,
        ring=ring,
        seam=Seam(ring, 4, published=3),
    )
    after = doubted(cursor, "bbbbbbbb")
    assert "0004-bbbbbbbb" == after.generation
    assert Standing.UNVERIFIABLE is after.standing
    assert (place, ring, "t", "s") == (after.position, after.ring, after.token, after.session)
    assert (0, None) == (after.published, after.seam)
