"""Each effect and each way in which a handler can end, on a real broker: row, dead, question."""

import asyncio
import logging
from collections import Counter

import msgspec
import pytest

from fencepost import Context, Fencepost, NotApplied, Reject
from fencepost.broker.embedded import EmbeddedBroker
from fencepost.ports import Message
from fencepost_policies.moves import conflict_key
from fencepost_schemas.event import fingerprint_of, headers_of
from fencepost_schemas.limits import ATTEMPTS_MAX
from fencepost_schemas.question import QuestionKind
from fencepost_schemas.row import State
from fencepost_schemas.standing import Standing
from kit.house import house
from kit.pool import (
    FIRST,
    SECOND,
    SOURCE,
    Runs,
    app_with,
    dead,
    event,
    publish,
    questions,
    rows,
    see_questions,
    settle,
    states,
    working,
)

QUICK = {"handler_timeout_s": 0.3, "retry_first_s": 0.01, "retry_longest_s": 0.05}

EXPECTED: dict[str, dict[str, tuple[State, int, int, int]]] = {
    # effect: outcome: (state, runs, buried, questions)
    "once": {
        "applied": (State.APPLIED, 1, 0, 0),
        "reject": (State.REJECTED, 1, 1, 0),
        "not-applied": (State.APPLIED, 2, 0, 0),
        "exception": (State.IN_DOUBT, 1, 0, 1),
        "timeout": (State.IN_DOUBT, 1, 0, 1),
    },
    "idempotent": {
        "applied": (State.APPLIED, 1, 0, 0),
        "reject": (State.REJECTED, 1, 1, 0),
        "not-applied": (State.APPLIED, 2, 0, 0),
        "exception": (State.REJECTED, ATTEMPTS_MAX, 1, 0),
        "timeout": (State.REJECTED, ATTEMPTS_MAX, 1, 0),
    },
}


async def end_as_told(payload: bytes, ctx: Context) -> object:
    """End as the event's type says."""
    match ctx.event.type:
        case "reject":
            raise Reject("never")
        case "not-applied" if ctx.attempt == 1:
            raise NotApplied("refused before anything happened")
        case "exception":
            raise RuntimeError("cut off")
        case "timeout":
            await asyncio.Event().wait()
    return {"receipt": 1}


@pytest.mark.parametrize("effect", EXPECTED)
async def test_each_outcome_ends_as_the_effect_declares(
    broker: EmbeddedBroker, effect: str
) -> None:
    """`once` is not run again after a failure that says nothing; `idempotent` is, up to a limit.

    Whatever happens, the event is acked, the dead and the questions carry its very bytes.
    """
    expected = EXPECTED[effect]
    attempts: dict[str, list[int]] = {outcome: [] for outcome in expected}
    app = Fencepost("shop")
    for outcome in expected:

        @app.on(outcome, name=outcome, effect=effect)
        async def handler(payload: bytes, ctx: Context) -> object:
            attempts[ctx.event.type].append(ctx.attempt)
            return await end_as_told(payload, ctx)

    async with house(broker, SOURCE, pool=QUICK) as home:
        await home.init()
        await publish(home, *(event(outcome, type=outcome) for outcome in expected))
        async with working(home, app):
            await settle(home)
        buried = await dead(home)
        asked = await questions(home)
        found = {
            row.handler: (
                row.state,
                row.attempt,
                sum(one.subject.endswith(f".{row.handler}") for one in buried),
                sum(one.error != "" and row.handler in one.text for one in asked),
            )
            for row in await home.rows()
        }
    assert found == expected
    assert attempts == {
        name: list(range(1, runs + 1)) for name, (_, runs, _, _) in expected.items()
    }
    carried = {one.event.payload for one in asked if one.event is not None}
    carried |= {one.payload for one in buried}
    parked = [outcome for outcome, (_, _, *kept) in expected.items() if sum(kept)]
    assert carried == {event(outcome).payload for outcome in parked}


async def test_a_result_is_kept_as_its_digest(broker: EmbeddedBroker) -> None:
    """The ledger proves what came out, and does not keep it."""

    async def receipt(payload: bytes, ctx: Context) -> dict[str, int]:
        return {"receipt": 1}

    async with house(broker, SOURCE) as home:
        await home.init()
        await publish(home, event())
        async with working(home, app_with(Runs(), receipt)):
            await settle(home)
        row = (await rows(home))["k:a"]
    assert (row.state, row.result_digest) == (State.APPLIED, fingerprint_of(b'{"receipt":1}'))


