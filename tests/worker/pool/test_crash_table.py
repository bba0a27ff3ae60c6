"""The table of crash points (docs/ledger.md), line by line, for each effect, in both places.

A line is played once for all effects; every cell is a test. A cell says how the row stands at the
end, how often the handler began, and what its receiver saw: `applied 2/1` began twice and happened
once. Each life ends with nothing left to do, and with a question exactly where it is in doubt.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fencepost import Context
from fencepost_schemas.event import KeyScope
from fencepost_schemas.row import State
from fencepost_schemas.standing import Standing
from fencepost_schemas.subject import LEDGER
from kit.anywhere import play_in_memory, play_on_broker
from kit.house import House, make_settings
from kit.lives import EFFECTS, Life
from kit.pool import SECOND, SHORT, SOURCE, CrashAt, held
from kit.wait import until
from kit.wires import AckLost, AtWrite, BrokerClockSet, LedgerAway, Wall, Wire

SEEDS = 5
SKEW_MS = 600_000
NARROW = {**SHORT, "slots": 1}
"""A worker that has an event does not ask for another one, so another one gets it again."""
HOUR_MS = 3_600_000
AGAIN = 5
"""Given so often, with a renewal of the lease in between, an event has outlived several leases."""
RENEWED = {"slots": 1, "handler_timeout_s": 20.0, "lease_s": 1.5, "ack_wait_s": 25.0}
PATIENT = {"slots": 1, "handler_timeout_s": 20.0, "lease_s": 25.0, "ack_wait_s": 30.0}


# --- what happens -------------------------------------------------------------------------------
def dies_at(point: str, nth: int = 1) -> Callable[[Life], Awaitable[None]]:
    async def play(life: Life) -> None:
        await life.comes()
        await life.is_cut_short(reached=CrashAt(point, nth))
        await life.goes_on()

    return play


def dies_writing(*states: State, stored: bool) -> Callable[[Life], Awaitable[None]]:
    """Die at the first write of a row in one of these states."""

    async def play(life: Life) -> None:
        await life.comes()
        state = states[life.effect == "barrier" and len(states) > 1]
        await life.is_cut_short(wire=AtWrite(state, stored=stored, dies=True))
        await life.goes_on()

    return play


def unheard(*states: State, stored: bool) -> Callable[[Life], Awaitable[None]]:
    """Go on without the reply to the first write of a row in one of these states."""

    async def play(life: Life) -> None:
        await life.comes()
        state = states[life.effect == "barrier" and len(states) > 1]
        await life.goes_on(wire=AtWrite(state, stored=stored, dies=False))

    return play


async def dies_checking(life: Life) -> None:
    life.checker = lambda: True
    await life.comes()
    await life.is_cut_short(reached=CrashAt("ran"))
    await life.is_cut_short(reached=CrashAt("verified"))
    await life.goes_on()
    assert 2 == life.checked
    assert "verify" == (await life.row()).actor


async def dies_past_its_receivers_memory(life: Life) -> None:
    life.sink_s = 1.5
    await life.comes()
    await life.is_cut_short(reached=CrashAt("ran"))
    await life.goes_on()


async def is_frozen(life: Life) -> None:
    """Nothing stops the handler at its limit; it goes on when another worker has had its turn."""
    thaw = asyncio.Event()

    async def frozen(ctx: Context) -> None:
        while ctx.attempt == 1 and not thaw.is_set():
            try:
                await thaw.wait()
            except asyncio.CancelledError:
                continue

    async def taken_over() -> bool:
        return (await life.row()).state in (State.IN_DOUBT, State.APPLIED)

    life.before = frozen
    await life.comes()
    async with life.worker():
        await life.begun.wait()
        async with life.worker():
            await until(taken_over, "another worker to have its turn")
            before = await life.row()
            thaw.set()
            await life.rests()
    assert before == await life.row()


async def loses_its_ack(life: Life) -> None:
    await life.comes()
    wire = AckLost(life.payload)
    async with life.worker(wire=wire):
        await until(lambda: wire.lost, "the ack to be lost")
        await life.rests()
    assert 2 == len([one for one in wire.deliveries if one.payload == life.payload])


Meanwhile = Callable[[Life, Wall, Wall, Wire], Awaitable[None]]
"""What happens once a handler runs: its worker's clock, the other's, and the other's wire."""


async def nothing_happens(life: Life, has: Wall, other: Wall, wire: Wire) -> None:
    """Neither clock is set."""


