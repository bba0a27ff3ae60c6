"""Proves that the picture of the ledger is the machine, and that the documents show this one."""

import re
import subprocess
import sys
from pathlib import Path

from fencepost_policies.diagram import ledger_diagram
from fencepost_policies.ledger import Signal
from fencepost_schemas.row import Effect, State

DOCUMENT = Path(__file__).parents[2] / "docs" / "ledger.md"
COMMAND = ".venv/bin/python -m fencepost_policies.diagram"
EDGE = re.compile(r"    (\S+) --> (\S+): (.+)")


def edges() -> dict[tuple[str, str], set[str]]:
    found = (EDGE.fullmatch(line) for line in ledger_diagram().splitlines())
    return {(edge[1], edge[2]): set(edge[3].split(", ")) for edge in found if edge}


def test_the_document_shows_the_machine_of_today() -> None:
    """Whoever changes a transition sees the picture change."""
    marks = f"<!-- Made by: {COMMAND} -->\n```mermaid\n(.*?)```\n<!-- end -->\n"
    shown = re.search(marks, DOCUMENT.read_text("utf-8"), re.DOTALL)
    assert shown is not None, f"{DOCUMENT} has lost its marks"
    assert ledger_diagram() == shown[1], f"put between the marks what this prints: {COMMAND}"


def test_the_command_prints_the_diagram() -> None:
    """The document says how it was made, and that works."""
    made = [sys.executable, "-m", "fencepost_policies.diagram"]
    printed = subprocess.run(made, capture_output=True, text=True, check=True)
    assert ledger_diagram() == printed.stdout


def test_every_state_is_drawn_and_reached() -> None:
    """None is left over, the final ones lead out, and nothing leads from them to another.

    Only a person leads an event on that was rejected.
    """
    drawn = edges()
    assert set(State) == {after for _, after in drawn}
    ends = re.findall(r"    (\w+) --> \[\*\]\n", ledger_diagram())
    assert {state for state in State if state.terminal} == set(ends)
    assert {"rejected"} == {before for before, _ in drawn} & set(ends)


def test_edges_carry_words_that_happen_and_lead_elsewhere() -> None:
    """No self-loops, and none of the words that never write a state."""
    drawn = edges()
    assert all(before != after for before, after in drawn)
    words = set.union(*drawn.values())
    assert words <= set(Signal)
    still = {Signal.FENCED, Signal.LEASE_RUNS, Signal.NOT_DUE, Signal.QUARANTINED, Signal.RENEWING}
    assert not words & {*still, Signal.DISCARDED_ELSEWHERE, Signal.OVERTAKEN}


def test_some_edges_that_the_house_stands_on() -> None:
    """The drawing is looked at from outside: these are promises to users."""
    drawn = edges()
    assert {"at_barrier"} <= drawn["claimed", "started"]
    assert {"verified_done"} <= drawn["started", "applied"]
    assert {"lease_over", "unknown", "verified_nothing"} == drawn["started", "in_doubt"]
    assert {"other_payload"} == drawn["[*]", "conflict"]
    assert ("in_doubt", "retry_wait") not in drawn


def test_the_document_explains_every_state_and_effect() -> None:
    """A word that a user can see stands in a table."""
    text = DOCUMENT.read_text("utf-8")
    for word in (*State, *Effect):
        assert f"| `{word}`" in text
