"""Proves what may be done with an event: every cell, and every ruling on top of it."""

from itertools import product

import pytest

from fencepost_policies.disposition import TABLE, Action, dispose, standing_under
from fencepost_policies.keys import key_for
from fencepost_schemas.event import ClassifiedEvent, KeyScope
from fencepost_schemas.question import QuestionKind, Ruling
from fencepost_schemas.row import Effect
from fencepost_schemas.standing import Standing

RUN, ONE, ASK, REFUSE = Action.RUN, Action.RUN_ONE_ATTEMPT, Action.ASK, Action.REFUSE
G, R, O, U = Standing  # noqa: E741

# standing: action with a usable key (idempotent, keyed, once), and without one, in this order
CELLS: dict[Standing, tuple[Action | None, ...]] = {
    G: (RUN, RUN, RUN, None, None, None),
    R: (RUN, RUN, RUN, None, None, None),
    O: (RUN, RUN, RUN, REFUSE, REFUSE, REFUSE),
    U: (ONE, ASK, ASK, REFUSE, REFUSE, REFUSE),
}
COLUMNS = tuple(product((True, False), (Effect.IDEMPOTENT, Effect.KEYED, Effect.ONCE)))


@pytest.mark.parametrize("standing", Standing)
def test_every_cell_of_the_table(standing: Standing) -> None:
    """The table is the one of the plan; an untainted lineage has no row without a key."""
    for expected, column in zip(CELLS[standing], COLUMNS, strict=True):
        assert expected == TABLE.get((standing, *column))


def test_the_table_has_nothing_else() -> None:
    """No cell stands outside the plan's table."""
    expected = {
        (standing, *column)
        for standing, actions in CELLS.items()
        for action, column in zip(actions, COLUMNS, strict=True)
        if action is not None
    }
    assert expected == set(TABLE)


@pytest.mark.parametrize(
    ("standing", "ruling", "expected"),
    [
        *[(standing, ruling, standing) for standing in (G, R) for ruling in (None, *Ruling)],
        *[(standing, None, standing) for standing in (O, U)],
        *[(standing, Ruling.SAME, R) for standing in (O, U)],
        *[(standing, Ruling.ACCEPT, R) for standing in (O, U)],
        *[(standing, Ruling.RECONCILE, O) for standing in (O, U)],
        *[(standing, Ruling.DISCARD, standing) for standing in (O, U)],
        *[(standing, Ruling.APPLIED, standing) for standing in (O, U)],
        *[(standing, Ruling.RETRY, standing) for standing in (O, U)],
    ],
)
def test_the_standing_under_a_ruling(
    standing: Standing, ruling: Ruling | None, expected: Standing
) -> None:
    """A ruling raises a tainted standing as far as it says, and touches no other."""
    assert expected is standing_under(standing, ruling)


@pytest.mark.parametrize(
    ("standing", "ruling", "usable", "expected"),
    [
        (U, Ruling.SAME, True, RUN),
        (U, Ruling.ACCEPT, True, RUN),
        (U, Ruling.RECONCILE, True, RUN),
        (U, Ruling.RECONCILE, False, REFUSE),
        (U, Ruling.DISCARD, True, Action.DENY),
        (U, Ruling.DISCARD, False, Action.DENY),
        (O, Ruling.SAME, True, RUN),
        (O, Ruling.ACCEPT, True, RUN),
        (O, Ruling.RECONCILE, True, RUN),
        (O, Ruling.RECONCILE, False, REFUSE),
        (O, Ruling.DISCARD, True, Action.DENY),
        (O, Ruling.DISCARD, False, Action.DENY),
        (R, Ruling.DISCARD, True, RUN),
        (G, Ruling.DISCARD, True, RUN),
    ],
)
def test_what_a_ruling_does_to_an_event(
    standing: Standing, ruling: Ruling, usable: bool, expected: Action
) -> None:
    """Each ruling does what it promises, whatever the effect, in a tainted lineage only."""
    for effect in Effect:
        assert expected is dispose(standing, ruling, usable=usable, effect=effect)


@pytest.mark.parametrize("standing", Standing)
@pytest.mark.parametrize("ruling", [None, *QuestionKind.SEAM.rulings])
def test_whatever_arrives_can_be_disposed_of(standing: Standing, ruling: Ruling | None) -> None:
    """Key and disposition fit together: no event under any ruling falls outside the table.

    And what runs in a lineage that is still in doubt runs under a durable key.
    """
    tainted = standing_under(standing, ruling).tainted
    for scope, own, effect in product(KeyScope, (None, "t1"), Effect):
        event = ClassifiedEvent(
            "crm", "0002-aaaaaaaa", standing, standing, "t", "7", "f", "", b"", key_scope=scope
        )
        key = key_for(event, tainted=tainted, generation=event.generation, own=own)
        action = dispose(standing, ruling, usable=key.usable, effect=effect)
        if tainted and action in (RUN, ONE):
            assert (True, True, KeyScope.DURABLE) == (key.own, key.usable, scope)


@pytest.mark.parametrize("effect", [Effect.ONCE, Effect.KEYED])
def test_nothing_that_is_not_repeatable_runs_where_nobody_was_asked(effect: Effect) -> None:
    """The mission in a line: unverifiable and not repeatable means a question.

    A keyed effect is no exception: how long ago its receiver saw the key, nobody knows.
    """
    assert dispose(U, None, usable=True, effect=effect) is ASK
    assert dispose(U, None, usable=False, effect=effect) is REFUSE
