"""The only reader of clocks, and the only place where chance is drawn.

Decisions never call these; they get times and random names as arguments.
"""

import secrets
import time
from datetime import UTC, datetime
from functools import lru_cache

from tenacity import RetryCallState, Retrying, wait_random

from fencepost_policies.retry import WaitBounds

NS_PER_MS = 1_000_000


def wall_ms() -> int:
    """Return this machine's clock in milliseconds since 1970."""
    return time.time_ns() // NS_PER_MS


_STEADY = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
"""A clock that nobody sets, and that goes on while the machine is suspended: on Linux the one that
`time.monotonic` reads stands still meanwhile, elsewhere it goes on."""


def monotonic_s() -> float:
    """Return the seconds since some moment, those included in which this machine was suspended."""
    return time.monotonic() if _STEADY is None else time.clock_gettime(_STEADY)


@lru_cache(maxsize=1)
def iso_time(ms: int) -> str:
    """Return RFC 3339 in UTC with milliseconds."""
    seconds, ms_of_it = divmod(ms, 1000)
    return f"{_iso_second(seconds)}.{ms_of_it:03d}Z"


@lru_cache(maxsize=1)
def _iso_second(seconds: int) -> str:
    """Return the second in words; the events of one second share them."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


_BASE32 = "abcdefghijklmnopqrstuvwxyz234567"


def random_name(chars: int = 8) -> str:
    """Return that many random lower-case base32 characters."""
    return "".join([_BASE32[byte & 31] for byte in secrets.token_bytes(chars)])


class RealWorld:
    """This machine's clocks, and chance as its system gives it."""

    def wall_ms(self) -> int:
        return time.time_ns() // NS_PER_MS

    def monotonic_s(self) -> float:
        return monotonic_s()

    def random_name(self, chars: int) -> str:
        return random_name(chars)

    def draw_s(self, bounds: WaitBounds) -> float:
        return draw_s(bounds)


def draw_s(bounds: WaitBounds) -> float:
    """Return a wait drawn evenly between the bounds that a policy gave."""
    draw = wait_random(bounds.least_s, bounds.most_s)
    return draw(RetryCallState(Retrying(), None, (), {}))
