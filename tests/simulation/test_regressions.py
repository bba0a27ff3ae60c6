"""What the simulator found once is played for ever, in the worlds that it was found in.

Most plans are those of the first floor, which never change; what the product does in them does. So
a seed meets what it was found for no more than it happens to, and a finding with a shape of its own
is better kept as a scenario, among the ablations.
"""

import pytest

from fencepost.testing.simulator.plan import draw_first_floor, draw_second_floor
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

FOUND_LATER = {
    118: "I4, the oracle's: a join's loss that came late in another generation",
    452: "I8: a key that came again took the place of what was held under a pause",
    1376: "I6, the oracle's: a doubt that waits until its handler's pause is over",
    1716: "I1: a keyless event came again behind a seam ruled the same as one that was reconciled",
    2347: "I4, the oracle's: the same as 118",
    3024: "I2: a log that holds three events covered a join, and had dropped what was lost at it",
    3131: "I5: what came on a connection that was cut went behind what the audit went on with",
    3519: "I6: a refusal whose worker died before it held, and whose event was ruled the same",
    3803: "I8: the same as 452",
    3977: "I2: the same as 452, and what had taken the place was discarded",
    4820: "I1: a keyless event got another key when an older seam was ruled the same afterwards",
}
"""In plans of the second floor, in which nobody sets a clock."""


@pytest.mark.parametrize("seed", FOUND, ids=str)
def test_what_was_found_once_is_not_found_again(seed: int) -> None:
    """Nothing is wrong with the seed any more."""
    assert [] == run_plan(draw_first_floor(seed)).violations, FOUND[seed]


@pytest.mark.parametrize("seed", FOUND_LATER, ids=str)
def test_what_was_found_since_is_not_found_again(seed: int) -> None:
    """The same, for plans that have everything."""
    assert [] == run_plan(draw_second_floor(seed)).violations, FOUND_LATER[seed]
