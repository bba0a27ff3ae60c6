"""A probe of a real server that is told to emit, all the while."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

from fencepost_policies.dialects.mcp import Dialect as Mcp
from fencepost_policies.probe.report import Report
from fencepost_policies.probe.troubles import Trouble
from kit.probing import probed
from kit.tasks import beside
from real.rig import Server, running

Emit = Callable[[str], Awaitable[None]]
EVERY_S = 0.1
PATIENT = {"wait_s": 15.0, "answer_s": 1.0, "quiet_s": 0.4, "seconds": 50.0}
"""A server may still be starting when it is asked; then its first answer takes a while."""


async def probe_of(
    server: Server, mcp: Mcp | None = None, emit: Emit | None = None, **bounds: Any
) -> Report:
    """Probe a server that emits an event now and then, or is told what `emit` tells it."""
    async with running(server) as process, beside(keep_telling(emit or server.emit)):
        url = f"http://127.0.0.1:{process.port}{server.path}"
        return await probed(url, mcp, **{**PATIENT, **bounds})


async def keep_telling(emit: Emit) -> None:
    for number in itertools.count(1):
        await emit(f"event-{number}")
        await asyncio.sleep(EVERY_S)


def verdicts(report: Report) -> list[str]:
    """Return what is concluded after a true resume, and after each wrong one."""
    return [conclusion.verdict for conclusion in report.conclusions]


def troubles(report: Report) -> set[Trouble]:
    """Return what is wrong, but for headers that are late while a server is still starting."""
    return set(report.troubles) - {Trouble.LATE_HEADERS}
