"""Without a safety rule the simulator must fail: a rule that nobody misses is tested by nobody.

Each scenario is played with its rule, and nothing is wrong; then without it, until the invariant
that the rule is there for is broken.
"""

import asyncio
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from fencepost.bridge.approach import merged
from fencepost.bridge.attempt import Arrival
from fencepost.desk.book import Book
from fencepost.pool.clock import BrokerClock
from fencepost.pool.run import Attempts, Leave
from fencepost.pool.work import Work
from fencepost.testing.simulator.plan import Plan, draw_first_floor
from fencepost.testing.simulator.run import run_plan
from fencepost.testing.simulator.scenarios import (
    disordered,
    ghosts,
    haste,
    keyless,
    keyless_and_late,
    late_claims,
    leaky_joins,
    set_broker_clocks,
    set_clocks,
    short_windows,
    wide_joins,
)
from fencepost.testing.simulator.world import SimulatedWorld
from fencepost_policies.cover import Covered, join_gap
from fencepost_policies.dialects.plain import Dialect
from fencepost_policies.ledger import TABLE, Signal
from fencepost_policies.lineage import Turn, turn
from fencepost_policies.plan import CERTAIN, Given, Reading, Settlement, Terms
from fencepost_policies.plan import Plan as RowPlan
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.question import Question, Ruling
from fencepost_schemas.row import Row, State
from fencepost_schemas.sse import Frame
from fencepost_schemas.verdict import Gap, Verdict

SOUND_SEEDS = 10
"""Of each scenario with its rule."""
NEVER_MS = 10**15
ABLATION_SEEDS = 400
"""Of each scenario without it: more than it ever took."""


def first_violation(plans: Iterable[Plan], invariant: str = "") -> str:
    """Play the plans until one breaks the invariant; return how, and "" where none does."""
    for plan in plans:
        for wrong in run_plan(plan).violations:
            if wrong.startswith(invariant):
                return f"seed {plan.seed}: {wrong}"
    return ""


@pytest.mark.parametrize(
    "scenario",
    [
        ghosts,
        late_claims,
        keyless,
        keyless_and_late,
        leaky_joins,
        short_windows,
        wide_joins,
        disordered,
        haste,
        set_clocks,
        set_broker_clocks,
    ],
)
def test_a_scenario_is_sound(scenario: Callable[[int], Plan]) -> None:
    """With all rules in place nothing is wrong."""
    assert "" == first_violation(map(scenario, range(SOUND_SEEDS)))


# --- without a rule -----------------------------------------------------------------------------
def test_a_standing_per_connection_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A good resume inside a doubtful generation must not launder the doubt."""

    def laundering(
        cursor: Cursor, verdict: Verdict, first: Frame | None, chance: str, ruling: Ruling | None
    ) -> Turn:
        turned = turn(cursor, verdict, first, chance, ruling)
        laundered = msgspec.structs.replace(turned.cursor, standing=verdict.kind)
        return msgspec.structs.replace(turned, cursor=laundered)

    monkeypatch.setattr("fencepost.bridge.lineage.turn", laundering)
    assert first_violation(map(draw_first_floor, range(ABLATION_SEEDS)), "I1")


def test_a_fenced_worker_that_acks_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that lost its row must be silent: its ack would be the last that is heard of it.

    Its successor may have died with the row started or in doubt and nothing else done.
    """

    def acking(row: Row | None, given: Given, now_ms: int) -> RowPlan:
        return RowPlan(settle=Settlement.ACK)

    for state in (None, *State):
        monkeypatch.setitem(TABLE, (state, Signal.FENCED), acking)
    assert first_violation(map(ghosts, range(ABLATION_SEEDS)), "I2")


def test_a_start_behind_the_lease_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that hears late of its claim must not begin: somebody may have answered since."""

    in_time = Attempts.run

    async def run_anyway(
        attempts: Attempts,
        work: Work,
        row: Row,
        revision: int,
        over_ms: int,
        terms: Terms,
        leave: Leave,
    ) -> Any:
        return await in_time(attempts, work, row, revision, NEVER_MS, terms, leave)

    monkeypatch.setattr(Attempts, "run", run_anyway)
    assert first_violation(map(late_claims, range(ABLATION_SEEDS)), "I1")


def test_a_lease_that_goes_by_the_wall_clock_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sets the clock of a worker would end the leases of the others, or its own."""

    def wall_s(world: SimulatedWorld) -> float:
        return asyncio.get_running_loop().time() + world.skew_ms / 1000

    def certain(clock: BrokerClock, *, fresh: bool) -> Reading:
        return CERTAIN

    monkeypatch.setattr(SimulatedWorld, "monotonic_s", wall_s)
    monkeypatch.setattr(BrokerClock, "reading", certain)
    assert first_violation(map(set_clocks, range(ABLATION_SEEDS)), "I1")


