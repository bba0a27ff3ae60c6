"""One port, one suite: every ledger answers every question alike.

In memory; on JetStream in memory, on one server and on three. The servers are started once, and
each test has a ledger that was made for it.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext

import msgspec
import pytest

from fencepost.broker.topology import stream_config
from fencepost.errors import Unreachable
from fencepost.ledgers.kv import KvLedger, ensure_identity
from fencepost.ledgers.memory import MemoryLedger
from fencepost.ports import Broker, Found, Ledger, Message, Stored, Written
from fencepost.testing.memory import MemoryBroker, MemoryConnection
from fencepost_schemas.limits import BATCH_ATOMIC_MIN, BATCH_MESSAGES_MAX
from fencepost_schemas.row import Row, State, UnknownRowVersion, encode_row
from fencepost_schemas.subject import LEDGER, Subjects, stream_plans
from kit.cluster import Cluster
from kit.rows import place_of, row
from kit.wait import until

SUBJECTS = Subjects()
PLACES = ["memory", "kv-memory", "kv-one-server", "kv-three-servers"]
PROBE = SUBJECTS.row("nobody", "nowhere", "probe")
NO_STREAM = 10059
LEDGER_PLAN = next(plan for plan in stream_plans("fp") if plan.name == LEDGER)

Clusters = Callable[[int], Cluster]


class Place(msgspec.Struct):
    """Where a ledger is kept. Each `opened` is one more process's way to the same rows."""

    opened: Callable[[], AbstractAsyncContextManager[Ledger]]
    put: Callable[[str, bytes], Awaitable[object]]
    ensure_identity: Callable[[str], Awaitable[str]]


# --- the places ---------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clusters]:
    """Start a cluster of a size when it is first asked for."""
    with contextlib.ExitStack() as running:
        made: dict[int, Cluster] = {}

        def cluster_of(size: int) -> Cluster:
            if size not in made:
                folder = tmp_path_factory.mktemp(f"cluster-{size}")
                made[size] = running.enter_context(Cluster(folder, size))
            return made[size]

        yield cluster_of


@pytest.fixture(params=PLACES)
async def place(request: pytest.FixtureRequest, clusters: Clusters) -> AsyncIterator[Place]:
    if request.param == "memory":
        yield in_memory()
    elif request.param == "kv-memory":
        broker = MemoryBroker()
        yield on_jetstream(MemoryConnection(broker), lambda: nullcontext(MemoryConnection(broker)))
    else:
        cluster = clusters(3 if request.param == "kv-three-servers" else 1)
        async with connected(cluster) as connection:
            await make_ledger(cluster)
            yield on_jetstream(connection, lambda: connected(cluster))


def in_memory() -> Place:
    kept = MemoryLedger()

    async def put(subject: str, payload: bytes) -> None:
        kept.put(subject, payload)

    async def identify(name: str) -> str:
        return kept.ensure_identity(name)

    return Place(lambda: nullcontext(kept), put, identify)


def on_jetstream(
    aside: Broker, connect: Callable[[], AbstractAsyncContextManager[Broker]]
) -> Place:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Ledger]:
        async with connect() as connection:
            made = KvLedger(connection, SUBJECTS)
            running = asyncio.create_task(made.run())
            try:
                yield made
                if running.done():
                    running.result()
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)

    async def put(subject: str, payload: bytes) -> None:
        assert isinstance(await aside.store(Message(subject, payload)), Stored)

    async def identify(name: str) -> str:
        return await ensure_identity(aside, SUBJECTS, name, 1)

    return Place(opened, put, identify)


@asynccontextmanager
async def connected(cluster: Cluster) -> AsyncIterator[Broker]:
    connection = await cluster.connect()
    try:
        yield connection
    finally:
        await connection.close()


async def make_ledger(cluster: Cluster) -> None:
    """Make the ledger's stream, anew where there is one, and return once it takes rows."""
    connection = await cluster.connect()

    async def gone() -> bool:
        with contextlib.suppress(Unreachable):
            reply = await connection.api(f"STREAM.DELETE.{LEDGER}")
            return bool(reply.get("error", {}).get("err_code") == NO_STREAM)
        return False

    async def made() -> bool:
        config = stream_config(LEDGER_PLAN, cluster.broker)
        with contextlib.suppress(Unreachable):
            reply = await connection.api(f"STREAM.CREATE.{LEDGER}", config)
            return bool(reply.get("config", {}).get("num_replicas") == cluster.size)
        return False

    async def led() -> bool:
        # Nobody listens for writes until the new stream has elected who leads it.
        with contextlib.suppress(Unreachable):
            return isinstance(await connection.store(Message(PROBE, b"")), Stored)
        return False

    try:
        await until(gone, "the ledger's old stream to be gone")
        await until(made, "the ledger's stream to be made")
        await until(led, "the ledger's stream to be led")
    finally:
        await connection.close()


