"""What a probe says of django-eventstream and of two servers from npm."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from fencepost_policies.probe.troubles import Trouble
from fencepost_schemas.reason import Reason
from real.foreign.django_eventstream import DjangoEventstream
from real.foreign.npm import better_sse, sse_channel
from real.probing import probe_of, troubles, verdicts
from real.rig import Server


@dataclass
class Case:
    """`verdicts` are those after a true resume, and after each wrong one."""

    name: str
    server: Callable[[Path], Server]
    provable: bool
    verdicts: list[str]
    reason: Reason
    troubles: tuple[Trouble, ...]
    toml: str = ""

    def __str__(self) -> str:
        return self.name


CASES = (
    # An id of another channel is none to it; of a number that it has not given it says a reset.
    Case(
        "django-eventstream",
        lambda folder: DjangoEventstream(folder, "kept"),
        True,
        ["resumed", "reoriginated", "reoriginated"],
        Reason.OVERLAP_MATCHED,
        (Trouble.BOGUS_TAKEN_FOR_NONE,),
        'reset_events = ["stream-reset"]',
    ),
    Case(
        "django-eventstream without storage",
        lambda folder: DjangoEventstream(folder, "none"),
        False,
        ["unverifiable"],
        Reason.POSITION_MISSING,
        (Trouble.NO_IDS,),
    ),
    Case(
        "sse-channel",
        lambda folder: sse_channel(folder, 100),
        True,
        ["resumed", "reoriginated"],
        Reason.OVERLAP_MATCHED,
        (Trouble.BOGUS_TAKEN_FOR_NONE,),
        'scheme = "integer"',
    ),
    # It takes no notice of any position: what comes is live, and something else.
    Case(
        "better-sse",
        better_sse,
        False,
        ["reoriginated", "reoriginated"],
        Reason.OVERLAP_MISSED,
        (Trouble.NOT_REPLAYED, Trouble.BOGUS_TAKEN_FOR_NONE),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_what_a_probe_says_of_a_server(tmp_path: Path, case: Case) -> None:
    report = await probe_of(case.server(tmp_path))
    assert (case.provable, case.verdicts) == (report.provable, verdicts(report)), report
    assert case.reason.value in report.conclusions[0].reasons
    assert set(case.troubles) == troubles(report)
    assert case.toml in report.toml
