"""Proves that text which is no part of any event is noticed, however it comes."""

import pytest

from fencepost_policies.witness import Opening
from fencepost_policies.witnesses.injected import InjectedWitness
from fencepost_schemas.evidence import Facet, Finding
from fencepost_schemas.reason import Reason
from fencepost_schemas.sse import Decoder


def facts_in(stream: bytes) -> list[tuple[str, Reason, str]]:
    witness = InjectedWitness()
    facts = list(witness.opened(Opening(200, {})))
    for frame in Decoder().feed(stream):
        facts += witness.arrived(frame)
    assert {(fact.facet, fact.finding) for fact in facts} <= {
        (Facet.COMPLETENESS, Finding.CONTRADICTS)
    }
    return [(fact.witness, fact.reason, fact.observed) for fact in facts]


@pytest.mark.parametrize(
    ("stream", "observed"),
    [
        (b"data: l3\rl4\n\n", ["1 others"]),
        (b"Failed to retrieve next link.\n\ndata: x\n\n", ["1 others"]),
        (b"<html>\n<body>\n\n: ping\n\ndata: x\n\ndata: y\n\n", ["2 others"]),
        (b"data: x\n\nFailed to retrieve next link.\n\n", []),
        (b"data: x\n\nFailed to retrieve next link.", []),
        (b": comment\nevent: a\nid: 1\nretry: 5\ndata: x\n\n", []),
        (b"data: x\nfoo: 1\n\n" * 3, ["1 others"]),
    ],
)
def test_injected_text(stream: bytes, observed: list[str]) -> None:
    """It is said once, at an event: behind the last one nothing is lost that a resume would not
    find."""
    expected = [("injected", Reason.TEXT_INJECTED, text) for text in observed]
    assert expected == facts_in(stream)
