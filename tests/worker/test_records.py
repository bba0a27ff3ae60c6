"""A record that cannot be read stops what it is about, in one line, and nothing beside it."""

import logging
from pathlib import Path

import pytest

from fencepost.broker.embedded import EmbeddedBroker
from fencepost.desk.lineages import Following, Lineages
from fencepost.errors import NotFine, Unreadable
from fencepost.ports import Message, Stored, StoredMessage
from fencepost.records import read_record
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.question import QuestionKind, seam_question_id
from fencepost_schemas.row import State
from kit.command import configure, run_command
from kit.house import House, house
from kit.orders import TWO
from kit.pool import (
    SECOND,
    SHORT,
    SOURCE,
    Runs,
    app_with,
    doubtful,
    event,
    publish,
    publish_seam,
    see_questions,
    settle,
    states,
    working,
)
from kit.source import ScriptedSource
from kit.wait import until

GARBAGE = [
    b"",
    b"\xff\xfe",
    b"null",
    b'{"type":"io.nats.jetstream.api.v1.stream_msg_get_response"}',
    b"[" * 100_000,
    b'{"source":1}',
]


@pytest.mark.parametrize("payload", GARBAGE, ids=range(len(GARBAGE)))
def test_whatever_is_no_record_is_told_in_one_line(payload: bytes) -> None:
    """With the subject and the number of the message, and none of its bytes."""
    with pytest.raises(Unreadable) as raised:
        read_record(StoredMessage("fp.cursors.crm", 7, payload, {}), Cursor)
    text = str(raised.value)
    assert text.startswith("fp.cursors.crm (message 7): ") and "\n" not in text


async def put(home: House, subject: str, payload: bytes = b"garbage") -> None:
    assert isinstance(await home.connection.store(Message(subject, payload)), Stored)


async def test_a_cursor_stops_its_source_and_no_other(broker: EmbeddedBroker) -> None:
    """The bridge follows the other one, workers go on, and `sources ls` shows both."""
    runs = Runs()
    async with ScriptedSource(TWO) as source:
        plain = {"url": source.url, "keys": "durable", "key": "/k"}
        async with house(broker, {"orders": plain, "crm": plain}) as home:
            await home.init()
            await put(home, home.subjects.cursor("crm"))
            async with home.bridge(shares=True), home.worker(app_with(runs)):

                async def there() -> bool:
                    return len(await home.events()) >= 2

                await until(there, "the other source's events")
                entries = await Lineages(home.connection, home.subjects).entries()
                found = {entry.source: entry for entry in entries}
                assert Following.STOPPED is found["crm"].state
                assert "cannot read" in found["crm"].why
                assert not found["crm"].fine


async def test_a_roster_is_written_anew(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """It says who follows what; the cursors keep bridges apart without it."""
    async with ScriptedSource(TWO) as source:
        plain = {"url": source.url, "keys": "durable", "key": "/k"}
        async with house(broker, {"orders": plain}) as home:
            await home.init()
            await put(home, home.subjects.roster())
            async with home.bridge(shares=True):

                async def there() -> bool:
                    return len(await home.events()) >= 2

                await until(there, "the events")
            assert (await home.roster()).claims == {}
    assert "the roster is written anew" in caplog.text


async def test_an_answer_is_none_and_others_are_heard(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """What is held under it stays held; another event's doubt is answered as ever."""
    runs = Runs()
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        await publish_seam(home)
        await put(home, home.subjects.answer(seam_question_id("orders", SECOND)))
        with caplog.at_level(logging.ERROR):
            async with working(home, app_with(runs)):
                await publish(home, doubtful("held", "1"), event("a", "2"))
                await see_questions(home, 0, QuestionKind.SEAM)
                await until(lambda: runs.keys == ['{"k":"a"}'], "the other event")
                await settle(home, answers=False)
        listed = await home.book.entries(answered=True)
        assert {"k:a": State.APPLIED, "k:held": State.PENDING} == await states(home)
    assert [None] == [entry.answer for entry in listed]
    assert "counts as no answer" in caplog.text


async def test_an_identity_ends_a_worker_in_one_line(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """Nobody may work on a ledger that does not say which it is."""
    async with house(broker, SOURCE) as home:
        await home.init()
        await put(home, home.subjects.ledger_identity())
        async with home.worker(app_with(Runs())) as worker:
            with pytest.raises(NotFine, match="LedgerIdentity"):
                await worker
        configure(tmp_path, broker.url, SOURCE)
        for command in (("init",), ("ledger", "stats"), ("ledger", "adopt", "--yes")):
            ran = await run_command(*command, folder=tmp_path)
            assert "Traceback" not in ran.err