def comes_again_while_it_runs(
    skew_ms: int = 0,
    meanwhile: Meanwhile = nothing_happens,
    wires: Callable[[], tuple[Wire, Wire]] = lambda: (Wire(), Wire()),
    times: int = 1,
) -> Callable[[Life], Awaitable[None]]:
    """The broker hands it to the other worker, too, which finds that somebody is at it.

    It is handed on so many times, and between two of them its lease is renewed.
    """

    async def play(life: Life) -> None:
        go, both = asyncio.Event(), wires()
        walls = (Wall(-skew_ms), Wall(skew_ms))

        async def slow(ctx: Context) -> None:
            await go.wait()

        def came(wire: Wire) -> list[Any]:
            return [one for one in wire.deliveries if one.payload == life.payload]

        def put_off(wire: Wire) -> int:
            words = [word for one, word in wire.words if one.payload == life.payload]
            return len([word for word in words if word.startswith(b"-NAK")])

        life.before = slow
        async with (
            life.worker(wire=both[0], wall=walls[0]),
            life.worker(wire=both[1], wall=walls[1]),
        ):
            await life.comes()
            await life.begun.wait()
            has, other = (0, 1) if came(both[0]) else (1, 0)
            await meanwhile(life, walls[has], walls[other], both[other])
            for time in range(times):
                await both[has].inner.settle(came(both[has])[0], b"-NAK")
                put_off_again = partial(_more_than, time, partial(put_off, both[other]))
                await until(put_off_again, "the other worker to put it off")
                if time + 1 < times:
                    await renewed(life)
            go.set()
            await life.rests()

    return play


def _more_than(least: int, count: Callable[[], int]) -> bool:
    return count() > least


async def renewed(life: Life) -> None:
    """Return once the lease of its attempt has been renewed."""
    lease_until_ms = (await life.row()).lease_until_ms

    async def moved() -> bool:
        return (await life.row()).lease_until_ms != lease_until_ms

    await until(moved, "its lease to be renewed")


def clock_is_set(*, has_ms: int = 0, other_ms: int = 0) -> Callable[[Life], Awaitable[None]]:
    """The wall clocks of the two workers are set; the checker says what there is to see."""

    async def set_clocks(life: Life, has: Wall, other: Wall, wire: Wire) -> None:
        has.ahead_ms += has_ms
        other.ahead_ms += other_ms

    async def play(life: Life) -> None:
        life.checker = lambda: bool(life.receiver.keys)
        await comes_again_while_it_runs(meanwhile=set_clocks)(life)
        assert 1 == life.most_at_once and 0 == life.checked

    return play


def broker_clock_is_set(by_ms: int) -> Callable[[Life], Awaitable[None]]:
    """The broker's clock steps, and both workers see it; the checker says what there is to see."""

    async def play(life: Life) -> None:
        broker = Wall()

        async def set_clock(life: Life, has: Wall, other: Wall, wire: Wire) -> None:
            assert isinstance(wire, BrokerClockSet)
            broker.ahead_ms += by_ms
            seen = wire.readings
            await until(lambda: wire.readings > seen, "the other worker to see it")

        life.checker = lambda: bool(life.receiver.keys)
        await comes_again_while_it_runs(
            meanwhile=set_clock,
            wires=lambda: (BrokerClockSet(broker), BrokerClockSet(broker)),
            times=AGAIN,
        )(life)
        assert 1 == life.most_at_once and 0 == life.checked

    return play


async def ledger_is_away(life: Life) -> None:
    wire = LedgerAway()
    await life.comes()
    async with life.worker(wire=wire):
        await until(lambda: wire.refused >= 3, "the ledger to be asked, and again")
        assert [] == life.started
        wire.back.set()
        await life.rests()


async def has_another_payload(life: Life) -> None:
    async with life.worker():
        await life.comes()
        await life.rests()
        before = await life.row()
        await life.comes(payload=b'{"k":"other"}', position="2")
        await life.rests()
    first, beside = await life.rows()
    assert (before, State.CONFLICT) == (first, beside.state)
    assert before.fingerprint != beside.fingerprint


async def comes_in_a_new_generation(life: Life) -> None:
    async with life.worker():
        await life.comes()
        await life.rests()
        before = await life.row()
        await life.comes(generation=SECOND, standing=Standing.REORIGINATED)
        await life.rests()
    assert before == await life.row()


async def has_no_key(life: Life) -> None:
    await life.comes(scope=KeyScope.NONE)
    await life.goes_on()
    assert (await life.row()).key.startswith("p:")


