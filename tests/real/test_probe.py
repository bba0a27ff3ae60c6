"""What a probe says of the official MCP Python SDK, whose truth the scenarios establish."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from fencepost_policies.dialects.mcp import Dialect as Mcp
from fencepost_policies.probe.troubles import Trouble
from fencepost_schemas.reason import Reason
from real.mcp_server import COUNTED, FOLLOW, WORK, second_sdk
from real.probing import probe_of, troubles, verdicts
from real.rig import tell

FOLLOWED = Mcp(requests=(FOLLOW,))
LISTENED = Mcp(protocol="2026-07-28", notifications={"resourceSubscriptions": ["event"]})


@dataclass
class Case:
    """`verdicts` are those after a true resume, an unknown position, and an unknown session."""

    name: str
    line: tuple[str, ...]
    mcp: Mcp
    provable: bool
    verdicts: list[str]
    reason: Reason
    troubles: tuple[Trouble, ...] = ()

    def __str__(self) -> str:
        return self.name


RESUMES = ["resumed", "reoriginated", "reoriginated"]
CASES = (
    Case("with a log", (), FOLLOWED, True, RESUMES, Reason.AUDIT_DONE),
    # Smaller numbers may all have been given; the one of the future is answered with nothing.
    Case("with a log of counted ids", COUNTED, FOLLOWED, True, RESUMES, Reason.AUDIT_DONE),
    Case(
        "the stream of a call",
        (),
        Mcp(call=WORK),
        True,
        RESUMES,
        Reason.AUDIT_DONE,
    ),
    Case(
        "without a log",
        ("--ids", "none"),
        FOLLOWED,
        False,
        ["unverifiable"],
        Reason.SESSION_ACCEPTED,
        (Trouble.NO_IDS,),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_what_a_probe_says_of_the_sdk(tmp_path: Path, case: Case) -> None:
    report = await probe_of(second_sdk(tmp_path, *case.line), case.mcp)
    assert (case.provable, case.verdicts) == (report.provable, verdicts(report)), report
    assert case.reason.value in report.conclusions[0].reasons
    assert set(case.troubles) == troubles(report)
    assert report.requests <= 12


async def test_an_endpoint_is_known_by_its_answer(tmp_path: Path) -> None:
    """Nobody said that it is one; and it tells of nothing that nobody has asked it for."""
    report = await probe_of(second_sdk(tmp_path), wait_s=0.5)
    assert ("mcp", False) == (report.dialect, report.provable)
    assert {Trouble.QUIET} == troubles(report)


async def test_the_revision_without_resumption(tmp_path: Path) -> None:
    """It cannot be proven, and that is not for want of anything seen."""
    server = second_sdk(tmp_path)

    async def touch(key: str) -> None:
        await tell(server.process, "touch", "event")

    report = await probe_of(server, LISTENED, touch)
    assert (False, ["reoriginated"]) == (report.provable, verdicts(report))
    assert [Reason.NO_RESUMPTION.value] == list(report.conclusions[0].reasons)
