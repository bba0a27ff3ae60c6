"""What the simulator found once is played for ever, in the worlds that it was found in.

The plans are those of the first floor, which never change; what the product does in them does. So
a seed meets what it was found for no more than it happens to, and a finding with a shape of its own
is better kept as a scenario, among the ablations.
"""

import pytest

from fencepost.testing.simulator.plan import draw_first_floor
from fencepost.testing.simulator.run import run_plan

FOUND = {
    70: "I8: replicas that replay all they hold to whoever comes, until silence had a heartbeat",
    74: "I8: the same",
    220: "played since the first floor: one replica, everything replayed, acks lost",
    961: "played since the first floor: two replicas, no keys, every fault of a process",
    1744: "played since the first floor: paused workers, and replies that are lost",
    2407: "played since the first floor: everything at the broker goes wrong",
    2924: "played since the first floor: no keys, everything replayed, zombies",
    3663: "played since the first floor: no keys, people who answer, broker down",
    4291: "played since the first floor: two replicas, requests and replies lost",
    4856: "played since the first floor: two replicas, no keys, acks lost",
}


@pytest.mark.parametrize("seed", FOUND, ids=str)
def test_what_was_found_once_is_not_found_again(seed: int) -> None:
    """Nothing is wrong with the seed any more."""
    assert [] == run_plan(draw_first_floor(seed)).violations, FOUND[seed]
