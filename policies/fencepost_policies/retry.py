"""How long to wait before the next try: bounds only, since a policy takes no chances."""

import msgspec


class WaitBounds(msgspec.Struct, frozen=True):
    """The worker draws a wait from this range."""

    least_s: float
    most_s: float


def wait_bounds(attempt: int, *, first_s: float, longest_s: float) -> WaitBounds:
    """Return the bounds after the given attempt (1 is the first): doubling, up to `longest_s`."""
    assert attempt >= 1
    most = min(longest_s, first_s * 2 ** min(attempt - 1, 30))
    return WaitBounds(least_s=min(first_s, most) / 2, most_s=most)
