"""Random histories of breaks: whatever a source emits is published, or declared lost.

The source's own log is the truth. It is cut, restarted, forgets, loses events between replay and
live ones, or stops bringing any, in an order that Hypothesis draws and shrinks; time is virtual and
the broker is in memory, so a history takes milliseconds.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fencepost.bridge.genesis import begin
from fencepost.bridge.run import follow_alone
from fencepost.bridge.shelf import Shelf
from fencepost.ports import Request, SourceUnreachable
from fencepost.settings import Source
from fencepost.testing.memory import MemoryBroker, MemoryConnection
from fencepost.testing.simulator.loop import outside, run_virtual
from fencepost.testing.simulator.world import SimulatedWorld
from fencepost_schemas.event import ClassifiedEvent, event_of
from fencepost_schemas.standing import Standing
from fencepost_schemas.subject import EVENTS, Subjects
from fencepost_schemas.verdict import EpochRecord
from kit.house import make_settings

BEAT_S = 2.0
QUIET_S = 20.0


class Emission(msgspec.Struct, frozen=True):
    """One event as the source emitted it. `key` counts all emissions, in their order."""

    key: int
    epoch: int
    id: int


class Speech(msgspec.Struct, frozen=True):
    """What the source declares, how much it holds, and what bridge follows it."""

    scheme: str
    declares: bool
    window: int
    join_loses: bool
    joins_live: bool = True
    renews: bool = False

    def plain(self) -> dict[str, Any]:
        declared = {"generation_header": "gen", "window_header": "floor"} if self.declares else {}
        join = {} if self.declares or self.join_loses else {"join": "atomic"}
        return {"scheme": self.scheme, **declared, **join}


URL = "http://source.invalid/"
Word = Literal["emit", "cut", "end", "restart", "wait"]


class Line:
    """One open response: its chunks, and how it ends."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self.status = 200
        self.url = URL
        self.own = True
        self.headers = {"content-type": "text/event-stream", **headers}
        self.open = True
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._broken = False

    def put(self, chunk: bytes) -> None:
        if self.open:
            self._queue.put_nowait(chunk)

    def end(self, *, broken: bool) -> None:
        self.open = False
        self._broken = broken
        self._queue.put_nowait(None)

    async def chunks(self) -> AsyncIterator[bytes]:
        while (chunk := await self._queue.get()) is not None:
            yield chunk
        if self._broken:
            raise SourceUnreachable("broke the connection")


