"""The ledger as a person looks at it: filters, pages, counts, and the one thing that changes."""

from collections.abc import AsyncIterator

import msgspec
import pytest

from fencepost.broker.embedded import EmbeddedBroker
from fencepost.desk.rows import Rows
from fencepost.desk.sweep import sweep
from fencepost.errors import NotFine, UsageError
from fencepost.ports import Message, StoredMessage
from fencepost_schemas.row import Effect, Row, State, encode_row
from fencepost_schemas.subject import LEDGER
from kit.house import House, house
from kit.pool import SHORT, SOURCE, Runs, app_with, event, publish, settle, states, working
from kit.rows import audit, place_of, put, put_raw, row

NEWER = b'{"version":99,"whatever":1}'


def rows_of(home: House) -> Rows:
    return Rows(home.connection, home.subjects)


async def test_rows_are_filtered(broker: EmbeddedBroker) -> None:
    """By handler and namespace at the broker, by state while reading; unknown ones are shown."""
    async with house(broker, SOURCE) as home:
        await home.init()
        await put(
            home,
            row("k:a"),
            row("k:b", State.IN_DOUBT),
            row("k:c", handler="mail"),
            row("k:d", namespace="crm"),
        )
        await put_raw(home, home.subjects.row("charge", "orders", "newer"), NEWER)
        rows = rows_of(home)

        async def keys(**filters: object) -> list[str]:
            # The filters differ in type, and are handed on as they are.
            page = await rows.page(**filters)  # type: ignore[arg-type]
            return [one.row.key if one.row is not None else one.state for one in page.rows]

        assert ["k:a", "k:b", "k:c", "k:d", "unreadable"] == await keys()
        assert ["k:c"] == await keys(handler="mail")
        assert ["k:d"] == await keys(namespace="crm")
        assert ["k:b"] == await keys(states=["in_doubt", "pending"])
        assert ["unreadable"] == await keys(states=["unreadable"])
        assert [] == await keys(handler="nobody")
        with pytest.raises(UsageError, match="is not a name"):
            await keys(handler="*")


async def test_pages_follow_one_another(broker: EmbeddedBroker) -> None:
    """Each row is on one page, in order; the last page says that it is the last."""
    async with house(broker, SOURCE) as home:
        await home.init()
        every = [f"k:{number}" for number in range(23)]
        await put(home, *(row(key) for key in every))
        rows, found, after, pages = rows_of(home), list[str](), 0, 0
        while True:
            page = await rows.page(limit=5, after=after)
            found += [one.row.key for one in page.rows if one.row is not None]
            pages += 1
            if page.next is None:
                break
            after = page.next
        assert (every, 5) == (found, pages)
        assert None is (await rows.page(limit=23)).next


async def test_a_sweep_misses_nothing_that_moves(broker: EmbeddedBroker) -> None:
    """A row that is rewritten while it is read is there, with its newer state last."""
    async with house(broker, SOURCE) as home:
        await home.init()
        count = 300
        messages = [
            Message(place_of(one), encode_row(one))
            for one in (row(f"k:{number}", State.STARTED) for number in range(count))
        ]
        await home.connection.store_batch(messages)
        last: dict[str, bytes] = {}
        number, told = 0, list[tuple[int, int]]()
        scan = sweep(
            home.connection,
            LEDGER,
            home.subjects.rows(),
            told=lambda done, of: told.append((done, of)),
        )
        async for stored in scan:
            last[stored.subject] = stored.payload
            if number < count:
                await put(home, row(f"k:{count - 1 - number}", State.APPLIED))
                number += 1
        assert count == len(last)
        applied = [msgspec.json.decode(payload)["state"] for payload in last.values()]
        assert {"applied"} == set(applied)
        assert told[-1][0] == told[-1][1]


