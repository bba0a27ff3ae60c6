"""Copies of the ledger: put back into an empty one, into the same one, and into no other."""

from collections.abc import Sequence

import msgspec
import pytest

from fencepost.broker.embedded import EmbeddedBroker
from fencepost.desk.adoption import IMPORTING
from fencepost.desk.copies import Copies, Imported, check
from fencepost.errors import LedgerDiffers, NotFine, UsageError
from fencepost.ledgers.kv import read_identity
from fencepost.ports import Message, NotStored, Stored
from fencepost_schemas.row import State
from fencepost_schemas.subject import EVENTS, LEDGER
from kit.house import House, house
from kit.orders import orders
from kit.pool import SOURCE, Runs, app_with, event, publish, settle, states, working
from kit.rows import SUBJECTS, audit, place_of, put, put_raw, row

NEWER = b'{"version":99,"key":"x"}'
BROKEN = b"\xff not a row"


async def copied(home: House) -> list[bytes]:
    identity = await read_identity(home.connection, home.subjects)
    return [line async for line in Copies(home.connection, home.subjects).lines(identity)]


async def put_back(home: House, lines: Sequence[bytes]) -> Imported:
    checked = check(lines, home.subjects)
    return await Copies(home.connection, home.subjects).put_back(checked, lines, "ada")


async def standing(home: House) -> dict[str, bytes]:
    """Return the bytes of every row by its subject."""
    scan = home.connection.scan(LEDGER, home.subjects.rows())
    return {one.subject: one.payload async for one in scan}


async def lose_the_ledger(home: House) -> None:
    await home.connection.api(f"STREAM.DELETE.{LEDGER}")
    with pytest.raises(LedgerDiffers):
        await home.init()


async def test_the_restore_drill(broker: EmbeddedBroker) -> None:
    """Copied, lost, made again, put back: the workers go on, and nothing is applied twice."""
    async with house(broker, SOURCE) as home:
        identity = (await home.init()).ledger
        runs = Runs()
        every = [event(f"k{number}", str(number)) for number in range(40)]
        async with working(home, app_with(runs)):
            await publish(home, *every)
            await settle(home)
        before, lines = await standing(home), await copied(home)

        await lose_the_ledger(home)
        done = await put_back(home, lines)
        assert (40, 0, 0, identity, []) == (
            done.inserted,
            done.stood,
            done.differing,
            done.identity,
            done.moved,
        )
        assert before == await standing(home)

        await home.init()
        async with working(home, app_with(runs)):
            # The source brings all of it again, as after a break.
            await publish(home, *every, event("new", "41"))
            await settle(home)
        assert (41, 1) == (len(runs.started), runs.most)
        (entry,) = await audit(home)
    assert (entry.actor, entry.action) == ("ada", "imported into the ledger")
    assert entry.subject == identity


async def test_a_source_that_went_on_keeps_the_copy_from_passing(broker: EmbeddedBroker) -> None:
    """What was applied after the copy is not in it, so the pins must not hold."""
    async with house(broker, orders("http://127.0.0.1:9/")) as home:
        identity = (await home.init()).ledger
        cursor = msgspec.structs.replace(await home.cursor(), fresh=False, published=5)
        payload = msgspec.json.encode(cursor)
        await put_raw(home, home.subjects.cursor("orders"), payload)
        await put(home, row("k:a"))
        lines = await copied(home)
        moved = msgspec.structs.replace(cursor, published=6)
        await put_raw(home, home.subjects.cursor("orders"), msgspec.json.encode(moved))
        await lose_the_ledger(home)
        done = await put_back(home, lines)
        assert (["orders"], 1) == (done.moved, done.inserted)
        assert identity != done.identity
        assert done.identity == await read_identity(home.connection, home.subjects)
        with pytest.raises(LedgerDiffers):
            await home.init()


