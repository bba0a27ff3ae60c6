"""The ledger's machine as a picture, drawn by stepping it: what it shows is what is done.

`python -m fencepost_policies.diagram` writes it to standard output, as Mermaid text.
"""

import sys
from collections.abc import Iterator
from itertools import product

import msgspec

from fencepost_policies.disposition import Action
from fencepost_policies.ledger import TABLE, Signal, signal, step
from fencepost_policies.plan import (
    CERTAIN,
    Answered,
    Arrived,
    AtBarrier,
    Finished,
    Given,
    Outcome,
    Reading,
    Renewing,
    Start,
    Terms,
    Verified,
)
from fencepost_schemas.question import QuestionKind, Ruling
from fencepost_schemas.row import Effect, Row, State
from fencepost_schemas.standing import Standing

NOW = 1_000
_CLAIM = "c1"
_TERMS = [
    Terms(barrier=barrier, verifiable=verifiable, attempts_max=attempts_max)
    for barrier, verifiable, attempts_max in product((False, True), (False, True), (1, 5))
]
_ARRIVED = Arrived(
    action=Action.RUN,
    start=Start("c2", "w", 10, 10),
    handler="h",
    namespace="n",
    key="k",
    fingerprint="f",
    effect=Effect.ONCE,
    standing=Standing.RESUMED,
    source="s",
    generation="g",
    position="1",
)


_READINGS = (CERTAIN, Reading(fresh=False, stood_ms=0), Reading(fresh=True, stood_ms=0))


def _rows(state: State | None) -> Iterator[Row | None]:
    """Yield rows in this state: each effect, each side of lease, due time and memory."""
    if state is None:
        yield None
        return
    for effect, until_ms, sink_ms in product(Effect, (NOW, NOW + 1), (0, NOW, NOW + 100)):
        yield Row(
            state=state,
            handler="h",
            namespace="n",
            key="k",
            fingerprint="f",
            effect=effect,
            standing=Standing.RESUMED,
            source="s",
            generation="g",
            position="1",
            first_seen_ms=0,
            changed_ms=0,
            attempt=1,
            claim=_CLAIM,
            lease_until_ms=until_ms,
            quarantine_until_ms=until_ms,
            due_ms=until_ms,
            sink_until_ms=sink_ms,
        )


def _givens(terms: Terms) -> Iterator[Given]:
    """Yield everything that a handler with these terms can meet."""
    start = msgspec.structs.replace(_ARRIVED.start, terms=terms)
    for action, effect in product(Action, Effect):
        yield msgspec.structs.replace(_ARRIVED, start=start, action=action, effect=effect)
    for changes in (
        {"withheld": "w"},
        {"undecodable": "u"},
        {"fingerprint": "g"},
        {"fingerprint": "g", "gap": "gap-x"},
        {"generation": "h", "action": Action.DENY},
    ):
        yield msgspec.structs.replace(_ARRIVED, start=start, **changes)
    for outcome in Outcome:
        yield Finished(_CLAIM, outcome, terms=terms)
    yield AtBarrier(_CLAIM)
    yield Renewing(_CLAIM, 10)
    for happened in (True, False, None):
        yield Verified(_CLAIM, happened, start)
    for ruling, attempt in product(QuestionKind.DOUBT.rulings, (0, 1)):
        yield Answered(ruling, "p", attempt, start, "f")
    yield Answered(Ruling.RETRY, "p", 1, start, "g")
    yield Finished("c0", Outcome.APPLIED, terms=terms)


def _steps() -> Iterator[tuple[State | None, Signal, State | None]]:
    """Yield from where, by which word, to where (None: the row is left as it is)."""
    for state, terms in product((None, *State), _TERMS):
        for row, given, reading in product(_rows(state), _givens(terms), _READINGS):
            plan = step(row, given, NOW, reading)
            word = signal(row, given, NOW, reading)
            yield state, word, plan.write.state if plan.write else None


def ledger_diagram() -> str:
    """Return the machine as a Mermaid state diagram; what leaves a state alone is left out."""
    words: dict[tuple[State | None, State], set[Signal]] = {}
    pairs = set()
    for before, word, after in _steps():
        pairs.add((before, word))
        # A conflict is a row of its own, beside the first one.
        source = None if after is State.CONFLICT else before
        if after is not None and after is not source:
            words.setdefault((source, after), set()).add(word)
    assert pairs == set(TABLE), "a pair of the table is not drawn"
    lines = ["stateDiagram-v2"]
    for before, after in product((None, *State), State):
        by = words.get((before, after), set())
        if by:
            label = ", ".join(word for word in Signal if word in by)
            lines.append(f"    {before or '[*]'} --> {after}: {label}")
    lines += [f"    {state} --> [*]" for state in State if state.terminal]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(ledger_diagram())
