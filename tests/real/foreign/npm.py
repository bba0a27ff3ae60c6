"""The servers from npm: sse-channel, better-sse and the reference server of Durable Streams."""

import shutil
from pathlib import Path
from typing import Any

import msgspec

from fencepost_schemas.reason import Reason
from fencepost_schemas.standing import Standing
from real.scenarios import (
    LITTLE,
    LONG,
    NOTHING,
    PAST,
    RESTART_FEWER,
    RESTART_MORE,
    UNKNOWN,
    WITHIN,
    Case,
    Row,
)
from real.told import ToldServer

FOLDER = Path(__file__).parent / "node"


def node(script: str, *options: str) -> list[str]:
    """Return the command that runs a script of ours; fail where it lacks what it needs."""
    found = shutil.which("node")
    assert found, "there is no node here: apt-get install nodejs npm"
    installed = FOLDER / "node_modules"
    assert installed.exists(), f"there is no {installed}: run make test-real"
    return [found, str(FOLDER / script), *options]


def version_of(package: str) -> str:
    """Return the version of a package that is installed from the lock."""
    wanted = msgspec.json.decode((FOLDER / "package.json").read_bytes())
    return str(wanted["dependencies"][package])


# --- sse-channel: integer ids that its host counts, and a history in memory
def sse_channel(folder: Path, window: int, **plain: Any) -> ToldServer:
    source = {"key": "/k", "plain": {"scheme": "integer", "join": "atomic", **plain}}
    return ToldServer(folder, node("sse-channel.mjs", "--window", str(window)), "/", source)


SSE_CHANNEL_CASES = (
    Case(NOTHING, (Reason.OVERLAP_MATCHED,)),
    Case(WITHIN, (Reason.OVERLAP_MATCHED,)),
    Case(PAST, (Reason.OVERLAP_MISSED,)),
    Case(RESTART_FEWER, (Reason.OVERLAP_OTHER_BYTES,)),
    Case(RESTART_MORE, (Reason.OVERLAP_OTHER_BYTES,)),
    Case(UNKNOWN, (Reason.OVERLAP_OTHER_BYTES,)),
    Case(LITTLE, (Reason.OVERLAP_MATCHED,)),
    Case(LONG, (Reason.OVERLAP_MATCHED,)),
)


# --- better-sse: random ids, and nothing is ever replayed
def better_sse(folder: Path) -> ToldServer:
    return ToldServer(folder, node("better-sse.mjs"), "/", {"key": "/k"})


BETTER_SSE_CASES = tuple(
    Case(scenario, (Reason.OVERLAP_SILENT,), verdict=Standing.UNVERIFIABLE)
    for scenario in (NOTHING, WITHIN, PAST, RESTART_FEWER, RESTART_MORE, UNKNOWN)
)

SSE_LIBRARIES = (
    Row(
        f"sse-channel {version_of('sse-channel')}",
        "plain",
        lambda folder, case: sse_channel(folder, case.scenario.window),
        SSE_CHANNEL_CASES,
    ),
    Row(
        f"better-sse {version_of('better-sse')}",
        "plain",
        lambda folder, _: better_sse(folder),
        BETTER_SSE_CASES,
        {"overlap_s": 0.3},
    ),
)
