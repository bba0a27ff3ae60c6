"""The book of questions: what is open, the first answer, and who is told what of a second."""

import asyncio

import msgspec
import pytest

from fencepost.broker.embedded import EmbeddedBroker
from fencepost.errors import NotFine, UsageError
from fencepost.ports import Message
from fencepost_schemas.event import headers_of
from fencepost_schemas.limits import NOTE_CHARS_MAX
from fencepost_schemas.question import (
    Answer,
    AuditEntry,
    Held,
    Question,
    QuestionKind,
    Ruling,
    seam_question_id,
)
from fencepost_schemas.standing import Standing
from fencepost_schemas.subject import AUDIT
from kit.house import House, house
from kit.pool import SECOND, SOURCE, doubtful

SEAM, DOUBT, REFUSAL = QuestionKind.SEAM, QuestionKind.DOUBT, QuestionKind.REFUSAL


async def ask(home: House, id: str, kind: QuestionKind = SEAM, asked_ms: int = 1) -> str:
    """Put a question into the book, as a worker would."""
    event = doubtful()
    question = Question(
        id=id,
        kind=kind,
        source="orders",
        generation=SECOND,
        standing=Standing.UNVERIFIABLE,
        asked_ms=asked_ms,
        text="What is it?",
        event=Held("fp.events", headers_of(event), event.payload, "shop", "charge"),
    )
    subject = home.subjects.question("orders", id)
    await home.connection.store(Message(subject, msgspec.json.encode(question)))
    return id


async def test_open_questions_come_oldest_first(broker: EmbeddedBroker) -> None:
    """Answered ones only on request; of one source where one is named."""
    async with house(broker, SOURCE) as home:
        await home.init()
        await ask(home, "seam-c", asked_ms=3)
        await ask(home, "seam-a", asked_ms=2)
        await ask(home, "seam-b", asked_ms=1)
        await home.book.answer("seam-b", "accept", "ada")
        listed = [entry.question.id for entry in await home.book.entries()]
        everything = await home.book.entries(answered=True)
        assert await home.book.entries(source="crm") == []
        assert len(await home.book.entries(source="orders")) == 2
    assert listed == ["seam-a", "seam-c"]
    assert [entry.question.id for entry in everything] == ["seam-b", "seam-a", "seam-c"]
    assert [entry.answer is not None for entry in everything] == [True, False, False]


async def test_a_long_book_is_read_whole(broker: EmbeddedBroker) -> None:
    """Several hundred open questions are all there, once each."""
    async with house(broker, SOURCE) as home:
        await home.init()
        names = [f"doubt-{number:04d}" for number in range(300)]
        await asyncio.gather(*(ask(home, name, DOUBT) for name in names))
        listed = [entry.question.id for entry in await home.book.entries()]
    assert listed == names


async def test_a_second_answer_is_told_who_was_first_what_and_when(
    broker: EmbeddedBroker,
) -> None:
    """The first answer stands, whoever comes later with whatever."""
    async with house(broker, SOURCE) as home:
        await home.init()
        await ask(home, "seam-a")
        first = await home.book.answer("seam-a", "discard", "ada", "saw the logs")
        for ruling, actor in (("accept", "bob"), ("discard", "ada")):
            with pytest.raises(NotFine, match=r"discard by 'ada' at \d{4}-\d\d-\d\dT.*Z"):
                await home.book.answer("seam-a", ruling, actor)
        entry = await home.book.entry("seam-a")
    assert entry.answer == first
    assert (first.ruling, first.actor, first.note) == (Ruling.DISCARD, "ada", "saw the logs")


async def test_a_ruling_that_the_question_does_not_take_is_a_usage_error(
    broker: EmbeddedBroker,
) -> None:
    """It changes nothing, and says what may be answered."""
    async with house(broker, SOURCE) as home:
        await home.init()
        for kind in QuestionKind:
            await ask(home, f"{kind}-a", kind)
            for ruling in {*Ruling, "yes", "", "SAME"} - {*kind.rulings}:
                with pytest.raises(UsageError, match=", ".join(kind.rulings)):
                    await home.book.answer(f"{kind}-a", ruling, "ada")
            assert (await home.book.entry(f"{kind}-a")).answer is None


async def test_the_same_is_not_taken_where_it_is_not_known_as_what(
    broker: EmbeddedBroker,
) -> None:
    """The record of the seam is gone, and with it the generation in front."""
    async with house(broker, SOURCE) as home:
        await home.init()
        await ask(home, "seam-a")
        with pytest.raises(NotFine, match="what it goes on from is not known"):
            await home.book.answer("seam-a", "same", "ada")
        assert (await home.book.answer("seam-a", "accept", "ada")).ruling is Ruling.ACCEPT