def test_a_broker_that_is_believed_about_leases_of_another_clock_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where a cluster elects a node whose clock is ahead, leases seem to be over that are not."""

    def at_once(clock: BrokerClock, *, fresh: bool) -> Reading:
        return Reading(fresh, CERTAIN.stood_ms)

    monkeypatch.setattr(BrokerClock, "reading", at_once)
    assert first_violation(map(set_broker_clocks, range(ABLATION_SEEDS)), "I1")


def test_an_early_word_that_nothing_happened_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is seen before the quarantine is over need not be true behind it."""

    async def take_anyway(book: Book, question: Question) -> None:
        """Let the answer wait for the end of the quarantine, and that be all."""

    monkeypatch.setattr(Book, "_check_quarantine", take_anyway)
    assert first_violation(map(haste, range(ABLATION_SEEDS)), "I1")


def test_the_same_as_what_is_not_settled_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Places that were never said to go on from older ones do not tell what was applied there."""

    async def take_anyway(book: Book, question: Question) -> None:
        """Let the generation in front be whatever it is."""

    monkeypatch.setattr(Book, "_check_seam_in_front", take_anyway)
    assert first_violation(map(keyless_and_late, range(ABLATION_SEEDS)), "I1")


def test_a_replay_that_began_too_late_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that forgets may have dropped what a join lost: then the join is in doubt."""

    def undoubting(cursor: Cursor, covered: Covered | None) -> Gap | None:
        sure = msgspec.structs.replace(covered, doubt="") if covered is not None else None
        return join_gap(cursor, sure)

    monkeypatch.setattr("fencepost.bridge.lineage.join_gap", undoubting)
    assert first_violation(map(short_windows, range(ABLATION_SEEDS)), "I2")


def test_a_join_that_nobody_looks_at_again_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """An overlap proves the seam only; what the join behind it lost is lost for good without."""
    monkeypatch.setattr(Dialect, "covers", False)
    assert first_violation(map(leaky_joins, range(ABLATION_SEEDS)), "I2")


def test_a_gap_that_begins_too_early_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was published is not to be looked for again: it would be told as lost, and was not."""

    def early(
        cursor: Cursor, verdict: Verdict, first: Frame | None, chance: str, ruling: Ruling | None
    ) -> Turn:
        turned = turn(cursor, verdict, first, chance, ruling)
        if turned.gap is None or len(cursor.ring) < 2:
            return turned
        wide = msgspec.structs.replace(turned.gap, after_position=str(cursor.ring[-2].position))
        return msgspec.structs.replace(turned, gap=wide)

    monkeypatch.setattr("fencepost.bridge.lineage.turn", early)
    assert first_violation(map(short_windows, range(ABLATION_SEEDS)), "I5")


def test_a_loss_that_nobody_takes_back_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was told before its verdict; told behind it, too, it would be one that is still open."""

    def keep(cursor: Cursor, **changes: Any) -> Cursor:
        kept = {name: value for name, value in changes.items() if (name, value) != ("loss", None)}
        return msgspec.structs.replace(cursor, **kept)

    replacing = SimpleNamespace(structs=SimpleNamespace(replace=keep))
    monkeypatch.setattr("fencepost.bridge.lineage.msgspec", replacing)
    assert first_violation(map(short_windows, range(ABLATION_SEEDS)), "I9")


def test_two_connections_joined_in_the_wrong_order_are_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A gap begins behind the last that came, so what came must stand as the log has it."""

    def in_any_order(first: list[Arrival], second: list[Arrival], *, ended: bool) -> list[Arrival]:
        return merged(first, second, ended=False)

    monkeypatch.setattr("fencepost.bridge.approach.merged", in_any_order)
    assert first_violation(map(disordered, range(ABLATION_SEEDS)), "I5")
