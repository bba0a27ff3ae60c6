"""A real MCP server with tasks: what ended in a gap is found by asking, and applied once."""

import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from fencepost import Fencepost, Gap
from fencepost.broker.embedded import EmbeddedBroker
from fencepost.reconcilers.mcp_tasks import STATUS, mcp_tasks
from fencepost_schemas.row import State
from kit.gaps import filled, register
from kit.pool import dead
from kit.wait import until
from real.mcp_server import McpServer
from real.rig import Rig, followed

SCRIPT = Path(__file__).parent / "mcp_tasks_source.py"


class Params(msgspec.Struct):
    task_id: str = msgspec.field(name="taskId")
    status: str
    status_message: str | None = msgspec.field(name="statusMessage", default=None)


class Told(msgspec.Struct):
    params: Params


def task_server(folder: Path, *options: str) -> McpServer:
    server = McpServer(folder, [sys.executable, str(SCRIPT), *options])
    server.source = {**server.source, "key": "/params/taskId"}
    return server


def app_of(ended: list[tuple[str, bool]]) -> Fencepost:
    """Return an app that notes which tasks ended, and whether their source itself told it."""
    app = Fencepost("shop")

    @app.on(STATUS, source="orders")
    async def end(told: Told) -> None:
        ended.append((told.params.task_id, told.params.status_message == "told"))

    return app


async def miss(rig: Rig, *missed: str) -> None:
    """Have a task told of, some missed with the session, and one told of after it."""
    await rig.attached()
    await rig.emit("first")
    await rig.published("first")
    await rig.gate.shut()
    await rig.emit(*missed)
    await rig.restart()
    await rig.come_back()
    await rig.attached()
    await rig.emit("last")
    await rig.published("last")


@pytest.mark.parametrize("options", [(), ("--unlisted",)], ids=["listed", "unlisted"])
async def test_tasks_that_ended_in_a_gap_are_found(
    broker: EmbeddedBroker, tmp_path: Path, options: tuple[str, ...]
) -> None:
    """By the server's list, page after page, or by asking for those that are open here.

    One that is not over yet is left to the stream; one that the server does not know holds up
    nobody; and those that the stream told of are not applied twice, though they read otherwise.
    """
    ended: list[tuple[str, bool]] = []
    app = app_of(ended)
    missed = ["missed-1", "missed-2", "open-1"]

    async def known() -> Iterable[str]:
        return [*missed, "unknown"]

    async with followed(task_server(tmp_path, *options), broker) as rig:
        source = rig.home.settings.sources["orders"]
        app.reconcile("orders")(mcp_tasks(source, known=known))
        await register(rig.home, app)
        async with rig.home.worker(app):
            await miss(rig, *missed)
            await until(lambda: len(ended) >= 4, "what ended")
            await filled(rig.home)
        gaps = [one.gap for one in await rig.home.records() if one.gap is not None]
        rows = {row.key: row for row in await rig.home.rows()}
        assert [] == await dead(rig.home)
    assert ["first", "last", "missed-1", "missed-2"] == sorted(id for id, _ in ended)
    assert ("first", True) in ended
    assert ("missed-1", False) in ended
    assert all(isinstance(gap, Gap) for gap in gaps) and gaps
    assert {State.APPLIED} == {row.state for row in rows.values()}


async def test_one_that_fails_on_the_way_asks_again(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """The gap is filled once everybody answers."""
    ended: list[tuple[str, bool]] = []
    app = app_of(ended)
    calls: list[int] = []

    async def known() -> Iterable[str]:
        calls.append(1)
        if len(calls) == 1:
            raise ConnectionError("our own list is away")
        return ()

    async with followed(task_server(tmp_path), broker) as rig:
        app.reconcile("orders")(mcp_tasks(rig.home.settings.sources["orders"], known=known))
        await register(rig.home, app)
        async with rig.home.worker(app):
            await miss(rig, "missed")
            await until(lambda: len(ended) >= 3, "what ended")
            await filled(rig.home)
    assert ["first", "last", "missed"] == sorted(id for id, _ in ended)
    assert len(calls) >= 2