async def has_no_key_in_doubt(life: Life) -> None:
    await life.comes(scope=KeyScope.NONE, generation=SECOND, standing=Standing.UNVERIFIABLE)
    await life.goes_on()
    assert life.name in {one.handler for one in await held(life.home)}


def clocks_differ(skew_ms: int) -> Callable[[Life], Awaitable[None]]:
    """A worker dies, and its event comes at once to one whose clock is far ahead, or behind."""

    async def play(life: Life) -> None:
        wire = Wire()
        await life.comes()
        await life.is_cut_short(reached=CrashAt("ran"), wire=wire, wall=Wall(-skew_ms))
        lease_until_ms = (await life.row()).lease_until_ms
        [delivery] = [one for one in wire.deliveries if one.payload == life.payload]
        await life.home.connection.settle(delivery, b"-NAK")
        await life.goes_on(wall=Wall(skew_ms))
        assert await life.home.connection.clock_ms(LEDGER) >= lease_until_ms

    return play


# --- the table ----------------------------------------------------------------------------------
class Line(msgspec.Struct, frozen=True):
    """What happens to a worker or its event, and what becomes of it under each effect."""

    what: str
    play: Callable[[Life], Awaitable[None]]
    told: str
    pool: dict[str, Any] = msgspec.field(default_factory=lambda: SHORT)

    @property
    def cells(self) -> dict[str, str]:
        """The cell of each effect; "-" stands where this cannot happen to it."""
        cells = [cell.strip() for cell in self.told.split("|")]
        return {effect: cell for effect, cell in zip(EFFECTS, cells, strict=True) if cell != "-"}


S, C, A = State.STARTED, State.CLAIMED, State.APPLIED
DIES_UNSTARTED = dies_writing(S, C, stored=False)
DIES_STARTED = dies_writing(S, C, stored=True)
DIES_COMMITTED = dies_writing(A, stored=True)

TABLE = [
    # what happens, how it is played
    #     once         | barrier      | keyed        | idempotent
    Line("dies before its row is written", DIES_UNSTARTED,
         "applied 1/1  | applied 1/1  | applied 1/1  | applied 1/1"),
    Line("dies with its row written and no reply", DIES_STARTED,
         "in_doubt 0/0 | applied 1/1  | applied 1/1  | applied 1/1"),
    Line("dies with its row written", dies_at("written"),
         "in_doubt 0/0 | applied 1/1  | applied 1/1  | applied 1/1"),
    Line("dies at its barrier", dies_at("at_barrier"),
         "-            | applied 2/1  | -            | -"),
    Line("dies past its barrier, before the effect", dies_at("entered"),
         "-            | in_doubt 1/0 | -            | -"),
    Line("dies behind the effect, before that is written", dies_at("ran"),
         "in_doubt 1/1 | in_doubt 1/1 | applied 2/1  | applied 2/2"),
    Line("dies when its receiver may forget the key", dies_past_its_receivers_memory,
         "-            | -            | in_doubt 1/1 | -"),
    Line("dies while its checker is asked", dies_checking,
         "applied 1/1  | applied 1/1  | -            | -"),
    Line("dies committed, without the reply", DIES_COMMITTED,
         "applied 1/1  | applied 1/1  | applied 1/1  | applied 1/1"),
    Line("dies committed", dies_at("written", 2),
         "applied 1/1  | applied 1/1  | applied 1/1  | applied 1/1"),
    Line("dies before its ack", dies_at("published"),
         "applied 1/1  | applied 1/1  | applied 1/1  | applied 1/1"),
    Line("hears no reply to its claim", unheard(S, C, stored=True),
         "applied 1/1  | applied 1/1  | applied 1/1  | applied 1/1"),
    Line("loses its claim on the way", unheard(S, C, stored=False),
         "applied 1/1  | applied 1/1  | applied 1/1  | applied 1/1"),
    Line("hears no reply to its commit", unheard(A, stored=True),
         "applied 1/1  | applied 1/1  | applied 1/1  | applied 1/1"),
    Line("loses its commit on the way", unheard(A, stored=False),
         "applied 1/1  | applied 1/1  | applied 1/1  | applied 1/1"),
    Line("loses its ack", loses_its_ack,
         "applied 1/1  | applied 1/1  | applied 1/1  | applied 1/1"),
    Line("freezes past its lease", is_frozen,
         "in_doubt 1/1 | applied 2/1  | applied 2/1  | applied 2/2", NARROW),
    Line("is given again while it runs", comes_again_while_it_runs(),
         "applied 1/1  | applied 1/1  | applied 1/1  | applied 1/1", PATIENT),
    Line("finds the ledger away", ledger_is_away,
         "applied 1/1  | applied 1/1  | applied 1/1  | applied 1/1"),
    Line("has its key with another payload", has_another_payload,
         "applied 1/1  | applied 1/1  | applied 1/1  | applied 1/1"),
    Line("comes again in a new generation", comes_in_a_new_generation,
         "applied 1/1  | applied 1/1  | applied 1/1  | applied 1/1"),
    Line("has no key in a proven lineage", has_no_key,
         "applied 1/1  | applied 1/1  | applied 1/1  | applied 1/1"),
    Line("has no key in a lineage in doubt", has_no_key_in_doubt,
         "refused 0/0  | refused 0/0  | refused 0/0  | refused 0/0"),
    Line("dies ten minutes behind its successor", clocks_differ(SKEW_MS),
         "in_doubt 1/1 | in_doubt 1/1 | applied 2/1  | applied 2/2"),
    Line("dies ten minutes ahead of its successor", clocks_differ(-SKEW_MS),
         "in_doubt 1/1 | in_doubt 1/1 | applied 2/1  | applied 2/2"),
    Line("is given to a clock ten minutes off while it runs", comes_again_while_it_runs(SKEW_MS),
         "applied 1/1  | applied 1/1  | applied 1/1  | applied 1/1", PATIENT),
    Line("runs where the clock is set an hour forward", clock_is_set(has_ms=HOUR_MS),
         "applied 1/1  | applied 1/1  | applied 1/1  | applied 1/1", PATIENT),
    Line("runs where the clock is set an hour back", clock_is_set(has_ms=-HOUR_MS),
         "applied 1/1  | applied 1/1  | applied 1/1  | applied 1/1", PATIENT),
    Line("is given to one whose clock is set a minute forward", clock_is_set(other_ms=61_000),
         "applied 1/1  | applied 1/1  | applied 1/1  | applied 1/1", PATIENT),
    Line("is given to one whose clock is set an hour forward", clock_is_set(other_ms=HOUR_MS),
         "applied 1/1  | applied 1/1  | applied 1/1  | applied 1/1", PATIENT),
    Line("runs while the broker's clock is set an hour forward", broker_clock_is_set(HOUR_MS),
         "applied 1/1  | applied 1/1  | applied 1/1  | applied 1/1", RENEWED),
    Line("runs while the broker's clock is set an hour back", broker_clock_is_set(-HOUR_MS),
         "applied 1/1  | applied 1/1  | applied 1/1  | applied 1/1", RENEWED),
]  # fmt: skip

