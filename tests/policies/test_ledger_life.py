"""Proves that one row, through any life with crashes, is neither run twice nor left lying.

The machine plays everything around the row: deliveries that come again, workers that die between
any two lines of a plan, workers that come back too late, people who answer, seams that are ruled
on, and time. After each step whatever is unfinished must have a carrier that brings it on.
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
    Finished,
    Given,
    Notice,
    Outcome,
    Plan,
    Settlement,
    Start,
)
from fencepost_schemas.question import QuestionKind, Ruling
from fencepost_schemas.row import Effect, Row, State
from fencepost_schemas.standing import Standing

KEY = "k:task-1"
LEASE_MS, TIMEOUT_MS = 30, 60
FAR_MS = 10**9
LINES = 4
"""Lines of a plan: write, run, publish, settle. A crash loses the rest of them."""

crashes = st.sampled_from([LINES, LINES, LINES, LINES, 0, 1, 2, 3])
waits = st.sampled_from([0, 1, 10, LEASE_MS, LEASE_MS + TIMEOUT_MS])
outcomes = st.sampled_from([None, *Outcome])
"""How a handler ends while its worker is looking; None: it is killed, or ends much later."""


class Carrier:
    """A message of the broker that brings the row on; it comes again until it is settled."""

    def __init__(self, given: Arrived | Answered) -> None:
        self.given = given
        self.settled = False


class OneRow(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.row: Row | None = None
        self.now = 1_000
        self.claims = 0
        self.carriers: list[Carrier] = []
        self.alive: dict[str, Carrier | None] = {}
        self.runs: list[int] = []
        self.leave: set[int] = set()
        self.questions: dict[tuple[QuestionKind, int], bool] = {}
        self.held: list[Arrived] = []

    # --- what carries out a plan
    def start(self) -> Start:
        self.claims += 1
        return Start(f"claim-{self.claims}", "worker", LEASE_MS, TIMEOUT_MS)

    def carry_out(self, plan: Plan, given: Given, carrier: Carrier | None, lines: int) -> None:
        if lines > 0 and plan.write is not None:
            self.write(plan.write, given)
        if lines > 1 and plan.run:
            assert plan.write is not None
            self.runs.append(plan.write.attempt)
            self.alive[plan.write.claim] = carrier
        if lines > 2:
            self.publish(plan, given)
        if lines > 3 and carrier is not None and plan.settle is Settlement.ACK:
            carrier.settled = True

    def write(self, row: Row, given: Given) -> None:
        before = self.row
        if row.key != KEY:
            assert row.state is State.CONFLICT
            return
        assert before is None or not before.state.terminal, "a terminal row was written again"
        if before is not None and before.state is State.STARTED and not isinstance(given, Finished):
            assert self.now >= before.lease_until_ms, "taken from a worker that has its lease"
        if before is not None and before.state is State.IN_DOUBT and row.state is State.STARTED:
            assert self.now >= before.quarantine_until_ms, "run while the old worker may be at it"
        assert row.attempt >= (before.attempt if before is not None else 0)
        if row.state is State.STARTED and before is not None and before.attempt > 0:
            leave = before.attempt in self.leave or _says_retry(given)
            assert leave or before.effect is not Effect.ONCE, "a second run without leave"
        if isinstance(given, Finished) and given.outcome is Outcome.NOT_APPLIED:
            self.leave.add(row.attempt)
        self.row = row

    def publish(self, plan: Plan, given: Given) -> None:
        assert self.row is not None or not plan.publish
        for notice in plan.publish:
            if notice is Notice.HOLD:
                assert isinstance(given, Arrived)
                self.held.append(given)
            elif notice is Notice.ASK_DOUBT and self.row is not None:
                self.questions.setdefault((QuestionKind.DOUBT, self.row.attempt), False)

    def unsettled(self) -> list[Carrier]:
        return [carrier for carrier in self.carriers if not carrier.settled]

    # --- what happens
    @initialize(
        action=st.sampled_from([Action.RUN, Action.RUN, Action.RUN_ONE_ATTEMPT, Action.ASK]),
        effect=st.sampled_from([Effect.ONCE, Effect.ONCE, Effect.IDEMPOTENT]),
        lines=crashes,
        outcome=outcomes,
    )
    def announce(self, action: Action, effect: Effect, lines: int, outcome: Outcome | None) -> None:
        """The event arrives for the first time."""
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
        self.hand_over(self.carriers[0], lines, outcome)

    @precondition(lambda self: len(self.carriers) < 4)
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
    @rule(data=st.data(), after_ms=waits, lines=crashes, outcome=outcomes)
    def deliver(
        self, data: st.DataObject, after_ms: int, lines: int, outcome: Outcome | None
    ) -> None:
        """What is not settled comes again, at once or after a while."""
        self.now += after_ms
        self.hand_over(data.draw(st.sampled_from(self.unsettled())), lines, outcome)

    @precondition(lambda self: any(carrier.settled for carrier in self.carriers))
    @rule(data=st.data(), lines=crashes, outcome=outcomes)
    def deliver_once_more(self, data: st.DataObject, lines: int, outcome: Outcome | None) -> None:
        """The broker delivers at least once: a message that was acked may come again, too."""
        settled = [carrier for carrier in self.carriers if carrier.settled]
        self.hand_over(data.draw(st.sampled_from(settled)), lines, outcome)

    def hand_over(self, carrier: Carrier, lines: int, outcome: Outcome | None) -> None:
        """Give the carrier to `step`; a handler that runs may end at once, with this outcome."""
        given = msgspec.structs.replace(carrier.given, start=self.start())
        plan = step(self.row, given, self.now)
        self.carry_out(plan, given, carrier, lines)
        if plan.run and plan.write is not None and lines == LINES and outcome is not None:
            self.finish(plan.write.claim, outcome, LINES)

    @precondition(lambda self: self.alive)
    @rule(data=st.data(), after_ms=waits, lines=crashes, outcome=st.sampled_from(Outcome))
    def finish_late(self, data: st.DataObject, after_ms: int, lines: int, outcome: Outcome) -> None:
        """A handler ends, perhaps long after it was given up; its word may be lost or repeated."""
        self.now += after_ms
        self.finish(data.draw(st.sampled_from(list(self.alive))), outcome, lines)

    def finish(self, claim: str, outcome: Outcome, lines: int) -> None:
        given = Finished(claim, outcome, retry_ms=10)
        plan = step(self.row, given, self.now)
        if self.row is None or self.row.claim != claim:
            assert plan == Plan(settle=Settlement.SILENT)
        self.carry_out(plan, given, self.alive[claim], lines)

    @precondition(lambda self: False in self.questions.values())
    @rule(data=st.data(), lines=crashes, outcome=outcomes)
    def answer(self, data: st.DataObject, lines: int, outcome: Outcome | None) -> None:
        """A person answers an open question, once; the answer is a message of its own."""
        asked = [matter for matter, done in self.questions.items() if not done]
        kind, attempt = data.draw(st.sampled_from(asked))
        ruling = data.draw(st.sampled_from([*kind.rulings, Ruling.RETRY]))
        self.questions[kind, attempt] = True
        self.carriers.append(Carrier(Answered(ruling, "eve", attempt, self.start())))
        self.hand_over(self.carriers[-1], lines, outcome)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), action=st.sampled_from([Action.RUN, Action.DENY]))
    def rule_on_the_seam(self, data: st.DataObject, action: Action) -> None:
        """The seam's answer carries the events that were held under it."""
        event = data.draw(st.sampled_from(self.held))
        self.held = [held for held in self.held if held.generation != event.generation]
        self.carriers.append(Carrier(msgspec.structs.replace(event, action=action)))

    # --- what holds
    @invariant()
    def no_attempt_runs_twice(self) -> None:
        assert len(self.runs) == len(set(self.runs))

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
        asks = Notice.ASK_DOUBT in plan.publish or Notice.HOLD in plan.publish
        return asks or (plan.write is not None and plan.write.key == KEY)

    @invariant()
    def a_decided_row_settles_whatever_comes(self) -> None:
        if self.row is None or not self.row.state.terminal:
            return
        for carrier in self.unsettled():
            plan = step(self.row, carrier.given, self.now)
            assert plan.settle is Settlement.ACK and not plan.run


def _says_retry(given: Given) -> bool:
    return isinstance(given, Answered) and given.ruling is Ruling.RETRY


OneRow.TestCase.settings = settings(deadline=None, max_examples=250, stateful_step_count=25)
TestOneRow = OneRow.TestCase
