"""Time and chance of one simulated process."""

import asyncio
from random import Random

from fencepost_policies.retry import WaitBounds

BEGIN_MS = 1_780_000_000_000
"""The broker's clock at the beginning; each machine's is wrong by its own skew."""
_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"


class SimulatedWorld:
    """`skew_ms` is how far the wall clock is wrong; whoever sets that clock changes it."""

    def __init__(self, chance: Random, skew_ms: int) -> None:
        self._chance = chance
        self.skew_ms = skew_ms

    def wall_ms(self) -> int:
        return BEGIN_MS + self.skew_ms + int(self.monotonic_s() * 1000)

    def monotonic_s(self) -> float:
        return asyncio.get_running_loop().time()

    def random_name(self, chars: int) -> str:
        return "".join(self._chance.choice(_LETTERS) for _ in range(chars))

    def draw_s(self, bounds: WaitBounds) -> float:
        return self._chance.uniform(bounds.least_s, bounds.most_s)