async def test_what_cannot_be_an_id_is_a_usage_error(broker: EmbeddedBroker) -> None:
    """Foreign text never becomes a filter that finds another question."""
    async with house(broker, SOURCE) as home:
        await home.init()
        await ask(home, "seam-a")
        for name in ("", "*", ">", "a.b", "seam-*", "A", "\u202e", "a" * 65):
            with pytest.raises(UsageError, match="no question's id"):
                await home.book.entry(name)
            with pytest.raises(UsageError, match="no question's id"):
                await home.book.answer(name, "accept", "ada")


async def test_an_unknown_id_and_a_bad_source_are_told_apart(broker: EmbeddedBroker) -> None:
    """The one may exist and does not, the other never can."""
    async with house(broker, SOURCE) as home:
        await home.init()
        with pytest.raises(NotFine, match="there is no question seam-a"):
            await home.book.entry("seam-a")
        with pytest.raises(UsageError, match="source"):
            await home.book.entries(source="or>ders")


async def test_an_actor_has_a_printable_name(broker: EmbeddedBroker) -> None:
    """Whoever reads the audit must not be shown another name than the one that is there."""
    async with house(broker, SOURCE) as home:
        await home.init()
        await ask(home, "seam-a")
        for actor in ("\x1b[31m", "a\nb", "\u202eada", "\udcff"):
            with pytest.raises(UsageError, match="no name"):
                await home.book.answer("seam-a", "accept", actor)
        assert (await home.book.entry("seam-a")).answer is None


async def test_another_programs_actor_is_shown_escaped(broker: EmbeddedBroker) -> None:
    """An answer may come from elsewhere; its text does not reach a terminal as it is."""
    async with house(broker, SOURCE) as home:
        await home.init()
        await ask(home, "seam-a")
        forged = Answer("seam-a", "orders", SEAM, Ruling.ACCEPT, "\x1b[31m\u202eeve", 0)
        subject = home.subjects.answer("seam-a")
        await home.connection.store(Message(subject, msgspec.json.encode(forged)))
        with pytest.raises(NotFine) as told:
            await home.book.answer("seam-a", "discard", "ada")
    assert str(told.value).isprintable()
    assert "eve" in str(told.value)


async def test_each_answer_is_in_the_audit(broker: EmbeddedBroker) -> None:
    """Who, what, about what, when and why; the note is bounded and survives odd text."""
    async with house(broker, SOURCE) as home:
        await home.init()
        await ask(home, "seam-a")
        await ask(home, "doubt-a", DOUBT)
        given = [
            await home.book.answer("seam-a", "accept", "ada", "x" * 10_000),
            await home.book.answer("doubt-a", "retry", "bob", "broken \udcff"),
        ]
        scan = home.connection.scan(AUDIT, home.subjects.audit("desk"))
        audit = [msgspec.json.decode(one.payload, type=AuditEntry) async for one in scan]
    assert [(one.actor, one.action, one.subject) for one in audit] == [
        ("ada", "answered accept", "seam-a"),
        ("bob", "answered retry", "doubt-a"),
    ]
    assert [one.at_ms for one in audit] == [answer.at_ms for answer in given]
    assert [len(one.detail) for one in audit] == [NOTE_CHARS_MAX, len("broken ?")]


async def test_a_question_of_a_newer_release_does_not_hide_the_others(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """It is left alone and named; the rest of the book can be read."""
    async with house(broker, SOURCE) as home:
        await home.init()
        await ask(home, "seam-a")
        newer = b'{"id":"riddle-a","kind":"riddle"}'
        await home.connection.store(Message(home.subjects.question("orders", "riddle-a"), newer))
        listed = [entry.question.id for entry in await home.book.entries()]
    assert listed == ["seam-a"]
    assert "riddle-a" in caplog.text


async def test_the_number_that_waits_is_what_is_held(broker: EmbeddedBroker) -> None:
    """Under a seam it is every event that is held, under anything else the one event."""
    async with house(broker, SOURCE) as home:
        await home.init()
        seam = await ask(home, seam_question_id("orders", SECOND))
        await ask(home, "doubt-a", DOUBT)
        held = msgspec.json.encode(Held("s", {}, b"", "shop", "charge"))
        for number in range(5):
            subject = home.subjects.held("orders", seam, f"row{number}")
            await home.connection.store(Message(subject, held))
        entries = {entry.question.id: entry.held for entry in await home.book.entries()}
    assert entries == {seam: 5, "doubt-a": 1}
