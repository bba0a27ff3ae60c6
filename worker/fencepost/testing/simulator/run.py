"""One seed, from beginning to rest: its history, its digest, and what the oracle says."""

import asyncio
import hashlib
import logging
from random import Random

import msgspec

from fencepost.testing.simulator.history import History, Recorded, task_of
from fencepost.testing.simulator.house import House
from fencepost.testing.simulator.loop import Deadlock, outside, run_virtual
from fencepost.testing.simulator.nemesis import Nemesis
from fencepost.testing.simulator.oracle import violations
from fencepost.testing.simulator.people import people_of
from fencepost.testing.simulator.plan import Plan, draw_plan
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.question import Answer, Held, Question, QuestionKind
from fencepost_schemas.row import decode_row
from fencepost_schemas.subject import ANSWERS, EVENTS, LEDGER, QUESTIONS
from fencepost_schemas.verdict import EpochRecord

CALM_S = 40.0
"""After the faults, the source goes on for a while: a verdict takes an event."""
STILL_S = 45.0
"""Longer than a source may stay silent: a client that waits elsewhere comes back until then."""
PATIENCE_S = 600.0
BEAT_S, BEATS_MAX = 10.0, 30


class Outcome(msgspec.Struct, frozen=True):
    seed: int
    plan: Plan
    history: History
    violations: list[str]
    digest: str


def run_seed(seed: int) -> Outcome:
    """Play a seed to its end."""
    return run_plan(draw_plan(seed))


def run_plan(plan: Plan) -> Outcome:
    """Play a plan to its end. Its seed decides what the plan leaves to chance."""
    seed = plan.seed
    log = logging.getLogger("fencepost")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    chance = Random(f"run {seed}")
    handlers = {"charge": "once", **({"mirror": "idempotent"} if plan.mirror else {})}
    history = History(handlers, leaky=plan.source.leaks_s > 0)
    try:
        run_virtual(_play(plan, Random(f"play {seed}"), history), chance)
    except Deadlock as found:
        history.restless = str(found)
    finally:
        log.setLevel(level)
    digest = hashlib.sha256(msgspec.json.encode(history)).hexdigest()
    return Outcome(seed, plan, history, violations(history), digest)


async def _play(plan: Plan, chance: Random, history: History) -> None:
    house = House(plan, chance, history)
    house.broker.vices.latency_s = 0.02
    await house.begin()
    nemesis = Nemesis(house)
    await asyncio.sleep(3.0)
    announcing = outside(_announce(house, plan))
    tormenting = outside(nemesis.torment())
    answering = [outside(one.answer_for_ever()) for one in people_of(house)]
    await asyncio.sleep(plan.busy_s)
    tormenting.cancel()
    nemesis.heal()
    beating = outside(house.source.beat_for_ever())
    await announcing
    history.restless = await _catch_up(house, "beat") or await _rejoin(house) or await _rest(house)
    for task in [beating, *answering]:
        task.cancel()
    history.virtual_s = asyncio.get_running_loop().time()
    _read(house, history)


async def _announce(house: House, plan: Plan) -> None:
    for number in range(1, plan.tasks + 1):
        await asyncio.sleep(house.chance.uniform(0.0, 2.0) * plan.busy_s / plan.tasks)
        house.source.announce_new(f"task-{number:03d}")
    while asyncio.get_running_loop().time() < plan.busy_s + CALM_S:
        await asyncio.sleep(5.0)
        number += 1
        house.source.announce_new(f"task-{number:03d}")


async def _rejoin(house: House) -> str:
    """Cut a source that leaked once more: what a connection lost is found by the next one."""
    if not house.plan.source.leaks_s:
        return ""
    house.source.leaks_s = 0.0
    await asyncio.sleep(house.plan.source.leaks_s)
    house.source.cut()
    return await _catch_up(house, "rejoin")


async def _catch_up(house: House, name: str) -> str:
    """Have the source speak until it is heard: a verdict takes an event, also the last one."""
    for number in range(1, BEATS_MAX + 1):
        task = f"{name}-{number}"
        house.source.announce_new(task)
        await asyncio.sleep(BEAT_S)
        events = house.broker.streams[EVENTS].messages.values()
        if any(".events." in one.subject and task_of(one.payload) == task for one in events):
            return ""
    return f"none of {BEATS_MAX} events in a row came through"


async def _rest(house: House) -> str:
    """Wait until nothing has happened for a while; return what still happens when that is late."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    still_s = 0.0
    before = ""
    while loop.time() - began_s < PATIENCE_S:
        await asyncio.sleep(1.0)
        busy = _busy(house)
        now = _state(house)
        still_s = still_s + 1.0 if not busy and now == before else 0.0
        before = now
        if still_s >= STILL_S:
            return ""
    return _busy(house) or "rows or events keep coming"


def _busy(house: House) -> str:
    if not house.source.caught_up():
        # A quiet source is left and asked again, so this passes and comes.
        return ""
    waiting = [name for (_, name), one in house.broker.consumers.items() if not one.idle]
    if waiting:
        return f"{', '.join(waiting)} not empty"
    return "" if house.sink.still else "handlers run"


def _state(house: House) -> str:
    """Return what has to stand still; cursors are rewritten at rest, too."""
    streams = house.broker.streams
    counts = [streams[name].sequence for name in (LEDGER, QUESTIONS, ANSWERS)]
    events = len([one for one in streams[EVENTS].last if ".events." in one])
    return f"{counts} {events} {len(house.history.effects)}"


def _read(house: House, history: History) -> None:
    """Put what the broker holds into the history."""
    history.published = house.published()
    history.records += _verdicts(house)
    history.overdue += _overdue(house)
    for stored in house.broker.streams[LEDGER].messages.values():
        if not stored.subject.endswith(".identity"):
            history.rows.append(decode_row(stored.payload))
    for stored in house.broker.streams[QUESTIONS].messages.values():
        if ".held." in stored.subject:
            held = msgspec.json.decode(stored.payload, type=Held)
            question = stored.subject.split(".")[-2]
            if not question.startswith(QuestionKind.PAUSE):
                history.held.append(held)
            elif held.handler:
                history.paused.setdefault(question, []).append(held)
        else:
            history.questions.append(msgspec.json.decode(stored.payload, type=Question))
    for stored in house.broker.streams[ANSWERS].messages.values():
        history.answers.append(msgspec.json.decode(stored.payload, type=Answer))


def _verdicts(house: House) -> list[Recorded]:
    """Return the record of each verdict, without what was told before one."""
    found = []
    for sequence, stored in house.broker.streams[EVENTS].messages.items():
        if ".epochs." in stored.subject:
            record = msgspec.json.decode(stored.payload, type=EpochRecord)
            found += [] if record.early else [Recorded(sequence, record)]
    return found


def _overdue(house: House) -> list[int]:
    """Return each cursor that tells of a loss, though the word before it is no early record."""
    found, early = [], False
    for sequence, stored in house.broker.streams[EVENTS].messages.items():
        if ".cursors." in stored.subject:
            loss = msgspec.json.decode(stored.payload, type=Cursor).loss
            found += [sequence] if loss is not None and not early else []
        elif ".epochs." in stored.subject:
            early = msgspec.json.decode(stored.payload, type=EpochRecord).early
        else:
            early = False
    return found
