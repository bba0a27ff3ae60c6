"""Ways for a connection to break, the same on every server, and what must come out of each."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fencepost.broker.embedded import EmbeddedBroker
from fencepost_schemas.reason import Reason
from fencepost_schemas.standing import Standing
from fencepost_schemas.verdict import EpochRecord
from real.rig import Rig, Server, followed, tell
from real.truth import check

WINDOW = 12
"""What a server holds: more than the bridge's marks, less than it emits in `past the log`."""

Play = Callable[[Rig], Awaitable[None]]


@dataclass(frozen=True)
class Scenario:
    """`play` is what happens while the bridge is cut off; `continuous` is the truth behind it, on
    a server whose log is in its memory.

    `before` events come first, and the server holds the last `window` of all.
    """

    name: str
    play: Play
    continuous: bool
    before: int = 6
    window: int = WINDOW

    def __str__(self) -> str:
        return self.name


def keys(name: str, count: int) -> list[str]:
    return [f"{name}-{number}" for number in range(1, count + 1)]


async def _nothing(rig: Rig) -> None:
    """The network breaks and comes back."""


def _missed(count: int) -> Play:
    async def missed(rig: Rig) -> None:
        await rig.emit(*keys("missed", count))

    return missed


def _restarted(count: int) -> Play:
    async def restarted(rig: Rig) -> None:
        await rig.restart()
        await rig.emit(*keys("anew", count))

    return restarted


async def _forgotten(rig: Rig) -> None:
    await rig.server.forget()
    await rig.emit(*keys("anew", 9))


NOTHING = Scenario("nothing missed", _nothing, True)
WITHIN = Scenario("missed within the log", _missed(3), True)
PAST = Scenario("missed past the log", _missed(WINDOW + 5), False)
RESTART_FEWER = Scenario("restart with fewer events", _restarted(2), False)
RESTART_MORE = Scenario("restart with more events", _restarted(9), False)
UNKNOWN = Scenario("unknown cursor", _forgotten, False)
LITTLE = Scenario("two marks are still held", _missed(2), True, window=5)
LONG = Scenario("the beginning is not held any more", _missed(3), True, before=30)
SCENARIOS = (NOTHING, WITHIN, PAST, RESTART_FEWER, RESTART_MORE, UNKNOWN, LITTLE, LONG)


@dataclass(frozen=True)
class Case:
    """A scenario on one kind of server, and the reasons of which one must be given there.

    `options` are those of the server. `verdict` is what is due where the scenario does not say it:
    the log outlives the process, or the truth is that nothing can be proven.
    """

    scenario: Scenario
    reasons: tuple[Reason, ...]
    options: tuple[str, ...] = ()
    verdict: Standing | None = None

    def __str__(self) -> str:
        return " ".join((self.scenario.name, *self.options[1:]))

    @property
    def due(self) -> Standing:
        if self.verdict is not None:
            return self.verdict
        return Standing.RESUMED if self.scenario.continuous else Standing.REORIGINATED

    @property
    def line(self) -> tuple[str, ...]:
        return ("--window", str(self.scenario.window), *self.options)


@dataclass(frozen=True)
class Row:
    """What must come out of the scenarios on one kind of server, followed in one way.

    `server` and `dialect` are what a person calls them, `made` makes the server for a case, and
    `bridge` are settings.
    """

    server: str
    dialect: str
    made: Callable[[Path, Case], Server]
    cases: tuple[Case, ...]
    bridge: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.server}, {self.dialect}"


async def play_on(row: Row, case: Case, broker: EmbeddedBroker, folder: Path) -> None:
    """Play a case of this row on a server and a bridge of its own."""
    async with followed(row.made(folder, case), broker, None, **row.bridge) as rig:
        await play(rig, case)


async def begin(rig: Rig, count: int = 6) -> None:
    """Have so many events published by the first connection."""
    await rig.attached()
    await rig.emit(*keys("before", count))
    await rig.published(*keys("before", count))