# --- writing one row ----------------------------------------------------------------------------
def mine(key: str, claim: str = "first", state: State = State.STARTED) -> Row:
    return row(key, state, claim=claim)


async def written(kept: Ledger, one: Row, expect: int) -> int:
    """Write a row, which must be taken; return its revision."""
    result = await kept.write(place_of(one), one, expect)
    assert isinstance(result, Written)
    return result.revision


async def test_absent_inserted_updated(place: Place) -> None:
    """Each write names the revision that it is made upon, and gives the next one."""
    async with place.opened() as kept:
        where = place_of(mine("a"))
        assert Found(None, 0) == await kept.read(where)
        first = await written(kept, mine("a"), 0)
        assert Found(mine("a"), first) == await kept.read(where)
        second = await written(kept, mine("a", "second"), first)
        assert second > first > 0
        assert Found(mine("a", "second"), second) == await kept.read(where)
        done = await written(kept, mine("a", "second", State.APPLIED), second)
        assert Found(mine("a", "second", State.APPLIED), done) == await kept.read(where)


@pytest.mark.parametrize("expect", ["absent", "older", "never was"])
async def test_a_loser_is_told_what_stands(place: Place, expect: str) -> None:
    """An insert upon a row, an update upon what is over: the row, its revision, and no change."""
    async with place.opened() as kept:
        where = place_of(mine("a"))
        first = await written(kept, mine("a"), 0)
        second = await written(kept, mine("a", "second"), first)
        expected = {"absent": 0, "older": first, "never was": second + 1_000_000}[expect]
        lost = await kept.write(where, mine("a", "third"), expected)
        assert Found(mine("a", "second"), second) == lost
        assert lost == await kept.read(where)


async def test_an_update_never_makes_a_row(place: Place) -> None:
    """Where none stands, a ledger has lost its past: whoever updates is told so."""
    async with place.opened() as kept:
        where = place_of(mine("a"))
        assert Found(None, 0) == await kept.write(where, mine("a"), 7)
        assert Found(None, 0) == await kept.read(where)


async def test_a_write_that_stands_already_was_made(place: Place) -> None:
    """Its reply was lost and it is made again: the revision is that of the first time."""
    async with place.opened() as kept:
        first = await written(kept, mine("a"), 0)
        assert first == await written(kept, mine("a"), 0)
        second = await written(kept, mine("a", "second"), first)
        assert second == await written(kept, mine("a", "second"), first)
        # What is over may not come back by being the same: another write stands on top.
        lost = await kept.write(place_of(mine("a")), mine("a"), 0)
        assert Found(mine("a", "second"), second) == lost


async def test_rows_do_not_know_each_other(place: Place) -> None:
    """The same key for another handler, and in another namespace, is another row."""
    others = [
        mine("a"),
        msgspec.structs.replace(mine("a"), handler="refund"),
        msgspec.structs.replace(mine("a"), namespace="bills"),
    ]
    async with place.opened() as kept:
        revisions = [await written(kept, one, 0) for one in others]
        assert len(set(revisions)) == 3
        for one, revision in zip(others, revisions, strict=True):
            assert Found(one, revision) == await kept.read(place_of(one))


# --- many writes --------------------------------------------------------------------------------
SIZES = [2, BATCH_ATOMIC_MIN - 1, BATCH_ATOMIC_MIN, 300, BATCH_MESSAGES_MAX + 1]