async def test_a_handlers_own_timeout_is_not_called_ours(broker: EmbeddedBroker) -> None:
    """A TimeoutError from inside the handler says nothing about the pool's limit."""

    async def give_up(payload: bytes, ctx: Context) -> None:
        raise TimeoutError("the bank took too long")

    async with house(broker, SOURCE) as home:
        await home.init()
        await publish(home, event())
        async with working(home, app_with(Runs(), give_up)):
            [doubt] = await see_questions(home, 1, QuestionKind.DOUBT)
    assert doubt.error == "TimeoutError: the bank took too long"


async def test_what_a_handler_waited_for_was_cancelled(broker: EmbeddedBroker) -> None:
    """That is the handler's failure and no end of the worker: it is in doubt at once."""

    async def wait_in_vain(payload: bytes, ctx: Context) -> None:
        waited = asyncio.get_running_loop().create_future()
        waited.cancel()
        await waited

    async with house(broker, SOURCE, pool={"ack_wait_s": 600.0, "lease_s": 500.0}) as home:
        await home.init()
        await publish(home, event())
        async with working(home, app_with(Runs(), wait_in_vain)):
            [doubt] = await see_questions(home, 1, QuestionKind.DOUBT)
    assert doubt.error.startswith("CancelledError")


async def test_an_undecodable_payload_is_buried_and_never_run(broker: EmbeddedBroker) -> None:
    """A payload that is not what the handler takes is dead at once: row, bytes and reason."""

    class Task(msgspec.Struct):
        amount: int

    app = Fencepost("shop")
    ran: list[int] = []

    @app.on("task", name="charge")
    async def charge(task: Task) -> None:
        ran.append(task.amount)

    deep = b"[" * 5_000 + b"]" * 5_000
    async with house(broker, SOURCE) as home:
        await home.init()
        await publish(
            home,
            event("a", "1", payload=b'{"amount":"five"}'),
            event("b", "2", payload=deep),
            event("c", "3", payload=b'{"amount":5}'),
        )
        async with working(home, app):
            await settle(home)
        buried = await dead(home)
        found = await states(home)
    assert ran == [5]
    assert found == {"k:a": State.REJECTED, "k:b": State.REJECTED, "k:c": State.APPLIED}
    assert {one.payload for one in buried} == {b'{"amount":"five"}', deep}
    assert all("charge" in one.headers["fencepost-error"] for one in buried)