async def test_a_row_that_stands_is_never_overwritten(broker: EmbeddedBroker) -> None:
    """Into the same ledger only what is absent goes; what differs is counted and named."""
    async with house(broker, SOURCE) as home:
        await home.init()
        await put(home, row("k:a"), row("k:b", State.STARTED), row("k:c"))
        lines = await copied(home)
        await put(home, row("k:b", State.APPLIED))
        missing = [*lines[:-1], _line(row("k:new")), b'{"is":"end","rows":4}\n']
        done = await put_back(home, missing)
        assert (1, 2, 1) == (done.inserted, done.stood, done.differing)
        assert [f"{place_of(row('k:b'))}: applied here, started in the copy"] == done.differing_rows
        assert State.APPLIED is (await states(home))["k:b"]
        again = await put_back(home, missing)
        assert (0, 3, 1) == (again.inserted, again.stood, again.differing)


async def test_what_this_release_cannot_read_is_carried(broker: EmbeddedBroker) -> None:
    """Byte for byte: left out, it would be a row that was never there."""
    async with house(broker, SOURCE) as home:
        await home.init()
        await put_raw(home, SUBJECTS.row("charge", "orders", "newer"), NEWER)
        await put_raw(home, SUBJECTS.row("charge", "orders", "broken"), BROKEN)
        await put_raw(home, SUBJECTS.row("charge", "orders", "lines"), b'{\n"version":99}')
        before, lines = await standing(home), await copied(home)
        await lose_the_ledger(home)
        assert 3 == (await put_back(home, lines)).inserted
        assert before == await standing(home)


async def test_another_ledger_is_refused(broker: EmbeddedBroker) -> None:
    """One with rows of its own, one that a source began with, one half full of another copy."""
    async with house(broker, SOURCE) as home:
        await home.init()
        await put(home, row("k:a"))
        lines = await copied(home)
        other = [lines[0].replace(b'"identity":"', b'"identity":"x'), *lines[1:]]
        with pytest.raises(NotFine, match="has rows of its own"):
            await put_back(home, other)
        assert 1 == len(await standing(home))
    async with house(broker, SOURCE) as home:
        await home.connection.api(f"STREAM.DELETE.{LEDGER}")
        await home.connection.api(f"STREAM.DELETE.{EVENTS}")
        mine = (await home.init()).ledger
        with pytest.raises(NotFine, match=f"{mine}, and orders began with it"):
            await put_back(home, lines)
        with pytest.raises(UsageError, match="no name"):
            await Copies(home.connection, home.subjects).put_back(
                check(lines, home.subjects), lines, "\n"
            )
        assert {} == await standing(home)


