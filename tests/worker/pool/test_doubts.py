"""A doubt, its question, and its three answers; an answer carries its work through any crash."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from fencepost import Context, NotApplied
from fencepost.broker.embedded import EmbeddedBroker
from fencepost.errors import NotFine
from fencepost.ports import Message, Stored
from fencepost_schemas.question import Answer, QuestionKind, Ruling
from fencepost_schemas.row import ROW_VERSION, State
from fencepost_schemas.subject import LEDGER
from kit.house import House, house
from kit.pool import (
    SHORT,
    SOURCE,
    Behave,
    CrashAt,
    Runs,
    app_with,
    crash,
    event,
    publish,
    questions,
    rows,
    say,
    see_questions,
    settle,
    states,
    working,
)
from kit.wait import until

A = '{"k":"a"}'


def failing(times: int) -> Behave:
    """Return a handler that fails so many times without a word, and then succeeds."""

    async def behave(payload: bytes, ctx: Context) -> None:
        if ctx.attempt <= times:
            raise RuntimeError("cut off")

    return behave


async def doubt(home: House, app: Any) -> str:
    """Bring the event `a` into doubt; return its question."""
    await publish(home, event("a"))
    async with working(home, app):
        [question] = await see_questions(home, 1, QuestionKind.DOUBT)
        await settle(home)
    return question.id


@pytest.mark.parametrize(
    ("ruling", "state", "runs"),
    [
        ("applied", State.APPLIED, 1),
        ("discard", State.DENIED, 1),
        ("retry", State.APPLIED, 2),
    ],
)
async def test_each_answer_to_a_doubt_does_what_it_means(
    broker: EmbeddedBroker, ruling: str, state: State, runs: int
) -> None:
    """It happened; it never shall; it did not, so run it again. The row names who said so."""
    ran = Runs()
    app = app_with(ran, failing(1))
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        question = await doubt(home, app)
        await say(home, question, ruling, "looked it up")
        async with working(home, app, app):
            await settle(home)
            await publish(home, event("a", "2"))
            await settle(home)
        [row] = await home.rows()
        assert await questions(home) == []
    assert (row.state, row.actor, len(ran.started)) == (state, "ada", runs)


async def test_a_retry_waits_until_the_old_attempt_can_run_no_more(
    broker: EmbeddedBroker,
) -> None:
    """Quarantine: start + limit + lease by the broker's clock, however early the answer came."""
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        app = app_with(Runs(), failing(2))
        question = await doubt(home, app)
        first = (await rows(home))["k:a"]
        with pytest.raises(NotFine, match=r"attempt 1 may still act for \d s: look again then"):
            await home.book.answer(question, "retry", "ada")
        # One that got past the desk, by an older release or a clock that was set back.
        early = Answer(question, "orders", QuestionKind.DOUBT, Ruling.RETRY, "ada", 0)
        subject = home.subjects.answer(question)
        await home.connection.store(Message(subject, msgspec.json.encode(early)))
        async with working(home, app):
            await see_questions(home, 1, QuestionKind.DOUBT)
        second = (await rows(home))["k:a"]
    closed_ms = int((SHORT["handler_timeout_s"] + SHORT["lease_s"]) * 1000)
    assert (first.attempt, second.attempt) == (1, 2)
    assert second.quarantine_until_ms - closed_ms >= first.quarantine_until_ms


async def test_a_second_doubt_of_the_same_row_is_a_new_question(broker: EmbeddedBroker) -> None:
    """Each attempt is asked about by itself, and an old answer says nothing about a new attempt."""
    ran = Runs()
    app = app_with(ran, failing(2))
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        first = await doubt(home, app)
        await say(home, first, "retry")
        async with working(home, app):
            [second] = await see_questions(home, 1, QuestionKind.DOUBT)
            await settle(home)
            assert second.id != first
            assert second.attempt == 2
            await say(home, second.id, "retry", actor="bob")
            await settle(home)
        [row] = await home.rows()
    assert ran.started == [(A, 1), (A, 2), (A, 3)]
    assert (row.state, row.attempt, row.actor) == (State.APPLIED, 3, "bob")


