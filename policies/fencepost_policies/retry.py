"""How long to wait before the next try: bounds only, since a policy takes no chances."""

import msgspec

RETRY_AFTER_S_MAX = 300.0


class WaitBounds(msgspec.Struct, frozen=True):
    """The worker draws a wait from this range."""

    least_s: float
    most_s: float


def wait_bounds(attempt: int, *, first_s: float, longest_s: float) -> WaitBounds:
    """Return the bounds after the given attempt (1 is the first): doubling, up to `longest_s`."""
    assert attempt >= 1
    most = min(longest_s, first_s * 2 ** min(attempt - 1, 30))
    return WaitBounds(least_s=min(first_s, most) / 2, most_s=most)


def asked_bounds(
    bounds: WaitBounds, *, retry_s: float, after_s: float, longest_s: float
) -> WaitBounds:
    """Return the bounds, moved by what the source itself wants us to wait.

    `retry_s` is its `retry:` field, taken up to `longest_s`; `after_s` its Retry-After. It is the
    least of the wait, and chance comes on top: a thousand clients were told the same number. A
    source that wants no wait at all still gets ours.
    """
    asked = max(min(retry_s, longest_s), min(after_s, RETRY_AFTER_S_MAX))
    return WaitBounds(asked + bounds.least_s, asked + bounds.most_s)
