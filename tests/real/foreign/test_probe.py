"""What a probe says of servers from outside, whose truth their scenarios establish."""

from pathlib import Path

import pytest

from fencepost_policies.dialects.mcp import Dialect as Mcp
from fencepost_policies.probe.ids import Kind
from fencepost_policies.probe.troubles import Trouble
from fencepost_schemas.reason import Reason
from real.foreign.nchan import Nchan
from real.foreign.sdks import first_sdk, typescript_sdk
from real.mcp_server import COUNTED, FOLLOW
from real.probing import probe_of, troubles, verdicts

FOLLOWED = Mcp(requests=(FOLLOW,))
RESUMES = ["resumed", "reoriginated", "reoriginated"]


@pytest.mark.parametrize("first", ["oldest", "newest"])
async def test_nchan(tmp_path: Path, first: str) -> None:
    """It gives back what it has, takes an old position for none, and one of the future for real:
    nothing ever comes there."""
    report = await probe_of(Nchan(tmp_path, first=first))
    assert (True, ["resumed", "reoriginated", "unverifiable"]) == (
        report.provable,
        verdicts(report),
    ), report
    assert Reason.OVERLAP_MATCHED.value in report.conclusions[0].reasons
    assert {Trouble.BOGUS_TAKEN_FOR_NONE, Trouble.BLACK_HOLE} == troubles(report)
    assert Kind.TIME_TAG is report.signals.shape.kind


async def test_the_typescript_sdk(tmp_path: Path) -> None:
    """It has one stream a session, so there is no audit of a join: the next resume looks at it."""
    report = await probe_of(typescript_sdk(tmp_path), FOLLOWED)
    assert (True, RESUMES) == (report.provable, verdicts(report)), report
    assert {Trouble.ONE_STREAM} == troubles(report)
    assert 'join = "unknown"' in report.toml


async def test_the_typescript_sdk_without_a_log(tmp_path: Path) -> None:
    report = await probe_of(typescript_sdk(tmp_path, "--ids", "none"), FOLLOWED)
    assert (False, "unverifiable") == (report.provable, verdicts(report)[0]), report
    assert Trouble.NO_IDS in report.troubles


@pytest.mark.parametrize("line", [(), COUNTED], ids=["random ids", "counted ids"])
async def test_the_python_sdk_of_before(tmp_path: Path, line: tuple[str, ...]) -> None:
    report = await probe_of(first_sdk(tmp_path, *line), FOLLOWED)
    assert (True, RESUMES) == (report.provable, verdicts(report)), report
    assert Reason.AUDIT_DONE.value in report.conclusions[0].reasons
    assert set() == troubles(report)