@pytest.mark.parametrize("size", SIZES)
async def test_in_a_batch_each_is_told_the_truth(place: Place, size: int) -> None:
    """Every third row stands already: its insert loses, all others win, in a burst or a batch."""
    keys = [str(number) for number in range(size)]
    taken = keys[::3]
    async with place.opened() as kept:
        before = await asyncio.gather(*(written(kept, mine(key, "before"), 0) for key in taken))
        stands = dict(zip(taken, before, strict=True))
        results = await asyncio.gather(
            *(kept.write(place_of(mine(key)), mine(key, key), 0) for key in keys)
        )
        found = await asyncio.gather(*(kept.read(place_of(mine(key))) for key in keys))
    for key, result, standing in zip(keys, results, found, strict=True):
        if key in stands:
            assert Found(mine(key, "before"), stands[key]) == result == standing
        else:
            assert isinstance(result, Written)
            assert Found(mine(key, key), result.revision) == standing
    assert len({standing.revision for standing in found}) == size


@pytest.mark.parametrize("size", [3, BATCH_ATOMIC_MIN * 2])
async def test_in_a_batch_of_updates_the_stale_ones_lose(place: Place, size: int) -> None:
    """Half of them are made upon a revision that is over."""
    keys = [str(number) for number in range(size)]
    async with place.opened() as kept:
        first = await asyncio.gather(*(written(kept, mine(key), 0) for key in keys))
        newest = list(first)
        for number in range(0, size, 2):
            newest[number] = await written(kept, mine(keys[number], "newer"), first[number])
        results = await asyncio.gather(
            *(
                kept.write(place_of(mine(key)), mine(key, "last"), expect)
                for key, expect in zip(keys, first, strict=True)
            )
        )
    for number, result in enumerate(results):
        if number % 2 == 0:
            assert Found(mine(keys[number], "newer"), newest[number]) == result
        else:
            assert isinstance(result, Written)


@pytest.mark.parametrize("size", [3, BATCH_ATOMIC_MIN * 2])
async def test_writes_of_one_row_at_one_moment_are_decided_in_their_order(
    place: Place, size: int
) -> None:
    """The first insert wins and the others see it; rows around them are not disturbed."""
    claims = [f"claim {number}" for number in range(size)]
    async with place.opened() as kept:
        results = await asyncio.gather(
            *(kept.write(place_of(mine("a")), mine("a", claim), 0) for claim in claims),
            *(kept.write(place_of(mine(claim)), mine(claim), 0) for claim in claims),
        )
    first, losers, others = results[0], results[1:size], results[size:]
    assert isinstance(first, Written)
    assert [Found(mine("a", "claim 0"), first.revision)] * (size - 1) == losers
    assert all(isinstance(result, Written) for result in others)


