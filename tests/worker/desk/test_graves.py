"""Dead letters: listed, read as the data that they are, and dropped one by one."""

import msgspec
import pytest
from msgspec import Struct

from fencepost import Fencepost, Reject
from fencepost.broker.embedded import EmbeddedBroker
from fencepost.desk.graves import Graves, letter_of
from fencepost.errors import NotFine, UsageError
from fencepost.ports import StoredMessage
from fencepost_schemas.event import fingerprint_of
from fencepost_schemas.row import State
from kit.house import House, house
from kit.pool import SOURCE, Runs, app_with, dead, event, publish, settle, states, working
from kit.rows import audit, bury, place_of, put, put_raw, row
from kit.wait import until


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


# --- once more ----------------------------------------------------------------------------------
def app_that_is_mended(runs: Runs, mended: list[bool]) -> Fencepost:
    """Return an app whose handler rejects everything until it is mended."""

    async def behave(payload: bytes, ctx: object) -> None:
        if not mended:
            raise Reject("no such account")

    return app_with(runs, behave)


async def test_a_letter_is_tried_once_more(broker: EmbeddedBroker) -> None:
    """One more attempt of the same row, on the word of whoever says so; a second word is late."""
    runs, mended = Runs(), list[bool]()
    async with house(broker, SOURCE) as home:
        await home.init()
        graves = graves_of(home)
        async with working(home, app_that_is_mended(runs, mended)):
            await publish(home, event("a"))
            await settle(home)
            (letter,) = (await graves.page()).letters
            mended.append(True)
            answer = await graves.replay(letter, "ada")
            await until(lambda: len(runs.done) == 1, "the event to be run again")
            await settle(home)
            with pytest.raises(NotFine, match="its row is applied"):
                await graves.replay(letter, "ada")
        (final,) = await home.rows()
        assert [] == await home.book.entries(answered=True)
        said = [(entry.actor, entry.action) for entry in await audit(home)]
    assert (State.APPLIED, 2, "ada") == (final.state, final.attempt, final.actor)
    assert answer.letter == letter.sequence
    assert [("ada", "answered retry")] == said


async def test_a_letter_that_fails_again_is_another_letter(broker: EmbeddedBroker) -> None:
    """Each attempt that is rejected can be tried once more, and the old letter cannot."""
    runs = Runs()
    async with house(broker, SOURCE) as home:
        await home.init()
        graves = graves_of(home)
        async with working(home, app_that_is_mended(runs, [])):
            await publish(home, event("a"))
            await settle(home)
            (first,) = (await graves.page()).letters
            await graves.replay(first, "ada")

            async def buried_again() -> bool:
                return len((await graves.page()).letters) == 2

            await until(buried_again, "a second letter")
            await settle(home)
            _, second = (await graves.page()).letters
            with pytest.raises(NotFine, match="not what was rejected"):
                await graves.replay(first, "ada")
            await graves.replay(second, "ada")
            await until(lambda: len(runs.started) == 3, "a third attempt")
            await settle(home)


async def test_what_cannot_be_read_is_buried_again(broker: EmbeddedBroker) -> None:
    """The handler never sees what it does not take, whoever wishes it."""
    app = Fencepost("shop")
    seen: list[object] = []

    @app.on("task", name="charge")
    async def charge(task: Struct) -> None:
        seen.append(task)

    async with house(broker, SOURCE) as home:
        await home.init()
        graves = graves_of(home)
        async with working(home, app):
            await publish(home, event("a", payload=b"[1]"))
            await settle(home)
            (letter,) = (await graves.page()).letters
            await graves.replay(letter, "ada")

            async def buried_again() -> bool:
                return len((await graves.page()).letters) == 2

            await until(buried_again, "a second letter")
            await settle(home)
        assert State.REJECTED is (await states(home))["k:a"]
    assert [] == seen


async def test_a_conflict_cannot_be_tried_again(broker: EmbeddedBroker) -> None:
    """Its letter names the first row, which has nothing to do with these bytes."""
    async with house(broker, SOURCE) as home:
        await home.init()
        async with working(home, app_with(Runs())):
            await publish(home, event("a"))
            await settle(home)
            await publish(home, event("a", "2", payload=b'{"k":"a","other":1}'))
            await settle(home)
        (letter,) = (await graves_of(home).page()).letters
        with pytest.raises(NotFine, match="cannot be tried again"):
            await graves_of(home).replay(letter, "ada")