async def end(rig: Rig, verdicts: int) -> list[EpochRecord]:
    """Emit two events more, and hold what was published against the server's own log.

    Returns the verdict records, at least so many.
    """
    await rig.emit(*keys("after", 2))
    await rig.published(*keys("after", 2))
    records = await rig.judged(verdicts)
    check(rig.server.emitted(), await rig.home.events(), records)
    return records


async def play(rig: Rig, case: Case) -> None:
    """Play it; fail unless the verdict is the truth, by a reason that is due, and all is there."""
    scenario = case.scenario
    await begin(rig, scenario.before)
    await rig.gate.shut()
    await scenario.play(rig)
    await rig.come_back()
    first, seam = await end(rig, 2)
    assert Standing.GENESIS is first.verdict.kind
    assert case.due is seam.verdict.kind, seam.verdict
    assert set(case.reasons) & set(seam.verdict.reasons), seam.verdict


async def break_often(rig: Rig, times: int) -> list[EpochRecord]:
    """Break the connection again and again, and miss more each time."""
    await begin(rig)
    for number in range(times):
        await rig.gate.shut()
        await rig.emit(*keys(f"missed-{number}", number))
        await rig.come_back()
        await rig.judged(number + 2)
    return await end(rig, times + 1)


async def break_unnoticed(rig: Rig) -> list[EpochRecord]:
    """Break the connection so that the server holds on to its end until much later."""
    await begin(rig)
    await rig.gate.shut(noticed=False)
    await rig.emit(*keys("missed", 3))
    asked = len(rig.gate.visits)
    rig.gate.open()
    await rig.gate.visited(lambda visits: any(one.status for one in visits[asked:]), "answer")
    rig.gate.let_go()
    await rig.published(*keys("missed", 3))
    return await end(rig, 2)


async def follow_call(rig: Rig) -> list[EpochRecord]:
    """Break the stream of a call, which a POST has opened, and let it end with its result."""
    posted = [200, 202, 200]
    await rig.gate.visited(lambda visits: posted == [one.status for one in visits], "call")
    await rig.emit(*keys("before", 6))
    await rig.published(*keys("before", 6))
    await rig.gate.shut()
    await rig.emit(*keys("missed", 3))
    await rig.come_back()
    records = await end(rig, 2)
    await tell(rig.process, "finish")

    async def ended() -> bool:
        return "result" in [event.type for event in await rig.home.events()]

    await rig.until(ended, "the result")
    # The call was made once, and nothing came twice.
    assert len(posted) == sum(visit.method == "POST" for visit in rig.gate.visits)
    assert 12 == len(await rig.home.events())
    return records


async def lose_at_join(rig: Rig) -> list[EpochRecord]:
    """Have events emitted while a server of ours replays, live ones behind them, another break."""
    await begin(rig)
    await tell(rig.process, "busy", *keys("busy", 5))
    for number in range(2):
        await rig.gate.shut()
        await rig.emit(*keys(f"missed-{number}", 3))
        await rig.come_back()
        await tell(rig.process, "settle")
        await rig.emit(f"live-{number}")
        await rig.published(f"live-{number}")
    await rig.published(*keys("busy", 5))
    return await end(rig, 3)


async def break_under_load(rig: Rig, times: int) -> list[EpochRecord]:
    """Break the connection again and again while events flow; the last time nothing flows.

    So the last resume has looked at every join in which something could be lost.
    """
    await begin(rig)
    stopped = asyncio.Event()

    async def flow() -> None:
        for number in itertools.count(1):
            if stopped.is_set():
                return
            await rig.emit(f"flow-{number}")

    flowing = asyncio.create_task(flow())
    for number in range(times):
        await rig.gate.shut()
        rig.gate.open()
        await rig.judged(number + 2)
    stopped.set()
    await flowing
    await rig.published(rig.server.emitted()[-1])
    await rig.gate.shut()
    await rig.come_back()
    return await end(rig, times + 2)
