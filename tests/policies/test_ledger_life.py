"""Proves that one row, through any life with crashes, is neither run twice nor left lying.

The machine plays everything around the row: deliveries that come again, workers that die between
any two lines of a plan or on either side of their barrier, workers that freeze and come back too
late, renewals, checkers that tell the truth, a receiver that forgets, people who answer, seams that
are ruled on, and time. It counts effects, where they happen. After each step whatever is unfinished
must have a carrier that brings it on; and in the end, when nothing fails any more, it is finished.
"""

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from fencepost_policies.disposition import Action
from fencepost_policies.ledger import step
from fencepost_policies.plan import (
    Answered,
    Arrived,
    AtBarrier,
    Finished,
    Given,
    Notice,
    Outcome,
    Plan,
    Renewing,
    Settlement,
    Start,
    Terms,
    Verified,
)
from fencepost_schemas.question import QuestionKind, Ruling
from fencepost_schemas.row import Effect, Row, State
from fencepost_schemas.standing import Standing

KEY = "k:task-1"
LEASE_MS, TIMEOUT_MS, SINK_MS, PARKED_OVER_MS = 30, 60, 200, 20
QUARANTINE_MS = LEASE_MS + TIMEOUT_MS
FAR_MS = 10**9
RUNNING = (State.CLAIMED, State.STARTED)
LINES = 4
"""Lines of a plan: write, run or verify, publish, settle. A crash loses the rest of them."""


class Ending(msgspec.Struct, frozen=True):
    """What a handler comes to while its worker is looking."""

    enters: bool = True
    acts: bool = True
    outcome: Outcome | None = Outcome.APPLIED
    """None: the worker is killed, or freezes and goes on later."""
    lines: int = LINES


WELL = Ending()
crashes = st.sampled_from([LINES, LINES, LINES, LINES, 0, 1, 2, 3])
waits = st.sampled_from([0, 1, 10, LEASE_MS, QUARANTINE_MS, SINK_MS])
endings = st.builds(
    Ending, st.booleans(), st.booleans(), st.sampled_from([None, *Outcome]), crashes
)
terms = st.builds(
    Terms,
    attempts_max=st.sampled_from([2, 5]),
    barrier=st.booleans(),
    verifiable=st.booleans(),
    parked_over_ms=st.just(PARKED_OVER_MS),
)


class Carrier:
    """A message of the broker that brings the row on; it comes again until it is settled."""

    def __init__(self, given: Arrived | Answered) -> None:
        self.given = given
        self.settled = False


class Attempt:
    """One run of the handler. Its worker stops it TIMEOUT_MS after it got going, at the latest.

    In front of its barrier it may freeze for as long as it likes.
    """

    def __init__(self, row: Row, start: Start, carrier: Carrier | None, now_ms: int) -> None:
        self.harmless = row.effect is Effect.IDEMPOTENT
        self.carrier = carrier
        self.begun_ms = None if start.terms.barrier else now_ms
        self.acted = False
        self.ended: Finished | None = None