# --- many writers -------------------------------------------------------------------------------
@pytest.mark.parametrize("size", [5, 200])
async def test_of_three_writers_exactly_one_wins_each_row(place: Place, size: int) -> None:
    """Three processes insert the same keys, in three orders: the losers are shown the winner."""
    keys = [str(number) for number in range(size)]
    orders = {"one": keys, "two": keys[::-1], "three": keys[size // 2 :] + keys[: size // 2]}

    async def race(kept: Ledger, claim: str) -> dict[str, Written | Found]:
        order = orders[claim]
        results = await asyncio.gather(
            *(kept.write(place_of(mine(key)), mine(key, claim), 0) for key in order)
        )
        return dict(zip(order, results, strict=True))

    async with place.opened() as one, place.opened() as two, place.opened() as three:
        ran = await asyncio.gather(race(one, "one"), race(two, "two"), race(three, "three"))
        told = dict(zip(orders, ran, strict=True))
        standing = {key: await three.read(place_of(mine(key))) for key in keys}
    for key in keys:
        winners = [claim for claim in orders if isinstance(told[claim][key], Written)]
        assert len(winners) == 1
        won = told[winners[0]][key]
        assert isinstance(won, Written)
        assert Found(mine(key, winners[0]), won.revision) == standing[key]
        assert all(told[claim][key] == standing[key] for claim in orders if claim != winners[0])


@pytest.mark.parametrize("writers", [2, 5])
async def test_a_row_that_all_update_goes_from_hand_to_hand(place: Place, writers: int) -> None:
    """Everybody reads and writes upon what was read until it is taken: none is overwritten."""
    rounds = 4

    async def count(kept: Ledger, name: str) -> None:
        for _ in range(rounds):
            found = await kept.read(place_of(mine("a")))
            while True:
                assert found.row is not None
                more = msgspec.structs.replace(found.row, attempt=found.row.attempt + 1)
                # A claim of its own: a write is known by what is in it.
                more = msgspec.structs.replace(more, claim=f"{name} {more.attempt}")
                result = await kept.write(place_of(more), more, found.revision)
                if isinstance(result, Written):
                    break
                found = result

    async with contextlib.AsyncExitStack() as stack:
        kept = [await stack.enter_async_context(place.opened()) for _ in range(writers)]
        start = mine("a")
        await written(kept[0], start, 0)
        await asyncio.gather(*(count(one, str(name)) for name, one in enumerate(kept)))
        last = (await kept[0].read(place_of(start))).row
    assert last is not None
    assert start.attempt + writers * rounds == last.attempt


async def test_a_leader_that_is_killed_takes_no_write_along(clusters: Clusters) -> None:
    """One of three servers dies, with bursts and batches in flight: each ends written, once."""
    cluster = clusters(3)
    await make_ledger(cluster)
    keys = [str(number) for number in range(BATCH_ATOMIC_MIN * 8)]
    async with connected(cluster) as aside:
        place = on_jetstream(aside, lambda: connected(cluster))
        async with place.opened() as one, place.opened() as two:
            await asyncio.gather(*(written(one, mine(key), 0) for key in keys[::2]))
            leader = await leader_of(cluster)
            writes = [
                asyncio.create_task(kept.write(place_of(mine(key)), mine(key, claim), 0))
                for kept, claim in ((one, "one"), (two, "two"))
                for key in keys[1::2]
            ]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            cluster.kill(leader)
            results = await asyncio.gather(*writes)
            found = [await two.read(place_of(mine(key))) for key in keys]
            cluster.start(leader)
    half = len(keys) // 2
    for mine_told, theirs, standing in zip(
        results[:half], results[half:], found[1::2], strict=True
    ):
        assert standing.row is not None
        won, lost = (mine_told, theirs) if standing.row.claim == "one" else (theirs, mine_told)
        assert (Written(standing.revision), standing) == (won, lost)
    assert all(one.row == mine(key) for key, one in zip(keys[::2], found[::2], strict=True))


async def leader_of(cluster: Cluster) -> str:
    connection = await cluster.connect()
    try:
        return str((await connection.api(f"STREAM.INFO.{LEDGER}"))["cluster"]["leader"])
    finally:
        await connection.close()


# --- rows of another release --------------------------------------------------------------------
UNKNOWN = [b'{"version":99,"state":"dreaming"}', b"\xff", b'{"version":1}', b"[" * 100_000]


@pytest.mark.parametrize("payload", UNKNOWN, ids=["newer", "garbage", "half a row", "too deep"])
@pytest.mark.parametrize("others", [3, BATCH_ATOMIC_MIN * 2])
async def test_a_row_that_is_not_known_is_left_alone(
    place: Place, payload: bytes, others: int
) -> None:
    """Neither absent nor written over, and its neighbours are not held up by it."""
    where = place_of(mine("a"))
    await place.put(where, payload)
    async with place.opened() as kept:
        with pytest.raises(UnknownRowVersion):
            await kept.read(where)
        unknown, *results = await asyncio.gather(
            kept.write(where, mine("a"), 0),
            *(kept.write(place_of(mine(str(one))), mine(str(one)), 0) for one in range(others)),
            return_exceptions=True,
        )
        with pytest.raises(UnknownRowVersion):
            await kept.read(where)
    assert isinstance(unknown, UnknownRowVersion)
    assert all(isinstance(result, Written) for result in results)


async def test_a_row_of_the_release_before_is_read_and_written_as_this_one(place: Place) -> None:
    """Read as this release would have written it, and upon the revision that it has."""
    old = msgspec.json.decode(encode_row(mine("a")), type=dict)
    old["version"] = 1
    await place.put(place_of(mine("a")), msgspec.json.encode(old))
    async with place.opened() as kept:
        found = await kept.read(place_of(mine("a")))
        assert mine("a") == found.row
        await written(kept, mine("a", "second"), found.revision)


# --- identity -----------------------------------------------------------------------------------
async def test_an_identity_is_made_once(place: Place) -> None:
    """None before, one for all who make it at one moment, and never another one."""
    async with place.opened() as one, place.opened() as two:
        assert await one.identity() is None
        made = await asyncio.gather(*(place.ensure_identity(name) for name in "abcdef"))
        assert len(set(made)) == 1
        assert made[0] in "abcdef"
        assert [made[0]] * 2 == [await one.identity(), await two.identity()]
        assert made[0] == await place.ensure_identity("g")
        await written(one, mine("a"), 0)
        assert made[0] == await two.identity()