async def test_an_import_that_breaks_off_is_gone_on_with(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Meanwhile no worker takes the half of it for the whole, nor another copy its place."""
    async with house(broker, SOURCE) as home:
        identity = (await home.init()).ledger
        await put(home, *(row(f"k:{number}") for number in range(300)))
        lines = await copied(home)
        await lose_the_ledger(home)
        batches = 0
        store_batch = home.connection.store_batch

        async def broken(messages: Sequence[Message]) -> Stored | NotStored:
            nonlocal batches
            batches += 1
            if batches == 2:
                raise NotFine("the disk is full")
            return await store_batch(messages)

        monkeypatch.setattr(home.connection, "store_batch", broken)
        with pytest.raises(NotFine, match="the disk is full"):
            await put_back(home, lines)
        marked = await read_identity(home.connection, home.subjects)
        assert IMPORTING + identity == marked
        assert 0 < len(await standing(home)) < 300
        with pytest.raises(LedgerDiffers):
            await home.init()
        with pytest.raises(NotFine, match="no identity of its own yet"):
            await copied(home)
        other = [lines[0].replace(b'"identity":"', b'"identity":"x'), *lines[1:]]
        with pytest.raises(NotFine, match="finish that one first"):
            await put_back(home, other)
        monkeypatch.undo()
        done = await put_back(home, lines)
        assert (300, identity) == (done.inserted + done.stood, done.identity)
        assert 300 == len(await standing(home))
        await home.init()


async def test_a_row_that_is_there_twice(broker: EmbeddedBroker) -> None:
    """It was written while the copy was taken; the later line is the newer row."""
    async with house(broker, SOURCE) as home:
        await home.init()
        await put(home, row("k:a", State.STARTED))
        lines = await copied(home)
        both = [*lines[:-1], _line(row("k:a", State.APPLIED)), b'{"is":"end","rows":2}\n']
        await lose_the_ledger(home)
        done = await put_back(home, both)
        assert (1, 1) == (done.rows, done.inserted)
        assert {"k:a": State.APPLIED} == await states(home)


def _line(one: object, subject: str = "") -> bytes:
    place = subject or place_of(one)  # type: ignore[arg-type]
    return msgspec.json.encode({"is": "row", "subject": place, "row": one}) + b"\n"


HEAD = (
    b'{"is":"fencepost-ledger","version":1,"identity":"abc","prefix":"fp","taken_ms":1,'
    b'"sources":{}}\n'
)
END = b'{"is":"end","rows":1}\n'
ROW = _line(row("k:a"))
GARBAGE: dict[str, tuple[list[bytes], str]] = {
    "empty": ([], "the file is empty"),
    "no JSON": ([b"hello\n"], "line 1: "),
    "no header": ([ROW, END], "line 1: .*first line"),
    "no UTF-8": ([HEAD, b"\xff\xfe\n"], "line 2: "),
    "deep": ([HEAD, b'{"is":"row","subject":' + b"[" * 100_000], "line 2: "),
    "newer": ([HEAD.replace(b'"version":1', b'"version":2')], "line 1: .*version 2"),
    "prefix": ([HEAD.replace(b'"fp"', b'"xy"'), ROW, END], "line 1: .*set broker.prefix"),
    "no identity": ([HEAD.replace(b'"abc"', b'""'), ROW, END], "line 1: .*without an identity"),
    "half done": ([HEAD.replace(b"abc", b"importing-a"), ROW, END], "line 1: .*without an id"),
    "two headers": ([HEAD, HEAD, ROW, END], "line 2: a second beginning"),
    "cut off": ([HEAD, ROW], "cut off behind line 2"),
    "a line less": ([HEAD, END], "cut off behind line 2"),
    "cut in a line": ([HEAD, ROW, END[:-9]], "line 3: "),
    "behind the end": ([HEAD, ROW, END, ROW], "line 4: something comes behind the end"),
    "no row": ([HEAD, _line({"a": 1}, place_of(row("k:a"))), END], "line 2: not a ledger row"),
    "null": ([HEAD, _line(None, place_of(row("k:a"))), END], "line 2: "),
    "another's place": ([HEAD, _line(row("k:b"), place_of(row("k:a"))), END], "line 2: the row is"),
    "no place": ([HEAD, _line(row("k:a"), "fp.ledger.>"), END], "line 2: .*not a row's subject"),
    "identity": ([HEAD, _line(row("k:a"), "fp.ledger.identity"), END], "line 2: .*not a row's"),
    "events": ([HEAD, _line(row("k:a"), "fp.events.a.b.c"), END], "line 2: .*not a row's"),
}


@pytest.mark.parametrize("case", GARBAGE)
def test_garbage_is_refused_by_its_line(case: str) -> None:
    """Before anything is inserted, and in one line that can be printed."""
    lines, said = GARBAGE[case]
    with pytest.raises(UsageError, match=said) as refused:
        check(lines, SUBJECTS)
    assert "\n" not in str(refused.value)


def test_a_good_copy_is_taken() -> None:
    """Rows, header and end as they were written."""
    checked = check([HEAD, ROW, END], SUBJECTS)
    assert {place_of(row("k:a")): 2} == checked.lines
    assert "abc" == checked.header.identity