class TruthfulSource:
    """The server and the transport to it. `emitted` is the whole truth."""

    def __init__(self, speech: Speech) -> None:
        self.speech = speech
        self.emitted: list[Emission] = []
        self.begun = False
        self._epoch = 1
        self._count = 0
        self._lines: list[Line] = []
        self._live: list[Line] = []

    def emit(self, count: int) -> None:
        for _ in range(count):
            self._count += 1
            emission = Emission(len(self.emitted) + 1, self._epoch, self._count)
            self.emitted.append(emission)
            for line in self._live:
                line.put(_wire(emission))

    def cut(self, *, broken: bool) -> None:
        for line in self._lines:
            line.end(broken=broken)
        self._lines, self._live = [], []

    def restart(self, ahead: int) -> None:
        """Begin another epoch, whose counter starts at 0 or somewhere near the old one."""
        self.cut(broken=True)
        self._epoch += 1
        self._count = max(0, self._count + ahead) if ahead else 0

    async def beat_for_ever(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            for line in self._lines:
                line.put(b": beat\n\n")

    # --- the transport
    def of(self, name: str, source: Source) -> "TruthfulSource":
        return self

    @asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator[Line]:
        held = [one for one in self.emitted if one.epoch == self._epoch][-self.speech.window :]
        headers = {}
        if self.speech.declares:
            oldest = held[0].id if held else self._count + 1
            headers = {"gen": f"e{self._epoch}", "floor": str(oldest)}
        line = Line(headers)
        asked = int(request.asked) if request.asked else 0
        for one in held:
            if one.id > asked:
                line.put(_wire(one))
        self._lines.append(line)
        self.begun = True
        joining = outside(self._join(line, bool(request.asked)))
        try:
            yield line
        finally:
            joining.cancel()
            line.open = False
            self._lines = [one for one in self._lines if one is not line]
            self._live = [one for one in self._live if one is not line]

    async def _join(self, line: Line, resumed: bool) -> None:
        """Have a line hear what is emitted from now on; what was meanwhile it never hears."""
        if resumed and not self.speech.joins_live:
            return
        if self.speech.join_loses:
            await asyncio.sleep(0.3)
        if line.open:
            self._live.append(line)

    async def close(self) -> None:
        """Nothing is held beyond its lines."""


def _wire(emission: Emission) -> bytes:
    data = json.dumps({"k": str(emission.key)})
    return f"id: {emission.id}\nevent: task\ndata: {data}\n\n".encode()


class Came(msgspec.Struct, frozen=True):
    """What stands in the stream of events behind a history: events and records, in order."""

    entries: tuple[ClassifiedEvent | EpochRecord, ...]

    @property
    def events(self) -> list[ClassifiedEvent]:
        return [one for one in self.entries if isinstance(one, ClassifiedEvent)]


async def play(speech: Speech, history: list[tuple[Word, int]], chance: Random) -> Any:
    source = TruthfulSource(speech)
    bridge = {
        "retry_first_s": 0.2,
        "retry_longest_s": 2.0,
        "overlap_s": 1.0,
        "quiet_s": QUIET_S if speech.renews else 0.0,
        "connection_age_s": 3 * QUIET_S if speech.renews else 0.0,
    }
    orders = {"url": URL, "keys": "durable", "key": "/k", "plain": speech.plain()}
    sources: dict[str, Any] = {"orders": orders}
    configured = make_settings("nats://nobody.invalid", sources, bridge=bridge)
    broker = MemoryBroker(configured.broker.prefix, chance)
    broker.vices.latency_s = 0.01
    outside(broker.run())
    connection, world = MemoryConnection(broker), SimulatedWorld(chance, 0)
    subjects = Subjects(configured.broker.prefix)
    await begin(Shelf(connection, subjects), "orders", "earliest", "ledger", world)
    outside(source.beat_for_ever())
    running = outside(follow_alone(configured, configured.sources, connection, source, world))
    source.emit(3)
    await asyncio.sleep(1.0)
    for word, number in history:
        await _happen(source, word, number)
        assert not running.done(), running
    for _ in range(3):
        # Now it rests: cut, and asked again, so that the last joins are looked at, too.
        source.emit(3)
        await asyncio.sleep(QUIET_S + 10.0)
        source.cut(broken=False)
        await asyncio.sleep(QUIET_S + 60.0)
    source.emit(1)
    await asyncio.sleep(4 * QUIET_S + 60.0)
    assert not running.done(), running
    return source, _what_came(broker)


async def _happen(source: TruthfulSource, word: Word, number: int) -> None:
    if word == "emit":
        source.emit(number + 1)
    elif word == "restart":
        source.restart(number - 3)
    elif word == "wait":
        await asyncio.sleep(number)
    else:
        source.cut(broken=word == "cut")
    await asyncio.sleep(0.05)


def _what_came(broker: MemoryBroker) -> Came:
    entries: list[ClassifiedEvent | EpochRecord] = []
    for stored in broker.streams[EVENTS].messages.values():
        kind = stored.subject.split(".")[1]
        if kind == "events":
            entries.append(event_of(stored.headers, stored.payload))
        elif kind == "epochs":
            record = msgspec.json.decode(stored.payload, type=EpochRecord)
            if record.bridge != "init":
                entries.append(record)
    return Came(tuple(entries))


# --- what has to hold
def check(source: TruthfulSource, came: Came) -> None:
    truth = {one.key: one for one in source.emitted}
    published = [int(event.key or "0") for event in came.events]
    assert set(published) <= set(truth), "nothing is published that was never emitted"
    _once_in_a_generation(came)
    _one_epoch_a_generation(came, truth)
    lost = _declared(came, truth)
    missing = set(truth) - set(published) - lost
    first = min(published)
    assert not {key for key in missing if key > first}, f"lost without a word: {sorted(missing)}"


def _once_in_a_generation(came: Came) -> None:
    seen = [(event.generation, event.key) for event in came.events]
    assert len(seen) == len(set(seen)), "an event is published twice in one generation"


def _one_epoch_a_generation(came: Came, truth: Mapping[int, Emission]) -> None:
    epochs: dict[str, set[int]] = {}
    for event in came.events:
        epochs.setdefault(event.generation, set()).add(truth[int(event.key or "0")].epoch)
    assert all(len(found) == 1 for found in epochs.values()), "a generation spans a restart"


def _declared(came: Came, truth: Mapping[int, Emission]) -> set[int]:
    """Return what the gaps declare lost, having seen that none of it was published before."""
    places = {(event.generation, event.position): int(event.key or "0") for event in came.events}
    lost: set[int] = set()
    known = [0]
    for number, entry in enumerate(came.entries):
        if isinstance(entry, ClassifiedEvent):
            known.append(int(entry.key or "0"))
            continue
        assert (entry.gap is None) is (entry.verdict.kind in (Standing.GENESIS, Standing.RESUMED))
        behind = (one for one in came.entries[number:] if isinstance(one, ClassifiedEvent))
        # A generation that a word of the source begins ends its gap at its first event, whichever
        # that will be.
        first = next((int(event.key or "0") for event in behind), len(truth) + 1)
        for gap in (entry.gap, entry.join_gap):
            if gap is None:
                continue
            after = places.get((gap.after_generation, gap.after_position), known[-1])
            before = places.get((gap.before_generation, gap.before_position), first)
            inside = set(range(after + 1, before))
            if gap is entry.gap or gap.exact:
                assert not inside.intersection(known), "what was published is declared lost"
            lost |= inside
    return lost


WORDS: list[Word] = ["emit", "emit", "cut", "end", "restart", "wait"]
HISTORIES = st.lists(
    st.tuples(
        st.sampled_from(["emit", "emit", "cut", "end", "restart", "wait"]), st.integers(0, 9)
    ),
    min_size=1,
    max_size=14,
)
SPEECHES = {
    "declares": Speech("integer", declares=True, window=1_000, join_loses=False),
    "declares a short window": Speech("integer", declares=True, window=3, join_loses=False),
    "silent": Speech("integer", declares=False, window=1_000, join_loses=False),
    "silent and forgetful": Speech("opaque", declares=False, window=4, join_loses=False),
    "loses at its join": Speech("integer", declares=False, window=1_000, join_loses=True),
    "loses and forgets": Speech("opaque", declares=False, window=5, join_loses=True),
    "renewed": Speech("integer", declares=False, window=1_000, join_loses=True, renews=True),
    "replays only": Speech(
        "integer", declares=False, window=1_000, join_loses=True, joins_live=False, renews=True
    ),
}


@pytest.mark.parametrize("name", SPEECHES)
@settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(history=HISTORIES, seed=st.integers(0, 7))
def test_what_is_emitted_is_published_or_declared_lost(
    name: str, history: list[tuple[Word, int]], seed: int
) -> None:
    chance = Random(seed)
    source, came = run_virtual(play(SPEECHES[name], history, chance), chance)
    check(source, came)