async def test_a_sweep_ends_though_rows_are_written_as_fast_as_they_are_read(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pool at work never rests; what was there when the sweep began is there all the same."""
    async with house(broker, SOURCE) as home:
        await home.init()
        await put(home, *(row(f"k:{number}") for number in range(20)))
        read = home.connection.scan

        async def scan(stream: str, subject: str, sequence: int) -> AsyncIterator[StoredMessage]:
            async for stored in read(stream, subject, sequence):
                await put(home, row("k:busy"))
                yield stored

        monkeypatch.setattr(home.connection, "scan", scan)
        found = [one async for one in sweep(home.connection, LEDGER, home.subjects.rows())]
        subjects = {one.subject for one in found}
        assert {place_of(row(f"k:{number}")) for number in range(20)} <= subjects
        assert place_of(row("k:busy")) in subjects


async def test_a_row_is_found_by_what_is_known_of_it(broker: EmbeddedBroker) -> None:
    """By the ledger's key, the source's key, its digest or its subject; with its conflicts."""
    async with house(broker, SOURCE) as home:
        await home.init()
        one, other = row("k:a"), row("k:ab")
        beside = row("c:k:a:f00", State.CONFLICT)
        await put(home, one, other, beside, row("c:k:ab:f00", State.CONFLICT))
        rows, subject = rows_of(home), place_of(one)
        digest = subject.rsplit(".", 1)[1]
        named = [("charge", "orders", "k:a"), ("charge", "orders", "a"), (digest,), (subject,)]
        for names in named:
            report = await rows.report(*names)
            assert one == report.entry.row
            assert [beside] == [conflict.row for conflict in report.conflicts]


@pytest.mark.parametrize(
    ("named", "error", "said"),
    [
        (("charge", "orders", "zz"), NotFine, "there is no row"),
        (("charge",), NotFine, "there is no row"),
        (("CHARGE", "orders", "a"), UsageError, "is not a name"),
        (("charge", "o*", "a"), UsageError, "is not a name"),
        (("*",), UsageError, "may not stand in a subject"),
        (("fp.ledger.>",), UsageError, "not a row's subject"),
        (("fp.ledger.identity",), UsageError, "not a row's subject"),
        (("fp.events.a.b.c",), UsageError, "not a row's subject"),
        (("charge", "orders"), UsageError, "HANDLER NAMESPACE KEY"),
    ],
)
async def test_a_row_that_is_not_there(
    broker: EmbeddedBroker, named: tuple[str, ...], error: type[Exception], said: str
) -> None:
    """No wildcard reaches the broker, and each error says what would be right."""
    async with house(broker, SOURCE) as home:
        await home.init()
        with pytest.raises(error, match=said):
            await rows_of(home).find(*named)


async def test_the_ledger_is_counted(broker: EmbeddedBroker) -> None:
    """By handler and state; what has been open for longest comes first."""
    async with house(broker, SOURCE) as home:
        await home.init()
        await put(home, row("k:a"), row("k:b"), row("k:c", handler="mail"))
        for number in range(7):
            open_row = row(f"k:o{number}", State.IN_DOUBT, first_seen_ms=1_000 - number)
            await put(home, open_row)
        await put_raw(home, home.subjects.row("mail", "orders", "newer"), NEWER)
        counted = await rows_of(home).count()
    assert counted.rows == 11
    assert counted.counts == {
        "charge": {"applied": 2, "in_doubt": 7},
        "mail": {"applied": 1, "unreadable": 1},
    }
    oldest = [one.row.key for one in counted.oldest_open if one.row is not None]
    assert oldest == ["k:o6", "k:o5", "k:o4", "k:o3", "k:o2"]


# --- release ------------------------------------------------------------------------------------
async def running_row(home: House, state: State = State.STARTED, **fields: object) -> Row:
    now_ms = await home.connection.clock_ms(LEDGER)
    leased = {"lease_until_ms": now_ms + 60_000, "quarantine_until_ms": now_ms + 90_000}
    one = row("k:a", state, owner="worker-dead", claim="c", **{**leased, **fields})
    await put(home, one)
    return one


@pytest.mark.parametrize("state", [State.CLAIMED, State.STARTED])
async def test_a_lease_is_ended(broker: EmbeddedBroker, state: State) -> None:
    """Now, and nothing else of the row changes; the quarantine stays; the audit knows."""
    async with house(broker, SOURCE) as home:
        await home.init()
        before = await running_row(home, state)
        rows = rows_of(home)
        released = await rows.release(await rows.releasable("charge", "orders", "a"), "ada")
        (stands,) = await home.rows()
        (entry,) = await audit(home)
        assert released == stands
        assert stands.lease_until_ms <= await home.connection.clock_ms(LEDGER)
    untouched = {"lease_until_ms": 0, "changed_ms": 0}
    assert msgspec.structs.replace(before, **untouched) == msgspec.structs.replace(
        stands, **untouched
    )
    assert (entry.actor, entry.action, entry.subject) == (
        "ada",
        "released the lease",
        place_of(before),
    )
    assert "worker-dead" in entry.detail


@pytest.mark.parametrize("state", [one for one in State if one not in ("claimed", "started")])
async def test_what_no_worker_has_is_not_released(broker: EmbeddedBroker, state: State) -> None:
    """Terminal, parked or waiting rows have no lease."""
    async with house(broker, SOURCE) as home:
        await home.init()
        await put(home, row("k:a", state))
        said = "final" if state.terminal else "no worker has it"
        with pytest.raises(NotFine, match=said):
            await rows_of(home).releasable("charge", "orders", "a")
        assert [] == await audit(home)


async def test_a_lease_that_is_over_or_a_row_that_moved_on(broker: EmbeddedBroker) -> None:
    """Neither is changed, nor a row of a newer release; each says why."""
    async with house(broker, SOURCE) as home:
        await home.init()
        rows = rows_of(home)
        await running_row(home, lease_until_ms=1)
        with pytest.raises(NotFine, match="its lease is over since 1970"):
            await rows.releasable("charge", "orders", "a")
        before = await running_row(home)
        seen = await rows.releasable("charge", "orders", "a")
        renewed = msgspec.structs.replace(before, lease_until_ms=before.lease_until_ms + 1)
        await put(home, renewed)
        with pytest.raises(NotFine, match="somebody else just now"):
            await rows.release(seen, "ada")
        assert [renewed] == await home.rows()
        await put_raw(home, home.subjects.row("charge", "orders", "newer"), NEWER)
        with pytest.raises(NotFine, match=r"version 99.*left alone"):
            await rows.releasable("newer")
        with pytest.raises(UsageError, match="no name"):
            await rows.release(seen, "\x1b[31m")
        assert [] == await audit(home)


async def test_a_released_row_is_taken_up_by_another_worker(broker: EmbeddedBroker) -> None:
    """An idempotent handler runs again long before the lease would have been over."""
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        one = event("a")
        await running_row(home, fingerprint=one.fingerprint, effect=Effect.IDEMPOTENT)
        rows, runs = rows_of(home), Runs()
        await rows.release(await rows.releasable("charge", "orders", "a"), "ada")
        async with working(home, app_with(runs, effect="idempotent")):
            await publish(home, one)
            await settle(home)
        assert {"k:a": State.APPLIED} == await states(home)
        assert [2] == [attempt for _, attempt in runs.started]