async def test_types_without_a_handler_are_acked_and_counted(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """An event that nobody asked for leaves no row and does not come again; its type is named."""
    caplog.set_level(logging.INFO, "fencepost.pool")
    async with house(broker, SOURCE) as home:
        await home.init()
        strange = "\x1b[31mred\u202e"
        await publish(home, *(event(str(one), str(one), type=strange) for one in range(3)))
        async with working(home, app_with(Runs())):
            await settle(home)
        assert await home.rows() == []
    named = [line for line in caplog.messages if "no handler takes" in line]
    assert len(named) == 1
    assert repr(strange) in named[0]


async def test_two_handlers_of_one_event_have_a_row_each(broker: EmbeddedBroker) -> None:
    """One fails and is in doubt, the other applies; the event is acked once both are seen."""
    app = Fencepost("shop")

    @app.on("task", name="charge")
    async def charge(payload: bytes) -> None:
        raise RuntimeError("cut off")

    @app.on("task", name="ship")
    async def ship(payload: bytes) -> None: ...

    @app.on("task", name="elsewhere", source="crm")
    async def elsewhere(payload: bytes) -> None: ...

    async with house(broker, SOURCE) as home:
        await home.init()
        await publish(home, event())
        async with working(home, app):
            await settle(home)
        found = {row.handler: row.state for row in await home.rows()}
    assert found == {"charge": State.IN_DOUBT, "ship": State.APPLIED}


async def test_a_retry_of_one_handler_does_not_run_the_other_again(
    broker: EmbeddedBroker,
) -> None:
    """The event comes again for the handler that waits; the other one's row stands."""
    app = Fencepost("shop")
    ran: Counter[str] = Counter()

    @app.on("task", name="charge")
    async def charge(payload: bytes, ctx: Context) -> None:
        ran["charge"] += 1
        if ctx.attempt < 3:
            raise NotApplied("busy")

    @app.on("task", name="ship")
    async def ship(payload: bytes) -> None:
        ran["ship"] += 1

    async with house(broker, SOURCE) as home:
        await home.init()
        await publish(home, event())
        async with working(home, app):
            await settle(home)
        assert {row.state for row in await home.rows()} == {State.APPLIED}
    assert ran == {"charge": 3, "ship": 1}


async def test_the_same_key_with_another_payload_is_a_conflict_beside_the_first(
    broker: EmbeddedBroker,
) -> None:
    """The first row is left as it was, the other payload is recorded once and buried."""
    runs = Runs()
    async with house(broker, SOURCE) as home:
        await home.init()
        async with working(home, app_with(runs)):
            await publish(home, event("a", "1", payload=b"1"))
            await settle(home)
            first = (await rows(home))["k:a"]
            await publish(home, event("a", "2", payload=b"2"), event("a", "3", payload=b"2"))
            await settle(home)
        found = await rows(home)
        buried = {one.payload for one in await dead(home)}
    conflict = conflict_key("k:a", fingerprint_of(b"2"))
    assert runs.keys == ["1"]
    assert found["k:a"] == first
    assert {key: row.state for key, row in found.items()} == {
        "k:a": State.APPLIED,
        conflict: State.CONFLICT,
    }
    assert buried == {b"2"}


async def test_an_event_that_could_not_be_carried_is_refused_with_its_own_question(
    broker: EmbeddedBroker,
) -> None:
    """The row says why, the question says what and how long; either ruling ends it."""
    runs = Runs()
    async with house(broker, SOURCE) as home:
        await home.init()
        big = event("a", "1", payload=b"x" * 999, withheld="too_large")
        await publish(home, big, msgspec.structs.replace(big, key="b", position="2"))
        async with working(home, app_with(runs)):
            asked = await see_questions(home, 2, QuestionKind.REFUSAL)
            assert set((await states(home)).values()) == {State.REFUSED}
            assert all("999 bytes" in one.text for one in asked)
            for one, ruling in zip(asked, ("applied", "discard"), strict=True):
                await home.book.answer(one.id, ruling, "ada")
            await settle(home)
        found = {row.key: (row.state, row.actor) for row in await home.rows()}
    assert runs.started == []
    assert found == {
        asked[0].key: (State.APPLIED, "ada"),
        asked[1].key: (State.DENIED, "ada"),
    }


GOOD = event()
HEADERS = headers_of(GOOD)
FORGED: dict[str, tuple[dict[str, str], bytes]] = {
    "no headers": ({}, b"{}"),
    "another payload": (HEADERS, b"other"),
    "no standing of ours": ({**HEADERS, "ce-standing": "fine"}, GOOD.payload),
    "no slug for a source": ({**HEADERS, "ce-source": "/sources/A.B *"}, GOOD.payload),
    "no slug for a namespace": ({**HEADERS, "ce-namespace": ">"}, GOOD.payload),
    "another source's subject": ({**HEADERS, "ce-source": "/sources/crm"}, GOOD.payload),
    "a better standing": ({**HEADERS, "ce-standing": "resumed"}, GOOD.payload),
    "another generation": ({**HEADERS, "ce-generation": SECOND}, GOOD.payload),
    "a size of words": ({**HEADERS, "ce-size": "long"}, GOOD.payload),
    "a position that is no text": ({**HEADERS, "ce-position": "%FF"}, GOOD.payload),
}


async def test_a_forged_message_is_taken_out_and_does_no_harm(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever stands on an event's subject and is no event of that subject is logged, once."""
    runs = Runs()
    async with house(broker, SOURCE) as home:
        await home.init()
        subject = home.subjects.event("orders", FIRST, Standing.GENESIS, 7)
        async with working(home, app_with(runs)):
            for headers, payload in FORGED.values():
                await home.connection.store(Message(subject, payload, headers))
            await publish(home, event("honest", "9"))
            await settle(home)
        assert set(await states(home)) == {"k:honest"}
    assert runs.keys == ['{"k":"honest"}']
    taken_out = [line for line in caplog.messages if "taken out of the stream" in line]
    assert len(taken_out) == len(FORGED)


async def test_an_error_text_is_bounded_and_foreign_text_stays_out_of_headers(
    broker: EmbeddedBroker,
) -> None:
    """A handler's message may be long, and hold line ends: neither breaks row, dead or question."""

    async def refuse(payload: bytes, ctx: Context) -> None:
        raise Reject("\r\nNats-Rollup: all\r\n\u202e" + "x" * 50_000)

    async with house(broker, SOURCE) as home:
        await home.init()
        await publish(home, event())
        async with working(home, app_with(Runs(), refuse)):
            await settle(home)
        [buried] = await dead(home)
        [row] = await home.rows()
    assert row.state is State.REJECTED
    assert len(row.error) <= 2_000
    assert "nats-rollup" not in {name.lower() for name in buried.headers}
    assert len(buried.headers["fencepost-error"]) <= 2_000