async def test_a_retry_that_is_not_applied_waits_and_goes_on(broker: EmbeddedBroker) -> None:
    """The event was acked long ago: the answer brings the work back until it is done."""
    ran = Runs()

    async def behave(payload: bytes, ctx: Context) -> None:
        if ctx.attempt == 1:
            raise RuntimeError("cut off")
        if ctx.attempt < 4:
            raise NotApplied("busy")

    app = app_with(ran, behave)
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        await say(home, await doubt(home, app), "retry")
        async with working(home, app):
            await settle(home)
        assert (await states(home))["k:a"] is State.APPLIED
    assert ran.started == [(A, 1), (A, 2), (A, 3), (A, 4)]


CARRIED = [
    # where the worker dies that carries out `retry`, the row at the end, and the runs
    ("written", 1, State.IN_DOUBT, 1),
    ("ran", 1, State.IN_DOUBT, 2),
    ("written", 2, State.APPLIED, 2),
    ("published", 1, State.APPLIED, 2),
]


def once_it_ran_again(ran: Runs, crash_at: CrashAt, wait: bool) -> Callable[[str], None]:
    """Return the crash point; with `wait` it counts from the second run on.

    An answer whose row is in quarantine settles too, before the handler runs.
    """

    def reached(point: str) -> None:
        if not wait or len(ran.started) > 1:
            crash_at(point)

    return reached


@pytest.mark.parametrize(("point", "nth", "state", "runs"), CARRIED)
async def test_an_answer_is_carried_on_by_another_worker(
    broker: EmbeddedBroker, point: str, nth: int, state: State, runs: int
) -> None:
    """The answer comes again to the next worker, which ends what the first began, or asks anew."""
    ran = Runs()
    app = app_with(ran, failing(1))
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        await say(home, await doubt(home, app), "retry")
        await crash(home, app, once_it_ran_again(ran, CrashAt(point, nth), point == "published"))
        async with working(home, app):
            await settle(home)
        [row] = await home.rows()
        asked = await questions(home, QuestionKind.DOUBT)
    assert (row.state, len(ran.started)) == (state, runs)
    assert [one.attempt for one in asked] == ([2] if state is State.IN_DOUBT else [])


async def test_a_doubt_of_the_carried_attempt_is_asked_even_if_its_asker_dies(
    broker: EmbeddedBroker,
) -> None:
    """In doubt again, and the worker dies before it asks: the answer that comes again asks."""
    ran = Runs()
    app = app_with(ran, failing(9))
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        await say(home, await doubt(home, app), "retry")
        await crash(home, app, CrashAt("written", 2))
        async with working(home, app):
            await settle(home)
            asked = await questions(home, QuestionKind.DOUBT)
        assert (await states(home))["k:a"] is State.IN_DOUBT
    assert [one.attempt for one in asked] == [2]
    assert len(ran.started) == 2


async def test_a_worker_cut_down_in_a_carried_attempt_leaves_a_new_question(
    broker: EmbeddedBroker,
) -> None:
    """Its task is cancelled in the middle of the handler; the answer goes to another worker."""
    again = asyncio.Event()
    ran = Runs()

    async def behave(payload: bytes, ctx: Context) -> None:
        if ctx.attempt == 1:
            raise RuntimeError("cut off")
        again.set()
        await asyncio.Event().wait()

    app = app_with(ran, behave)
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        await say(home, await doubt(home, app), "retry")
        async with home.worker(app) as worker:
            await again.wait()
            worker.cancel()
            await asyncio.wait([worker])
        async with working(home, app):
            [asked] = await see_questions(home, 1, QuestionKind.DOUBT)
            await settle(home)
    assert asked.attempt == 2
    assert ran.started == [(A, 1), (A, 2)]


