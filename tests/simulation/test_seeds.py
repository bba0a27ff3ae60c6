"""The product in worlds made of seeds: none may fail, and every crash point is died at."""

import ast
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import msgspec
import pytest

import fencepost
from fencepost.testing.simulator.run import run_seed
from fencepost.testing.simulator.traps import BRIDGE_POINTS, WORKER_POINTS, Deed

CHUNK = 25
SEEDS = 200


class Played(msgspec.Struct, frozen=True):
    """What is kept of a seed: what was wrong, and the crash points that processes died at."""

    violations: list[str]
    died_at: set[str]


@cache
def played(seed: int) -> Played:
    outcome = run_seed(seed)
    trapped = outcome.history.trapped
    died_at = {one.point for one in trapped if one.deed == Deed.KILL}
    return Played(outcome.violations, died_at)


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_no_seed_fails(first: int) -> None:
    """Nothing is done twice, lost without a word or called resumed that was not; all ends."""
    violations = {seed: played(seed).violations for seed in range(first, first + CHUNK)}
    assert {} == {seed: found for seed, found in violations.items() if found}


# --- crash points -------------------------------------------------------------------------------
def test_processes_die_at_every_crash_point() -> None:
    """A crash point that no seed reaches would be tried by nobody."""
    died_at = set().union(*(played(seed).died_at for seed in range(SEEDS)))
    assert {*BRIDGE_POINTS, *WORKER_POINTS} == died_at


PLAYED_ELSEWHERE = {"emitting", "emitted"}
"""The simulated app emits nothing; on the real broker `pool/test_reconcile` crashes there."""


@pytest.mark.parametrize(("room", "points"), [("bridge", BRIDGE_POINTS), ("pool", WORKER_POINTS)])
def test_the_simulator_knows_every_crash_point(room: str, points: tuple[str, ...]) -> None:
    """Those that the room's code names, wherever it calls `reached`, and no other."""
    package = Path(fencepost.__file__).parent / room
    named = {
        call.args[0].value
        for path in package.glob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute | ast.Name)
        and (call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id)
        in ("reached", "_reached")
        and call.args
        and isinstance(call.args[0], ast.Constant)
    }
    assert set(points) == named - PLAYED_ELSEWHERE


# --- determinism --------------------------------------------------------------------------------
def test_a_seed_is_a_whole_history() -> None:
    """The same seed twice in a process: the same history to the last byte; another one: another."""
    assert run_seed(3).digest == run_seed(3).digest
    assert run_seed(3).digest != run_seed(4).digest


def test_a_seed_does_not_depend_on_the_hash_of_strings() -> None:
    """What a set or a dict is walked by must not enter the history."""
    code = (
        "from fencepost.testing.simulator.run import run_seed;"
        "print([run_seed(seed).digest for seed in range(8)])"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hashes},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hashes in ("0", "1", "random")
    ]
    assert told[0].startswith("['")
    assert told == [told[0]] * 3
