"""What an emitted event is, and what may be done with it by the tables that there are."""

import msgspec
import pytest

from fencepost_policies.disposition import Action, dispose
from fencepost_policies.emission import emitted_event, generation_of
from fencepost_policies.keys import key_for
from fencepost_schemas.emission import Emission, Origin
from fencepost_schemas.event import event_of, headers_of
from fencepost_schemas.row import Effect
from fencepost_schemas.subject import checked_generation

SAID = Emission("task.assigned", "T-1", b"{}")
OWN = Origin("shop", "fp.ledger.charge.crm.abc", "app-shop")
FILLING = Origin("shop", "fp.ledger.fill.crm.abc", "shared", "crm", "gap-x")


@pytest.mark.parametrize("origin", [OWN, FILLING])
@pytest.mark.parametrize("effect", Effect)
def test_it_is_run_by_its_key_and_by_nothing_else(origin: Origin, effect: Effect) -> None:
    """Durable and absent it runs; a handler whose own key is not in it gets it refused."""
    event = emitted_event(SAID, origin, "then")
    assert event.standing.tainted
    for own, action in (("T-1", Action.RUN), (None, Action.REFUSE)):
        key = key_for(event, tainted=True, generation=event.generation, own=own)
        assert action is dispose(event.standing, None, usable=key.usable, effect=effect)


def test_it_travels_as_any_event_does() -> None:
    event = emitted_event(SAID, FILLING, "then")
    carried = event_of(headers_of(event), event.payload)
    assert msgspec.structs.replace(event, size=0) == carried
    assert ("app-shop", "shared", "crm", "gap-x") == (
        event.source,
        event.namespace,
        event.fills,
        event.gap,
    )


def test_emitted_once_more_it_is_the_same_but_for_the_time() -> None:
    """Whoever reads the events by their id sees one."""
    first, again = (emitted_event(SAID, OWN, time) for time in ("then", "now"))
    assert first == msgspec.structs.replace(again, time="then")
    assert headers_of(first)["ce-id"] == headers_of(again)["ce-id"]


def test_two_events_never_have_one_id() -> None:
    """Not of one row, nor of two."""
    emissions = [SAID, Emission("task.assigned", "T-2", b"{}"), Emission("task.done", "T-1", b"{}")]
    ids = {
        headers_of(emitted_event(one, origin, "then"))["ce-id"]
        for one in emissions
        for origin in (OWN, FILLING)
    }
    assert 6 == len(ids)


def test_a_ruling_reaches_what_one_row_emitted() -> None:
    """Discarding that leaves alone what another gap's reconciler brings."""
    rows = [f"fp.ledger.fill.crm.{number}" for number in range(1_000)]
    assert len(rows) == len({checked_generation(generation_of(row)) for row in rows})