# --- what is no answer, or not one that this release knows --------------------------------------
def answer_to(question: str, **fields: Any) -> bytes:
    given = Answer(question, "orders", QuestionKind.DOUBT, Ruling.RETRY, "eve", 0)
    return msgspec.json.encode(msgspec.structs.replace(given, **fields))


async def test_a_forged_answer_is_passed_over_and_does_no_harm(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """No JSON, no slug, no question, another kind of question: logged, acked, nothing run."""
    ran = Runs()
    app = app_with(ran, failing(1))
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        question = await doubt(home, app)
        forged = {
            "doubt-aaaa": b"\xff no json",
            "doubt-bbbb": answer_to("doubt-bbbb", source="A *"),
            "doubt-cccc": answer_to("doubt-cccc"),
            "doubt-dddd": answer_to(question, kind=QuestionKind.REFUSAL),
        }
        for name, payload in forged.items():
            await home.connection.store(Message(home.subjects.answer(name), payload))
        async with working(home, app):
            await settle(home)
        assert (await states(home))["k:a"] is State.IN_DOUBT
        assert [one.id for one in await questions(home)] == [question]
    assert len(ran.started) == 1
    assert sum("passed over" in line for line in caplog.messages) == len(forged)


async def test_a_row_of_a_newer_release_is_left_alone_by_event_and_answer(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither is settled, nothing runs, the row stays as it is, and the worker goes on."""
    ran = Runs()
    app = app_with(ran, failing(1))
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        question = await doubt(home, app)
        row = msgspec.json.decode(msgspec.json.encode((await rows(home))["k:a"]))
        newer = msgspec.json.encode({**row, "version": ROW_VERSION + 1, "state": "dreaming"})
        [subject] = await home.connection.subjects(LEDGER, home.subjects.rows())
        assert isinstance(await home.connection.store(Message(subject, newer)), Stored)
        await say(home, question, "retry")
        async with working(home, app):
            await publish(home, event("a", "2"), event("b", "3"))
            await until(
                lambda: (
                    sum(f"version {ROW_VERSION + 1}" in line for line in caplog.messages) >= 2
                    and len(ran.keys) > 1
                ),
                "event and answer to be left alone",
            )
        stored = await home.connection.last(LEDGER, subject)
    assert stored is not None
    assert stored.payload == newer
    assert ran.keys == [A, '{"k":"b"}']


async def test_an_answer_waits_for_a_worker_that_knows_the_handler(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In the middle of a deployment a worker of the same app may not have it: nothing is lost."""
    monkeypatch.setattr("fencepost.pool.seams.OTHER_RELEASE_MS", 100)
    ran = Runs()
    app = app_with(ran, failing(1))
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        await say(home, await doubt(home, app), "retry")
        async with working(home, app_with(Runs(), name="renamed")):
            await until(lambda: "no such handler" in caplog.text, "the answer to be left")
        assert (await states(home))["k:a"] is State.IN_DOUBT
        async with working(home, app):
            await settle(home)
        assert (await states(home))["k:a"] is State.APPLIED
    assert ran.started == [(A, 1), (A, 2)]


async def test_an_answer_is_nothing_to_another_app(broker: EmbeddedBroker) -> None:
    """Each app hears of every answer; those to others are acked and forgotten."""
    ran = Runs()
    app = app_with(ran, failing(1))
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        await home.book.answer(await doubt(home, app), "discard", "ada")
        async with working(home, app_with(Runs(), name="ship", app="other")):
            await settle(home, "other")
        found = {row.handler: row.state for row in await home.rows()}
        assert found == {"charge": State.IN_DOUBT, "ship": State.APPLIED}
        async with working(home, app):
            await settle(home)
        assert {row.handler: row.state for row in await home.rows()} == {
            "charge": State.DENIED,
            "ship": State.APPLIED,
        }