class OneRow(RuleBasedStateMachine):
    crowded = True
    """Whether other generations bring the key as well, and what was settled comes again."""

    def __init__(self) -> None:
        super().__init__()
        self.row: Row | None = None
        self.now = 1_000
        self.claims = 0
        self.carriers: list[Carrier] = []
        self.attempts: dict[str, Attempt] = {}
        self.runs: list[int] = []
        self.leave: set[int] = set()
        self.questions: dict[tuple[QuestionKind, int], bool] = {}
        self.held: list[Arrived] = []
        self.ruled: dict[str, Action] = {}
        """What somebody said of a seam. It stands for whatever is held there later, too."""
        self.asked: list[tuple[Verified, Carrier | None]] = []
        self.happened = False
        self.effects = 0
        """Those that must not be repeated. One that was begun as idempotent may be, for ever."""
        self.excused = 0
        """Effects beyond the first that somebody gave leave for, against the facts."""
        self.receiver_knows_until = 0

    # --- what carries out a plan
    def start(self) -> Start:
        self.claims += 1
        return Start(f"claim-{self.claims}", "worker", LEASE_MS, TIMEOUT_MS, self.terms)

    def carry_out(self, plan: Plan, given: Given, carrier: Carrier | None, lines: int) -> None:
        if lines > 0 and plan.write is not None:
            self.write(plan.write, given)
        if lines > 1 and plan.run:
            assert plan.write is not None
            assert isinstance(given, Arrived | Answered | Verified)
            self.runs.append(plan.write.attempt)
            self.attempts[plan.write.claim] = Attempt(plan.write, given.start, carrier, self.now)
        if lines > 1 and plan.verify:
            self.ask_checker(carrier)
        if lines > 2:
            self.publish(plan, given, carrier)
        if lines > 3 and carrier is not None and plan.settle is Settlement.ACK:
            carrier.settled = True

    def write(self, row: Row, given: Given) -> None:
        before = self.row
        if row.key != KEY:
            assert row.state is State.CONFLICT
            return
        if before is not None:
            assert not before.state.terminal, "a terminal row was written again"
            assert row.attempt >= before.attempt
            self.check_taking(before, given)
            if row.attempt > before.attempt > 0:
                self.check_leave(before, given)
        if isinstance(given, Finished) and given.outcome is Outcome.NOT_APPLIED:
            self.leave.add(row.attempt)
        if isinstance(given, Finished) and before is not None and before.state is State.CLAIMED:
            self.leave.add(row.attempt)
        self.row = row

    def check_taking(self, before: Row, given: Given) -> None:
        """Nothing is taken from a worker that may be at it."""
        if before.state in RUNNING and isinstance(given, Arrived | Answered):
            assert self.now >= before.lease_until_ms, "taken from a worker that has its lease"
        if before.state in RUNNING and isinstance(given, Verified):
            attempt = self.attempts.get(before.claim)
            over = attempt is None or attempt.ended is not None
            assert over or self.now >= before.quarantine_until_ms, "judged while it was at work"

    def check_leave(self, before: Row, given: Given) -> None:
        """Another run of what may not be repeated has a proof, or somebody's word."""
        if before.state is State.IN_DOUBT:
            assert self.now >= before.quarantine_until_ms, "run while the old worker may be at it"
            assert isinstance(given, Answered) and given.ruling is Ruling.RETRY
            # This person was wrong if it happened, and it may happen once more by their leave.
            self.excused = self.effects
        leave = before.attempt in self.leave or before.state in (State.CLAIMED, State.IN_DOUBT)
        leave = leave or (isinstance(given, Verified) and given.happened is False)
        assert leave or before.effect is not Effect.ONCE, "a second run without leave"

    def publish(self, plan: Plan, given: Given, carrier: Carrier | None) -> None:
        assert self.row is not None or not plan.publish
        for notice in plan.publish:
            if notice is Notice.HOLD:
                assert isinstance(given, Arrived)
                self.hold(given)
            elif notice is Notice.PARK:
                brought = carrier.given if carrier is not None else self.arrived
                event = brought if isinstance(brought, Arrived) else self.arrived
                self.carriers.append(Carrier(event))
            elif notice is Notice.ASK_DOUBT and self.row is not None:
                self.questions.setdefault((QuestionKind.DOUBT, self.row.attempt), False)

    def hold(self, event: Arrived) -> None:
        """Keep an event under its seam's question; whoever finds it ruled on brings it on."""
        action = self.ruled.get(event.generation)
        if action is None:
            self.held.append(event)
        else:
            self.carriers.append(Carrier(msgspec.structs.replace(event, action=action)))

    def ask_checker(self, carrier: Carrier | None) -> None:
        """The checker looks now, and says later what it saw."""
        assert self.row is not None and self.terms.verifiable
        said = Verified(self.row.claim, self.happened, self.start())
        self.asked.append((said, carrier))

    def unsettled(self) -> list[Carrier]:
        return [carrier for carrier in self.carriers if not carrier.settled]

    def alive(self) -> list[str]:
        return [claim for claim, attempt in self.attempts.items() if attempt.ended is None]

    # --- what happens to the event
    @initialize(
        action=st.sampled_from([Action.RUN, Action.RUN, Action.RUN_ONE_ATTEMPT, Action.ASK]),
        effect=st.sampled_from([Effect.ONCE, Effect.ONCE, Effect.KEYED, Effect.IDEMPOTENT]),
        terms=terms,
        lines=crashes,
        ending=endings,
    )
    def announce(
        self, action: Action, effect: Effect, terms: Terms, lines: int, ending: Ending
    ) -> None:
        """The event arrives for the first time."""
        if not self.crowded:
            action, lines, ending = Action.RUN, LINES, msgspec.structs.replace(ending, acts=False)
        sink_ms = SINK_MS if effect is Effect.KEYED else 0
        self.terms = msgspec.structs.replace(terms, sink_ms=sink_ms)
        self.arrived = Arrived(
            action=action,
            start=self.start(),
            handler="charge",
            namespace="crm",
            key=KEY,
            fingerprint="f1",
            effect=effect,
            standing=Standing.RESUMED,
            source="crm",
            generation="0001-aaaaaaaa",
            position="7",
        )
        self.carriers.append(Carrier(self.arrived))
        self.hand_over(self.carriers[0], lines, ending)

    @precondition(lambda self: self.crowded and len(self.carriers) < 4)
    @rule(
        action=st.sampled_from([Action.RUN, Action.RUN_ONE_ATTEMPT, Action.ASK, Action.DENY]),
        fingerprint=st.sampled_from(["f1", "f1", "f1", "f2"]),
    )
    def announce_again(self, action: Action, fingerprint: str) -> None:
        """Another generation brings the same key, perhaps with another payload."""
        again = msgspec.structs.replace(
            self.arrived, generation="0002-bbbbbbbb", action=action, fingerprint=fingerprint
        )
        self.carriers.append(Carrier(again))

    @precondition(lambda self: self.unsettled())
    @rule(data=st.data(), after_ms=waits, lines=crashes, ending=endings)
    def deliver(self, data: st.DataObject, after_ms: int, lines: int, ending: Ending) -> None:
        """What is not settled comes again, at once or after a while."""
        self.now += after_ms
        self.hand_over(data.draw(st.sampled_from(self.unsettled())), lines, ending)

    @precondition(lambda self: self.crowded and len(self.unsettled()) < len(self.carriers))
    @rule(data=st.data(), lines=crashes, ending=endings)
    def deliver_once_more(self, data: st.DataObject, lines: int, ending: Ending) -> None:
        """The broker delivers at least once: a message that was acked may come again, too."""
        settled = [carrier for carrier in self.carriers if carrier.settled]
        self.hand_over(data.draw(st.sampled_from(settled)), lines, ending)

    def hand_over(self, carrier: Carrier, lines: int, ending: Ending) -> None:
        """Give the carrier to `step`; a handler that runs may end at once, in this way."""
        given = msgspec.structs.replace(carrier.given, start=self.start())
        plan = step(self.row, given, self.now)
        self.carry_out(plan, given, carrier, lines)
        self.play(plan, lines, ending)

    @precondition(lambda self: False in self.questions.values())
    @rule(data=st.data(), lines=crashes, ending=endings)
    def answer(self, data: st.DataObject, lines: int, ending: Ending) -> None:
        """A person answers an open question, once; the answer is a message of its own."""
        asked = [matter for matter, done in self.questions.items() if not done]
        kind, attempt = data.draw(st.sampled_from(asked))
        ruling = data.draw(st.sampled_from([*kind.rulings, Ruling.RETRY]))
        self.questions[kind, attempt] = True
        self.carriers.append(Carrier(Answered(ruling, "eve", attempt, self.start(), "f1")))
        self.hand_over(self.carriers[-1], lines, ending)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), action=st.sampled_from([Action.RUN, Action.DENY]))
    def rule_on_the_seam(self, data: st.DataObject, action: Action) -> None:
        """The seam's answer carries the events that were held under it."""
        event = data.draw(st.sampled_from(self.held))
        self.held = [held for held in self.held if held.generation != event.generation]
        self.ruled[event.generation] = action
        self.carriers.append(Carrier(msgspec.structs.replace(event, action=action)))

    # --- what a handler does
    def play(self, plan: Plan, lines: int, ending: Ending) -> None:
        """Let a handler that a plan started come to its ending, if its worker lives on."""
        if not plan.run or plan.write is None or lines < LINES:
            return
        claim = plan.write.claim
        if ending.enters:
            self.enter(claim, LINES)
        if ending.acts:
            self.act(claim)
        if ending.outcome is not None:
            self.end(claim, ending.outcome, retry_ms=10)
            self.tell(claim, ending.lines)

    def enter(self, claim: str, lines: int) -> None:
        attempt = self.attempts[claim]
        if attempt.begun_ms is not None or attempt.ended is not None:
            return
        given = AtBarrier(claim)
        plan = step(self.row, given, self.now)
        self.carry_out(plan, given, None, lines)
        if plan.write is not None and lines > 1:
            attempt.begun_ms = self.now

    def act(self, claim: str) -> None:
        """Let the effect happen, if the handler may still be at it."""
        attempt = self.attempts[claim]
        if attempt.begun_ms is None or attempt.ended is not None or attempt.acted:
            return
        row = self.row
        leased = row is not None and row.claim == claim and self.now < row.lease_until_ms
        if not leased and self.now >= attempt.begun_ms + TIMEOUT_MS:
            return
        attempt.acted = self.happened = True
        if self.terms.sink_ms and self.now < self.receiver_knows_until:
            return
        self.effects += not attempt.harmless
        self.receiver_knows_until = self.now + self.terms.sink_ms

    def end(self, claim: str, outcome: Outcome, retry_ms: int) -> None:
        """Fix what the handler says; it is honest, so a proof or a success has to be true."""
        attempt = self.attempts[claim]
        if outcome is Outcome.NOT_APPLIED and attempt.acted:
            outcome = Outcome.UNKNOWN
        if outcome is Outcome.APPLIED and not attempt.acted:
            outcome = Outcome.NOT_APPLIED
        attempt.ended = Finished(claim, outcome, retry_ms=retry_ms, terms=self.terms)

    def tell(self, claim: str, lines: int) -> None:
        attempt = self.attempts[claim]
        assert attempt.ended is not None
        plan = step(self.row, attempt.ended, self.now)
        if self.row is None or self.row.claim != claim:
            assert plan == Plan(settle=Settlement.SILENT)
        self.carry_out(plan, attempt.ended, attempt.carrier, lines)

    @precondition(lambda self: self.alive())
    @rule(data=st.data(), after_ms=waits, lines=crashes)
    def come_to_the_barrier(self, data: st.DataObject, after_ms: int, lines: int) -> None:
        """A handler comes to its barrier late; or its worker dies at it, before or after."""
        self.now += after_ms
        self.enter(data.draw(st.sampled_from(self.alive())), lines)

    @precondition(lambda self: self.alive())
    @rule(data=st.data(), after_ms=waits)
    def act_late(self, data: st.DataObject, after_ms: int) -> None:
        """The effect happens a while after the start, perhaps when nobody waits for it."""
        self.now += after_ms
        self.act(data.draw(st.sampled_from(self.alive())))

    @precondition(lambda self: self.alive())
    @rule(data=st.data(), after_ms=waits)
    def renew(self, data: st.DataObject, after_ms: int) -> None:
        """A worker keeps its lease, or wakes up and tries to."""
        self.now += after_ms
        given = Renewing(data.draw(st.sampled_from(self.alive())), LEASE_MS)
        self.carry_out(step(self.row, given, self.now), given, None, LINES)

    @precondition(lambda self: self.attempts)
    @rule(
        data=st.data(),
        after_ms=waits,
        lines=crashes,
        outcome=st.sampled_from(Outcome),
        retry_ms=st.sampled_from([0, 10, PARKED_OVER_MS + 1]),
    )
    def finish_late(
        self, data: st.DataObject, after_ms: int, lines: int, outcome: Outcome, retry_ms: int
    ) -> None:
        """A handler ends, perhaps long after it was given up; its word may be lost or repeated."""
        self.now += after_ms
        claim = data.draw(st.sampled_from(list(self.attempts)))
        if self.attempts[claim].ended is None:
            self.end(claim, outcome, retry_ms)
        self.tell(claim, lines)

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), after_ms=waits, can_say=st.booleans(), lines=crashes, ending=endings)
    def hear_the_checker(
        self, data: st.DataObject, after_ms: int, can_say: bool, lines: int, ending: Ending
    ) -> None:
        """The checker says what it saw when it was asked, or that it cannot say."""
        self.now += after_ms
        said, carrier = self.asked.pop(data.draw(st.integers(0, len(self.asked) - 1)))
        if not can_say:
            said = msgspec.structs.replace(said, happened=None)
        self.hear(said, carrier, lines, ending)

    def hear(self, said: Verified, carrier: Carrier | None, lines: int, ending: Ending) -> None:
        plan = step(self.row, said, self.now)
        self.carry_out(plan, said, carrier, lines)
        self.play(plan, lines, ending)

    # --- what holds
    @invariant()
    def no_attempt_runs_twice(self) -> None:
        assert len(self.runs) == len(set(self.runs))

    @invariant()
    def nothing_happens_twice_without_leave(self) -> None:
        """Counted where effects happen: at the receiver, which may have forgotten a key."""
        assert self.effects <= self.excused + 1

    @invariant()
    def whatever_is_unfinished_has_something_that_brings_it_on(self) -> None:
        row = self.row
        if not self.carriers or (row is not None and row.state.terminal):
            return
        if row is not None and row.state is State.IN_DOUBT:
            if self.questions.get((QuestionKind.DOUBT, row.attempt)) is False:
                return
        elif self.held and (row is None or row.state.parked):
            return
        assert any(self.brings_on(carrier) for carrier in self.unsettled()), row

    def brings_on(self, carrier: Carrier) -> bool:
        plan = step(self.row, carrier.given, self.now + FAR_MS)
        asks = Notice.ASK_DOUBT in plan.publish or Notice.HOLD in plan.publish or plan.verify
        return asks or (plan.write is not None and plan.write.key == KEY)

    @invariant()
    def a_decided_row_settles_whatever_comes(self) -> None:
        if self.row is None or not self.row.state.terminal:
            return
        for carrier in self.unsettled():
            plan = step(self.row, carrier.given, self.now)
            assert plan.settle is Settlement.ACK and not plan.run

    def teardown(self) -> None:
        """When nothing fails any more, everything comes to its end."""
        for _ in range(8):
            self.now += FAR_MS
            for carrier in self.unsettled():
                self.hand_over(carrier, LINES, WELL)
                while self.asked:
                    said, carrier_of = self.asked.pop(0)
                    self.hear(said, carrier_of, LINES, WELL)
            for (kind, attempt), done in list(self.questions.items()):
                if not done:
                    self.questions[kind, attempt] = True
                    given = Answered(Ruling.APPLIED, "eve", attempt, self.start(), "f1")
                    self.carriers.append(Carrier(given))
            self.carriers += [
                Carrier(msgspec.structs.replace(event, action=Action.RUN)) for event in self.held
            ]
            self.held = []
        self.nothing_happens_twice_without_leave()
        assert not self.unsettled()
        assert not self.carriers or (self.row is not None and self.row.state.terminal)


class OneLonelyRow(OneRow):
    """The same life without the crowd: it gets further into freezes, checkers and memories."""

    crowded = False


OneRow.TestCase.settings = settings(deadline=None, max_examples=250, stateful_step_count=25)
OneLonelyRow.TestCase.settings = OneRow.TestCase.settings
TestOneRow = OneRow.TestCase
TestOneLonelyRow = OneLonelyRow.TestCase
