"""What an answer runs is what its row is about, whoever wrote the question or the answer."""

import msgspec
import pytest

from fencepost import Context, Fencepost
from fencepost.broker.embedded import EmbeddedBroker
from fencepost.ports import Message, Stored
from fencepost_schemas.event import headers_of
from fencepost_schemas.question import Answer, Held, Question, QuestionKind, Ruling
from fencepost_schemas.row import State
from fencepost_schemas.standing import Standing
from kit.house import House, house
from kit.pool import (
    FIRST,
    SHORT,
    SOURCE,
    Runs,
    app_with,
    event,
    publish,
    rows,
    see_questions,
    settle,
    states,
    working,
)
from kit.rows import bury, place_of, put, row


async def put_question(home: House, question: Question) -> None:
    subject = home.subjects.question(question.source, question.id)
    assert isinstance(
        await home.connection.store(Message(subject, msgspec.json.encode(question))), Stored
    )


async def answer(home: House, question: str, kind: QuestionKind, letter: int = 0) -> None:
    """Answer as somebody does who has a login and does not use the desk."""
    given = Answer(question, "orders", kind, Ruling.RETRY, "eve", 0, letter=letter)
    subject = home.subjects.answer(question)
    assert isinstance(
        await home.connection.store(Message(subject, msgspec.json.encode(given))), Stored
    )


def invented(payload: bytes, row: str = "", key: str = "k:a", attempt: int = 1) -> Question:
    """Return a question about an event that no source ever sent."""
    made = event("a", payload=payload)
    return Question(
        id="doubt-abcdefgh12345678",
        kind=QuestionKind.DOUBT,
        source="orders",
        generation=FIRST,
        standing=Standing.GENESIS,
        asked_ms=1,
        text="?",
        event=Held("", headers_of(made), payload, "shop", "charge"),
        row=row or "fp.ledger.charge.orders.abcdefghijklmnop",
        key=key,
        attempt=attempt,
        handler="charge",
    )


async def test_an_invented_question_runs_nothing(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """Its row is not there, and no row is made."""
    runs = Runs()
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        question = invented(b'{"k":"a","amount":1000000}')
        await put_question(home, question)
        async with working(home, app_with(runs)):
            await answer(home, question.id, QuestionKind.DOUBT)
            await settle(home)
        assert {} == await states(home)
    assert [] == runs.started
    assert "nothing is run" in caplog.text


async def test_a_question_whose_event_was_changed_runs_nothing(broker: EmbeddedBroker) -> None:
    """The doubt stays in doubt, with the bytes that it is about."""
    runs = Runs()

    async def fail(payload: bytes, ctx: Context) -> None:
        raise RuntimeError("lost the connection")

    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        async with working(home, app_with(runs, fail)):
            await publish(home, event("a", payload=b'{"k":"a","amount":10}'))
            [asked] = await see_questions(home, 1, QuestionKind.DOUBT)
            assert asked.event is not None
            changed = msgspec.structs.replace(asked.event, payload=b'{"k":"a","amount":999999}')
            await put_question(home, msgspec.structs.replace(asked, event=changed))
            await answer(home, asked.id, QuestionKind.DOUBT)
            await settle(home)
        assert State.IN_DOUBT is (await rows(home))["k:a"].state
    assert 1 == len(runs.started)


async def test_an_answer_that_stands_elsewhere_is_none(broker: EmbeddedBroker) -> None:
    """The first answer to a question counts, and only there can the broker tell which it is."""
    runs = Runs()

    async def fail(payload: bytes, ctx: Context) -> None:
        raise RuntimeError("lost the connection")

    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        async with working(home, app_with(runs, fail)):
            await publish(home, event("a"))
            [asked] = await see_questions(home, 1, QuestionKind.DOUBT)
            given = Answer(asked.id, "orders", QuestionKind.DOUBT, Ruling.DISCARD, "eve", 0)
            subject = home.subjects.answer("elsewhere")
            await home.connection.store(Message(subject, msgspec.json.encode(given)))
            await settle(home)
        assert State.IN_DOUBT is (await rows(home))["k:a"].state


@pytest.mark.parametrize("letter", [0, -1, 99, 2**62])
async def test_an_answer_that_names_no_letter_runs_nothing(
    broker: EmbeddedBroker, letter: int
) -> None:
    runs = Runs()
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        await put(home, row("k:a", State.REJECTED))
        await bury(home, "a", row=place_of(row("k:a", State.REJECTED)))
        async with working(home, app_with(runs)):
            await answer(home, "rejection-abcdefgh12345678", QuestionKind.REJECTION, letter)
            await settle(home)
    assert [] == runs.started


async def test_a_letter_whose_bytes_are_not_its_rows_runs_nothing(broker: EmbeddedBroker) -> None:
    """What lies among the dead may have been put there by anybody who may write there."""
    runs = Runs()
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        rejected = row("k:a", State.REJECTED, attempt=1)
        await put(home, rejected)
        letter = await bury(home, "other", row=place_of(rejected), attempts="1")
        async with working(home, app_with(runs)):
            await answer(home, "rejection-abcdefgh12345678", QuestionKind.REJECTION, letter)
            await settle(home)
        assert {"k:a": State.REJECTED} == await states(home)
    assert [] == runs.started


async def test_a_letter_of_another_app_is_left_to_that(broker: EmbeddedBroker) -> None:
    runs = Runs()
    other = Fencepost("elsewhere")
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        rejected = row("k:a", State.REJECTED, attempt=1)
        await put(home, rejected)
        letter = await bury(home, "a", row=place_of(rejected), attempts="1", app=other.name)
        async with working(home, app_with(runs)):
            await answer(home, "rejection-abcdefgh12345678", QuestionKind.REJECTION, letter)
            await settle(home)
    assert [] == runs.started
