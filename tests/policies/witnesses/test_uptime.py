"""Proves that a number which only grows contradicts when it goes back, and never proves."""

import pytest

from fencepost_policies.control import Control
from fencepost_policies.witness import Opening
from fencepost_policies.witnesses.uptime import UptimeWitness
from fencepost_schemas.cursor import Cursor, Position
from fencepost_schemas.evidence import Facet, Fact
from fencepost_schemas.reason import Reason
from fencepost_schemas.sse import Frame
from fencepost_schemas.standing import Standing

BACK, GREW, ABSENT = Reason.UPTIME_WENT_BACK, Reason.UPTIME_GREW, Reason.GENERATION_ABSENT


def heard(token: str, *data: str) -> tuple[list[Fact], str]:
    cursor = Cursor(
        "crm", "0001-aaaaaaaa", Standing.GENESIS, "l", "o", position=Position("5"), token=token
    )
    witness = UptimeWitness(cursor, Control(("ping",)), "/uptime")
    facts = list(witness.opened(Opening(200, {}, asked="5")))
    for text in data:
        facts += witness.noticed(Frame(event="ping", data=text))
    facts += witness.arrived(Frame(data="{}"))
    return facts, witness.token


@pytest.mark.parametrize(
    ("token", "data", "expected", "kept"),
    [
        ("90", ['{"uptime":100}'], [GREW], "100"),
        ("90", ['{"uptime":90}'], [GREW], "90"),
        ("90", ['{"uptime":3}'], [BACK], "3"),
        ("90", ['{"uptime":100}', '{"uptime":130}', '{"uptime":2}'], [GREW, BACK], "2"),
        ("90", ['{"uptime":100}', '{"uptime":2}', '{"uptime":5}'], [GREW, BACK], "5"),
        ("", ['{"uptime":100}'], [GREW], "100"),
        ("90", ['{"uptime":1.5}', '{"uptime":"x"}', "{}", "x"], [ABSENT], ""),
        ("x", ['{"uptime":"7"}'], [GREW], "7"),
        ("90", [], [ABSENT], ""),
    ],
)
def test_an_uptime(token: str, data: list[str], expected: list[Reason], kept: str) -> None:
    """Whoever was started anew long ago has passed the number that we knew."""
    facts, observed = heard(token, *data)
    assert expected == [fact.reason for fact in facts]
    assert kept == observed
    assert {(Facet.IDENTITY, fact.reason is BACK) for fact in facts} == {
        (fact.facet, fact.finding == "contradicts") for fact in facts
    }
