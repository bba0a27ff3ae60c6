"""A probe as the command line makes one, with short waits."""

from collections.abc import Mapping
from typing import Any

from fencepost.clock import RealWorld
from fencepost.probe.bounds import Bounds
from fencepost.probe.run import Wanted, probe
from fencepost.settings import Bridge
from fencepost.transport.http import HttpTransport
from fencepost_policies.dialects.mcp import Dialect as Mcp
from fencepost_policies.probe.report import Report

SHORT: Mapping[str, Any] = {"wait_s": 0.3, "answer_s": 0.3, "quiet_s": 0.1, "seconds": 30.0}


def nothing_said(text: str) -> None:
    """Nobody watches a test."""


async def probed(
    url: str, mcp: Mcp | None = None, access: Mapping[str, Any] = {}, **bounds: Any
) -> Report:
    """Probe a url; `bounds` replace the short ones."""
    wanted = Wanted(
        name="orders",
        url=url,
        mcp=mcp,
        access=access,
        bounds=Bounds(**{**SHORT, **bounds}),
    )
    transport = HttpTransport(Bridge(headers_s=10.0, stall_s=10.0))
    try:
        return await probe(wanted, transport, RealWorld(), nothing_said)
    finally:
        await transport.close()
