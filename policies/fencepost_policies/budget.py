"""How often one host may be connected to: a bucket that fills again by itself."""

import msgspec


class Budget(msgspec.Struct, frozen=True):
    """`left` connections may be made at once; below zero, so many were promised for later."""

    left: float
    at_s: float


def spend(budget: Budget | None, now_s: float, *, per_s: float, burst: int) -> tuple[Budget, float]:
    """Return what is left after one more connection, and how long that one has to wait.

    Whoever waits has a place of its own: a thousand that come at once are spread out evenly, and
    none of them is asked to try again.
    """
    if budget is None:
        budget = Budget(float(burst), now_s)
    filled = min(float(burst), budget.left + max(0.0, now_s - budget.at_s) * per_s)
    left = filled - 1.0
    return Budget(left, now_s), max(0.0, -left) / per_s