Told = dict[str, str | BaseException]
Played = Callable[[Line, str], list[Told]]
CELLS = [
    (line, where, effect)
    for line in TABLE
    for where in ("memory", "broker")
    for effect in line.cells
]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """Return what comes of a line in a place, under each effect: played once, however often asked.

    In memory it is played with several seeds.
    """
    known: dict[tuple[str, str], list[Told]] = {}

    def ask(line: Line, where: str) -> list[Told]:
        if (line.what, where) not in known:
            folder = tmp_path_factory.mktemp("line") / "broker"
            known[line.what, where] = play_line(line, where, folder)
        return known[line.what, where]

    return ask


def play_line(line: Line, where: str, folder: Path) -> list[Told]:
    async def play(home: House) -> Told:
        async def live(effect: str) -> str:
            life = Life(home, effect)
            await line.play(life)
            return await life.is_one()

        ends = await asyncio.gather(*map(live, line.cells), return_exceptions=True)
        return dict(zip(line.cells, ends, strict=True))

    if where == "memory":
        return [play_in_memory(play, seed, pool=line.pool) for seed in range(SEEDS)]
    return [play_on_broker(play, folder, pool=line.pool)]


@pytest.mark.parametrize(
    ("line", "where", "effect"),
    CELLS,
    ids=[f"{line.what}-{where}-{effect}" for line, where, effect in CELLS],
)
def test_a_worker_or_event_that(line: Line, where: str, effect: str, played: Played) -> None:
    """Each cell of the table is what comes of it, in whatever order things happen."""
    for told in played(line, where):
        end = told[effect]
        if isinstance(end, BaseException):
            raise end
        assert line.cells[effect] == end


def test_a_key_that_is_older_than_the_ledgers_memory_cannot_be() -> None:
    """What was forgotten looks like what never was, so no worker starts with a memory too short."""
    with pytest.raises(msgspec.ValidationError, match="retention_s"):
        make_settings("nats://nowhere", SOURCE, ledger={"retention_s": 60})
