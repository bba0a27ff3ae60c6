"""Dead letters: listed, read as the data that they are, and dropped one by one."""

import msgspec
import pytest

from fencepost.broker.embedded import EmbeddedBroker
from fencepost.desk.graves import Graves, letter_of
from fencepost.errors import NotFine, UsageError
from fencepost.ports import StoredMessage
from fencepost_schemas.event import fingerprint_of
from fencepost_schemas.row import State
from kit.house import House, house
from kit.pool import SOURCE, Runs, app_with, dead, event, publish, settle, states, working
from kit.rows import audit, bury, place_of, put, put_raw, row


def graves_of(home: House) -> Graves:
    return Graves(home.connection, home.subjects)


async def test_what_the_pool_buries_can_be_read(broker: EmbeddedBroker) -> None:
    """Reason, attempts, the event with its bytes, the traceback, and the row that says so."""

    async def fail(payload: bytes, ctx: object) -> None:
        raise LookupError("no such account")

    async with house(broker, SOURCE) as home:
        await home.init()
        async with working(home, app_with(Runs(), fail, effect="idempotent")):
            await publish(home, event("a", "7"))
            await settle(home)
        (letter,) = (await graves_of(home).page()).letters
        report = await graves_of(home).report(letter.sequence)
    assert letter == report.letter
    assert "no such account" in letter.reason
    assert ("charge", "shop", "orders", "7", "task") == (
        letter.handler,
        letter.app,
        letter.source,
        letter.position,
        letter.type,
    )
    assert b'{"k":"a"}' == letter.payload
    assert fingerprint_of(letter.payload) == letter.headers["ce-fingerprint"]
    assert not [name for name in letter.headers if name.startswith("fencepost-")]
    assert report.row is not None
    assert report.row.row is not None
    assert State.REJECTED is report.row.row.state
    assert letter.attempts == str(report.row.row.attempt)
    assert "LookupError" in letter.traceback
    assert "\n" in letter.traceback


async def test_letters_are_filtered_and_paged(broker: EmbeddedBroker) -> None:
    """By handler at the broker, by text in the reason; each page goes on behind the last."""
    async with house(broker, SOURCE) as home:
        await home.init()
        for number in range(7):
            await bury(home, f"a{number}", error="No such account")
        odd = await bury(home, "b", handler="mail", error="too late")
        graves = graves_of(home)
        assert [odd] == [one.sequence for one in (await graves.page(handler="mail")).letters]
        assert [odd] == [one.sequence for one in (await graves.page(reason="LATE")).letters]
        assert 7 == len((await graves.page(reason="account")).letters)
        first = await graves.page(limit=5)
        assert first.next is not None
        second = await graves.page(limit=5, after=first.next)
        sequences = [one.sequence for one in first.letters + second.letters]
        assert (list(range(1, 9)), None) == (sequences, second.next)
        with pytest.raises(UsageError, match="is not a name"):
            await graves.page(handler=">")


async def test_a_letter_that_is_not_an_event(broker: EmbeddedBroker) -> None:
    """Whatever lies there is shown as far as it goes."""
    async with house(broker, SOURCE) as home:
        await home.init()
        sequence = await put_raw(home, home.subjects.dead("charge"), b"\xff\x00")
        report = await graves_of(home).report(sequence)
        odd = await bury(home, "a", row="fp.ledger.>", traceback="%zz%ff%1b")
        other = await graves_of(home).report(odd)
        halved = letter_of(await _with_half_a_character(home))
    assert (None, b"\xff\x00", "") == (report.row, report.letter.payload, report.letter.reason)
    assert ("", "") == (report.letter.source, report.letter.position)
    assert None is other.row
    assert msgspec.json.encode(halved)
    assert "?" == halved.position


async def _with_half_a_character(home: House) -> StoredMessage:
    stored = (await dead(home))[-1]
    headers = {**stored.headers, "ce-position": "%ED%A0%80"}
    return msgspec.structs.replace(stored, headers=headers)


async def test_a_letter_is_dropped(broker: EmbeddedBroker) -> None:
    """That one and no other; its row stays rejected; the audit says who and what."""
    async with house(broker, SOURCE) as home:
        await home.init()
        rejected = row("k:a", State.REJECTED)
        await put(home, rejected)
        kept = await bury(home, "z")
        sequence = await bury(home, "a", row=place_of(rejected))
        graves = graves_of(home)
        letter = await graves.letter(sequence)
        with pytest.raises(UsageError, match="no name"):
            await graves.drop(letter, "\u202eada")
        await graves.drop(letter, "ada")
        assert [kept] == [one.sequence for one in await dead(home)]
        assert {"k:a": State.REJECTED} == await states(home)
        (entry,) = await audit(home)
        for gone in (sequence, 0, 99):
            with pytest.raises(NotFine, match="there is no dead letter"):
                await graves.letter(gone)
        with pytest.raises(NotFine, match="stream FENCEPOST_DEAD"):
            await graves.drop(letter, "ada")
        assert 1 == len(await audit(home))
    assert ("ada", "dropped a dead letter") == (entry.actor, entry.action)
    assert f"fp.dead.charge {sequence}" == entry.subject
    assert "no such account" in entry.detail
