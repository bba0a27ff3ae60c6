"""A bridge that dies at any step: the next one comes to the same truth.

The crash is a BaseException raised at a point that the bridge names, so nothing of the product
can catch it. Then a new bridge goes on, and every event is looked for.
"""

import json
from collections.abc import Callable
from itertools import pairwise

import pytest

from fencepost.broker.embedded import EmbeddedBroker
from kit.house import House, house
from kit.log import LogSource
from kit.orders import orders, see
from kit.wait import until

POINTS = (
    "before_connect",
    "opened",
    "held",
    "judged",
    "passed_on",
    "batch_built",
    "batch_sent",
    "batch_stored",
)
KEYS = ("a", "b", "c", "d", "e", "f")


class Crash(BaseException):
    """The process is gone."""


def crash_at(point: str, time: int) -> Callable[[str], None]:
    """Return a `reached` that crashes when the point is reached for the n-th time."""
    left = time

    def reached(here: str) -> None:
        nonlocal left
        left -= here == point
        if here == point and left == 0:
            raise Crash(point)

    return reached


async def _crash_and_go_on(home: House, source: LogSource, point: str, time: int) -> None:
    """Let one bridge crash, and another one bring the rest of the log."""
    await home.init()
    async with home.bridge(crash_at(point, time)) as running:
        await until(running.done, f"the crash at {point}")
    assert isinstance(running.exception(), Crash)

    async def at_the_end() -> bool:
        events = await home.events()
        return bool(events) and json.loads(events[-1].payload)["k"] == KEYS[-1]

    async with home.bridge():
        await until(at_the_end, "the last event")


async def _check_truth(home: House) -> None:
    """Check what must hold after any crash, whatever the source."""
    events, records, cursor = await home.events(), await home.records(), await home.cursor()
    places = [(event.generation, event.position) for event in events]
    assert len(set(places)) == len(places), "two events share a place"
    # Every generation has its verdict, and hangs on the one before it.
    opened = list(dict.fromkeys(record.generation for record in records))
    assert list(dict.fromkeys(event.generation for event in events)) == opened
    for earlier, later in pairwise(records):
        assert earlier.generation == later.parent
        assert (later.verdict.kind == "resumed") == (later.gap is None)
    assert ["genesis"] == [one.verdict.kind for one in records if not one.parent]
    assert places[-1] == (cursor.generation, str(cursor.position))
    # A gap begins where the generation before it was left: at its last published event.
    last_of = {event.generation: event.position for event in events}
    for record in records:
        if record.gap is not None:
            after = record.gap.after_generation
            assert last_of[after] == record.gap.after_position


@pytest.mark.parametrize("time", [1, 2, 3])
@pytest.mark.parametrize("point", POINTS)
async def test_an_honest_source_is_followed_in_one_generation(
    broker: EmbeddedBroker, point: str, time: int
) -> None:
    """Whatever the point, each event is published once, and every reconnect is proven."""
    async with LogSource(at_once=2) as source, house(broker, orders(source.url)) as home:
        await source.add(*KEYS)
        await _crash_and_go_on(home, source, point, time)

        await _check_truth(home)
        assert [*KEYS] == [json.loads(event.payload)["k"] for event in await home.events()]
        verdicts = await home.verdicts()
        assert ["genesis"] + ["resumed"] * (len(verdicts) - 1) == verdicts


@pytest.mark.parametrize("time", [1, 2])
@pytest.mark.parametrize("point", POINTS)
async def test_a_silent_source_is_doubted_at_every_seam(
    broker: EmbeddedBroker, point: str, time: int
) -> None:
    """Each event is published once too, and each connection opens a generation with its gap."""
    silent = LogSource(declares=False, at_once=2)
    async with silent as source, house(broker, orders(source.url)) as home:
        await source.add(*KEYS)
        await _crash_and_go_on(home, source, point, time)

        await _check_truth(home)
        assert [*KEYS] == [json.loads(event.payload)["k"] for event in await home.events()]
        verdicts = await home.verdicts()
        assert ["genesis"] + ["unverifiable"] * (len(verdicts) - 1) == verdicts


@pytest.mark.parametrize("point", POINTS)
async def test_a_forgetful_source_is_found_out_at_every_seam(
    broker: EmbeddedBroker, point: str
) -> None:
    """It starts over each time; every repeat stands in a generation that says so."""
    async with LogSource(forgets=True) as source, house(broker, orders(source.url)) as home:
        await source.add(*KEYS)
        await home.init()
        async with home.bridge():
            await see(home, len(KEYS))
        # The take-over is a write too, of the cursor alone.
        time = 2 if point in ("batch_built", "batch_stored") else 1
        async with home.bridge(crash_at(point, time)) as running:
            await until(running.done, f"the crash at {point}")
        async with home.bridge():
            await see(home, 2 * len(KEYS))

        await _check_truth(home)
        verdicts = await home.verdicts()
        assert ["genesis"] + ["reoriginated"] * (len(verdicts) - 1) == verdicts
        last = (await home.events())[-len(KEYS) :]
        assert [*KEYS] == [json.loads(event.payload)["k"] for event in last]


async def test_a_verdict_is_stored_with_its_first_event(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However small the batches: a crash in between would leave a generation without a position."""
    monkeypatch.setattr("fencepost.bridge.outbox.BATCH_EVENTS_MAX", 1)
    async with LogSource() as source, house(broker, orders(source.url)) as home:
        await source.add(*KEYS)
        await home.init()
        # The first batch is the take-over, the second one holds the verdict.
        async with home.bridge(crash_at("batch_stored", 2)) as running:
            await until(running.done, "the crash")

        assert 1 == len(await home.events())
        assert 1 == len(await home.records())
