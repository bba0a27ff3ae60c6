"""What may be done with an event: its standing, its handler's effect and its key, in one table."""

from enum import StrEnum

from fencepost_schemas.question import Ruling
from fencepost_schemas.row import Effect
from fencepost_schemas.standing import Standing


class Action(StrEnum):
    RUN = "run"
    RUN_ONE_ATTEMPT = "run_one_attempt"
    """Run it, and treat it as `once` whatever the handler declared."""
    ASK = "ask"
    REFUSE = "refuse"
    DENY = "deny"


_R, _ONE, _A, _N = Action.RUN, Action.RUN_ONE_ATTEMPT, Action.ASK, Action.REFUSE

TABLE: dict[tuple[Standing, bool, Effect], Action] = {
    # standing, has a usable key, effect
    (Standing.GENESIS, True, Effect.IDEMPOTENT): _R,
    (Standing.GENESIS, True, Effect.KEYED): _R,
    (Standing.GENESIS, True, Effect.ONCE): _R,
    (Standing.RESUMED, True, Effect.IDEMPOTENT): _R,
    (Standing.RESUMED, True, Effect.KEYED): _R,
    (Standing.RESUMED, True, Effect.ONCE): _R,
    (Standing.REORIGINATED, True, Effect.IDEMPOTENT): _R,
    (Standing.REORIGINATED, True, Effect.KEYED): _R,
    (Standing.REORIGINATED, True, Effect.ONCE): _R,
    (Standing.REORIGINATED, False, Effect.IDEMPOTENT): _N,
    (Standing.REORIGINATED, False, Effect.KEYED): _N,
    (Standing.REORIGINATED, False, Effect.ONCE): _N,
    (Standing.UNVERIFIABLE, True, Effect.IDEMPOTENT): _ONE,
    (Standing.UNVERIFIABLE, True, Effect.KEYED): _A,
    (Standing.UNVERIFIABLE, True, Effect.ONCE): _A,
    (Standing.UNVERIFIABLE, False, Effect.IDEMPOTENT): _N,
    (Standing.UNVERIFIABLE, False, Effect.KEYED): _N,
    (Standing.UNVERIFIABLE, False, Effect.ONCE): _N,
}
"""An untainted lineage always has a usable key: one derived from the position if need be."""


def standing_under(standing: Standing, ruling: Ruling | None) -> Standing:
    """Return the standing that counts once a person has ruled on the generation.

    A ruling speaks on a tainted generation only. `discard` raises nothing.
    """
    if not standing.tainted:
        return standing
    if ruling in (Ruling.SAME, Ruling.ACCEPT):
        return Standing.RESUMED
    if ruling is Ruling.RECONCILE:
        return Standing.REORIGINATED
    return standing


def dispose(standing: Standing, ruling: Ruling | None, *, usable: bool, effect: Effect) -> Action:
    """Return what may be done with one event for one handler."""
    if ruling is Ruling.DISCARD and standing.tainted:
        return Action.DENY
    return TABLE[standing_under(standing, ruling), usable, effect]
