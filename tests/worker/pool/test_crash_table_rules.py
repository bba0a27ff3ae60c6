"""Why the table of crash points holds: each rule of the ledger, and what happens without it.

The same life is led twice. Under the rule the oracle finds nothing; with the one rule taken out of
the product it finds what the rule is there to prevent. In memory and in virtual time, so that each
life happens in the same way every time.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from fencepost import Context, NotApplied
from fencepost.ledgers.kv import KvLedger
from fencepost.pool.leases import Leases
from fencepost.ports import ConsumerPlan, Delivery, Message, Pull, Stored, Told, Written
from fencepost.settings import Pool
from fencepost_policies import ledger, moves
from fencepost_policies.ledger import Signal
from fencepost_policies.plan import CERTAIN, Finished, Given, Plan, Reading, Settlement
from fencepost_schemas.question import Answer, QuestionKind, Ruling
from fencepost_schemas.row import Row, State, encode_row
from fencepost_schemas.subject import ANSWERS
from kit.anywhere import play_in_memory
from kit.house import House
from kit.lives import Life
from kit.pool import SHORT, CrashAt, see_questions
from kit.wait import until
from kit.wires import Wire

NARROW = {**SHORT, "slots": 1}
LONG = {"slots": 1, "handler_timeout_s": 2.0, "lease_s": 1.0, "ack_wait_s": 1.2}
Ablate = Callable[[pytest.MonkeyPatch], None]
Lead = Callable[[Life], Awaitable[None]]


async def oracle(life: Life) -> list[str]:
    """Return what is wrong with a life that has come to rest."""
    wrong = []
    if life.effect != "idempotent" and life.receiver.effects > 1:
        wrong.append("done twice")
    if life.most_at_once > 1:
        wrong.append("two at a time")
    row = await life.row()
    if not (row.state.terminal or row.state.parked):
        wrong.append("lost: nobody will bring it again")
    if row.state is State.APPLIED and not life.receiver.effects:
        wrong.append("lost: it is said to be applied")
    return wrong


async def holds_out(until_set: asyncio.Event) -> None:
    """Wait, whatever its limit and its lease say to that."""
    while not until_set.is_set():
        try:
            await until_set.wait()
        except asyncio.CancelledError:
            continue


@asynccontextmanager
async def never(leases: Leases) -> AsyncIterator[None]:
    """Renew nothing, as a worker does whose second connection is down."""
    yield


# --- fencing: an outcome counts only under its own claim ----------------------------------------
async def loses_its_claim_and_fails(life: Life) -> None:
    """The first attempt ends after another one has taken over, and has had its effect."""
    first_ends, second_ends = asyncio.Event(), asyncio.Event()

    async def before(ctx: Context) -> None:
        if ctx.attempt == 1:
            await holds_out(first_ends)
            raise NotApplied("no connection to the bank")

    async def behind(ctx: Context) -> None:
        if ctx.attempt == 2:
            await second_ends.wait()

    life.before, life.behind = before, behind
    await life.comes()
    async with life.worker():
        await life.begun.wait()
        async with life.worker():
            await until(lambda: bool(life.receiver.keys), "the second attempt's effect")
            first_ends.set()
            await until(lambda: 1 in life.ended, "the end of the first attempt")
            await asyncio.sleep(0.1)
            second_ends.set()
            await life.rests()
    # That both are there at once is what a claim is for, and not what is looked for here.
    life.most_at_once = 1


def without_fencing(patch: pytest.MonkeyPatch) -> None:
    def unfenced(row: Row | None, given: Given, now_ms: int, reading: Reading = CERTAIN) -> Plan:
        if isinstance(given, Finished) and row is not None:
            given = msgspec.structs.replace(given, claim=row.claim)
        return ledger.step(row, given, now_ms, reading)

    patch.setattr("fencepost.pool.drive.step", unfenced)


# --- silence: who is fenced says nothing to the broker ------------------------------------------
async def loses_its_claim_to_one_that_dies(life: Life) -> None:
    """The successor dies before its barrier; only the unsettled delivery brings the event back."""
    thaw = asyncio.Event()

    async def before(ctx: Context) -> None:
        if ctx.attempt == 1:
            await holds_out(thaw)

    life.before = before
    await life.comes()
    async with life.worker():
        await life.begun.wait()
        await life.is_cut_short(reached=CrashAt("at_barrier"))
        thaw.set()
        await until(lambda: 1 in life.ended, "the end of the first attempt")
        await asyncio.sleep(0.1)
        await life.rests()
    life.most_at_once = 1


def without_silence(patch: pytest.MonkeyPatch) -> None:
    def acks(row: Row | None, given: Given, now_ms: int) -> Plan:
        return Plan(settle=Settlement.ACK)

    for state in (None, *State):
        patch.setitem(ledger.TABLE, (state, Signal.FENCED), acks)


# --- start before effect ------------------------------------------------------------------------
async def dies_behind_the_effect(life: Life) -> None:
    await life.comes()
    await life.is_cut_short(reached=CrashAt("ran"))
    await life.goes_on()


def without_start_before_effect(patch: pytest.MonkeyPatch) -> None:
    submitted = KvLedger.submit

    def lazily(self: KvLedger, subject: str, row: Row, expect: int, told: Told) -> None:
        if row.state is State.STARTED:
            asyncio.get_running_loop().call_soon(told, Written(expect))
        else:
            submitted(self, subject, row, expect, told)

    patch.setattr(KvLedger, "submit", lazily)


# --- insert decides absent ----------------------------------------------------------------------
async def comes_twice_at_once(life: Life) -> None:
    """Two deliveries of one key, to two workers, at one moment."""
    await life.comes(position="1")
    await life.comes(position="2")
    async with life.worker(), life.worker():
        await life.rests()


def without_insert(patch: pytest.MonkeyPatch) -> None:
    """Decide by a read whether a row stands, and write where none does."""
    submitted, both = KvLedger.submit, asyncio.Barrier(2)
    writing: set[asyncio.Task[None]] = set()

    async def look_and_write(self: KvLedger, subject: str, row: Row, told: Told) -> None:
        found = await self.read(subject)
        if found.row is not None:
            told(found)
            return
        await both.wait()
        stored = await self._connection.store(Message(subject, encode_row(row)))
        assert isinstance(stored, Stored)
        told(Written(stored.sequence))

    def unwary(self: KvLedger, subject: str, row: Row, expect: int, told: Told) -> None:
        if expect:
            submitted(self, subject, row, expect, told)
        else:
            writing.add(asyncio.create_task(look_and_write(self, subject, row, told)))

    patch.setattr(KvLedger, "submit", unwary)


# --- lease order: who cannot renew ends before another may begin --------------------------------
async def cannot_renew(life: Life) -> None:
    """The first attempt goes on until another one has begun, or until it is stopped."""
    second = asyncio.Event()

    async def before(ctx: Context) -> None:
        if ctx.attempt == 1:
            await second.wait()
        second.set()

    life.before = before
    await life.comes()
    async with life.worker(renewal=never), life.worker(renewal=never):
        await life.rests()


def without_cancelling(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Pool, "cancel_before_s", property(lambda self: -60.0))


async def is_handed_out_while_it_runs(life: Life) -> None:
    """Renewed for three leases; whoever else were given it could only put it off."""
    wires = [Wire(), Wire()]

    async def before(ctx: Context) -> None:
        await asyncio.sleep(3 * LONG["lease_s"])

    life.before = before
    await life.comes()
    async with life.worker(wire=wires[0]), life.worker(wire=wires[1]):
        await life.rests()
    handed_out = [one for wire in wires for one in wire.deliveries if one.payload == life.payload]
    # Everybody who is handed it counts as one who is at it.
    life.most_at_once = len(handed_out)


def without_patience(patch: pytest.MonkeyPatch) -> None:
    def hasty(stream: str, name: str, subjects: Any, ack_wait_s: float, *more: Any) -> ConsumerPlan:
        return ConsumerPlan(stream, name, subjects, 0.2, *more)

    patch.setattr("fencepost.pool.intake.ConsumerPlan", hasty)


# --- quarantine: nobody looks, and nobody runs again, before the old attempt is over ------------
class NoAnswers(Wire):
    """Answers go to other workers: in one process two pieces of work on a row follow each other."""

    def puller(self, stream: str, consumer: str, take: Callable[[Delivery], None]) -> Pull:
        return NothingComes() if stream == ANSWERS else super().puller(stream, consumer, take)


class NothingComes:
    def __init__(self) -> None:
        self.gone = asyncio.Event()

    async def open(self) -> None: ...

    async def want(self, count: int) -> None: ...

    async def close(self) -> None: ...


async def is_answered_too_soon(life: Life) -> None:
    """A person says at once that it did not happen; the attempt ends within the quarantine."""
    over = asyncio.Event()

    async def before(ctx: Context) -> None:
        if ctx.attempt == 1:
            await holds_out(over)
            raise NotApplied("no connection to the bank")

    life.before = before
    await life.comes()
    async with life.worker(renewal=never, wire=NoAnswers()):
        await life.begun.wait()
        asyncio.get_running_loop().call_later(2.5, over.set)
        await meets_its_answer(life)


async def meets_its_answer(life: Life) -> None:
    async with life.worker(renewal=never):
        [question] = await see_questions(life.home, 1, QuestionKind.DOUBT)
        # Not by the book, which would not take it yet: the ledger has to hold by itself.
        answer = Answer(question.id, question.source, question.kind, Ruling.RETRY, "ada", 0)
        subject = life.home.subjects.answer(question.id)
        stored = await life.home.connection.store(Message(subject, msgspec.json.encode(answer)))
        assert isinstance(stored, Stored)
        await until(lambda: len(life.ended) == 2, "both attempts to end")
        await life.rests()


def without_quarantine(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(ledger.TABLE, (State.IN_DOUBT, Signal.QUARANTINED), moves.start)


async def is_looked_at_too_soon(life: Life) -> None:
    """The checker says what it sees; the effect lands within the quarantine."""
    over = asyncio.Event()

    async def before(ctx: Context) -> None:
        if ctx.attempt == 1:
            await holds_out(over)

    life.before = before
    life.checker = lambda: bool(life.receiver.keys)
    await life.comes()
    async with life.worker(renewal=never), life.worker(renewal=never):
        await life.begun.wait()
        asyncio.get_running_loop().call_later(2.5, over.set)
        await until(lambda: 1 in life.ended, "the first attempt to end")
        await life.rests()
    life.most_at_once = 1


def without_waiting_to_look(patch: pytest.MonkeyPatch) -> None:
    def at_once(row: Row, given: Given, now_ms: int) -> Plan:
        return Plan(verify=True)

    patch.setattr(moves, "_verify", at_once)
    # Both workers have only begun, so the clock, too, has them wait.
    patch.setattr(ledger, "_takes_over_ms", lambda start: 0)


# --- all of them --------------------------------------------------------------------------------
class Rule(msgspec.Struct, frozen=True):
    """A rule, the life in which it counts, how to take it away, and what the oracle says then."""

    name: str
    effect: str
    lead: Lead
    without: Ablate
    wrong: str
    pool: dict[str, Any]


TWICE, BESIDE, LOST = "done twice", "two at a time", "lost: nobody will bring it again"
RULES = [
    Rule("fencing", "barrier", loses_its_claim_and_fails, without_fencing, TWICE, NARROW),
    Rule("silence", "barrier", loses_its_claim_to_one_that_dies, without_silence, LOST, NARROW),
    Rule("start before effect", "once", dies_behind_the_effect, without_start_before_effect,
         TWICE, SHORT),
    Rule("insert decides absent", "once", comes_twice_at_once, without_insert, TWICE, NARROW),
    Rule("stopped within the lease", "idempotent", cannot_renew, without_cancelling, BESIDE,
         {**LONG, "handler_timeout_s": 20.0}),
    Rule("lease within the ack wait", "once", is_handed_out_while_it_runs, without_patience,
         BESIDE, {**LONG, "handler_timeout_s": 20.0}),
    Rule("an answer waits", "once", is_answered_too_soon, without_quarantine, BESIDE, LONG),
    Rule("a checker waits", "once", is_looked_at_too_soon, without_waiting_to_look, TWICE, LONG),
]  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("held", [True, False], ids=["with", "without"])
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_the_rule_is_what_keeps_it(
    rule: Rule, held: bool, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is wrong under the rule; without it happens what it prevents, in every order."""
    if not held:
        rule.without(monkeypatch)

    async def play(home: House) -> list[str]:
        life = Life(home, rule.effect)
        await rule.lead(life)
        return await oracle(life)

    wrong = play_in_memory(play, seed, pool=rule.pool)
    if held:
        assert [] == wrong
    else:
        assert rule.wrong in wrong
