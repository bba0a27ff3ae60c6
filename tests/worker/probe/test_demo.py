"""The servers of the demo, as processes of their own: honest, forgetful, and the wrong replica."""

import asyncio
import itertools
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

from fencepost.demo.balancer import Balancer
from fencepost_policies.probe.troubles import Trouble
from kit.probing import probed
from kit.tasks import beside
from real.process import listening_socket, start

PATIENT: dict[str, Any] = {"wait_s": 20.0, "answer_s": 0.5, "quiet_s": 0.2}
"""A process takes a while until it answers."""


@asynccontextmanager
async def replica(folder: Path, name: str, first_id: int, *options: str) -> AsyncIterator[int]:
    """Yield the port of a replica that emits a task now and then."""
    listening = listening_socket()
    line = [sys.executable, "-m", "fencepost.demo.source", "--name", name]
    line += ["--first-id", str(first_id), "--fd", str(listening.fileno())]
    line += ["--log", str(folder / f"{name}.log"), *options]
    process = await start(line, listening, folder / f"{name}.out")

    async def emit() -> None:
        async with httpx2.AsyncClient(trust_env=False, timeout=20.0) as client:
            for number in itertools.count(1):
                tasks = {"tasks": [f"{name}-{number}"]}
                await client.post(f"http://127.0.0.1:{process.port}/emit", json=tasks)
                await asyncio.sleep(0.05)

    try:
        async with beside(emit()):
            yield process.port
    finally:
        await process.kill()


async def test_the_honest_server(tmp_path: Path) -> None:
    """It declares its generation and its window, and gives back what it gave."""
    async with replica(tmp_path, "h", 1, "--declare") as port:
        report = await probed(f"http://127.0.0.1:{port}/events/probe", **PATIENT)
    assert report.provable, report
    assert 'generation_header = "stream-generation"' in report.toml
    assert 'window_header = "stream-floor"' in report.toml
    assert "/idempotency_key" == report.signals.key


async def test_the_server_whose_ids_align_past_its_window(tmp_path: Path) -> None:
    """Within its window it can be proven; to a position that it never gave it counts on from there,
    and the overlap is what tells."""
    async with replica(tmp_path, "w", 1, "--window", "200") as port:
        report = await probed(f"http://127.0.0.1:{port}/events/probe", **PATIENT)
    assert ("resumed", "reoriginated") == tuple(one.verdict for one in report.conclusions)
    assert (Trouble.BOGUS_TAKEN_FOR_NONE,) == report.troubles


async def test_the_wrong_replica(tmp_path: Path) -> None:
    """The incident: the next connection reaches another replica. One resume proves it, for it came
    to the right one, and that is not enough."""
    async with AsyncExitStack() as stack:
        ports = [
            await stack.enter_async_context(replica(tmp_path, name, first_id))
            for name, first_id in (("a", 4101), ("b", 1))
        ]
        balancer = await stack.enter_async_context(Balancer(ports))
        report = await probed(f"http://127.0.0.1:{balancer.port}/events/probe", **PATIENT)
    assert not report.provable, report
    assert Trouble.RESUMES_DIFFER in report.troubles
