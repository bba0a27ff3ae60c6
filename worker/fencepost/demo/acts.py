"""The acts: what the servers do, in order. Both clients are on stage all the time."""

from collections.abc import Awaitable, Callable

import msgspec

from fencepost.demo.casts import HONEST, MCP, SILENT, Cast
from fencepost.demo.stage import ReplicaPlan, Stage

Say = Callable[[str], None]


class Act(msgspec.Struct, frozen=True):
    name: str
    cast: Cast
    replicas: tuple[ReplicaPlan, ...]
    play: Callable[[Stage, Say], Awaitable[None]]


def _tasks(first: int, last: int) -> list[str]:
    return [f"task-{number:03d}" for number in range(first, last + 1)]


async def _wrong_replica(stage: Stage, say: Say) -> None:
    """The incident: a resume at 4118 reaches a replica whose counter is at 12."""
    say("both clients follow replica a, ids 4101 to 4118")
    await stage.until_attached("a")
    await stage.emit("a", _tasks(1, 18))
    await stage.until_done()
    say("the connection breaks; replica a goes on to 4140 with nobody there")
    await stage.cut("a")
    await stage.emit("a", _tasks(19, 40))
    await stage.until_attached("b")
    say("the balancer sends the resume at 4118 to replica b, which answers 200 and goes on at 13")
    announced_again = _tasks(8, 18) + _tasks(28, 40)
    await stage.emit("b", announced_again + _tasks(41, 50))
    await stage.until_done()


async def _honest_server(stage: Stage, say: Say) -> None:
    """A server that names its generation and what it still holds, broken off again and again."""
    await stage.until_attached("h")
    await stage.emit("h", _tasks(1, 10))
    for break_number in range(1, 6):
        first = break_number * 10 + 1
        say(f"break {break_number} of 5, with tasks flowing before, during and after it")
        await stage.emit("h", _tasks(first, first + 2))
        await stage.cut("h")
        await stage.emit("h", _tasks(first + 3, first + 6))
        await stage.until_attached("h", break_number + 1)
        await stage.emit("h", _tasks(first + 7, first + 9))
    await stage.until_done()


async def _window_exceeded(stage: Stage, say: Say) -> None:
    """A server that holds 200 events and says nothing; more are missed, and its ids align."""
    say("both clients follow a server that holds its last 200 events, and says so to nobody")
    await stage.until_attached("w")
    await stage.emit("w", _tasks(1, 20))
    await stage.until_done()
    say("the connection breaks while 300 tasks come; what the client has is long evicted")
    await stage.cut("w")
    await stage.emit("w", _tasks(21, 320))
    await stage.until_attached("w", 2)
    say("the server starts afresh behind the id it is given: 200, and ids without a hole")
    await stage.emit("w", _tasks(321, 350))
    await stage.until_done()


async def _mcp(stage: Stage, say: Say) -> None:
    """A server on the official SDK, with an event store: killed, restarted, and broken off."""
    say("both clients follow an MCP server on the official SDK, with an event store")
    await stage.until_attached("m1")
    await stage.emit("m1", _tasks(1, 20))
    await stage.until_done()
    say("the server is killed and started again: its sessions and its store are gone")
    await stage.kill("m1")
    await stage.start("m2", port=stage.ports["m1"])
    await stage.until_attached("m2")
    say("it announces eleven tasks again, and goes on with new ones")
    await stage.emit("m2", _tasks(10, 20) + _tasks(31, 40))
    await stage.until_done()
    say("the network breaks, and tasks come before the clients are back")
    stage.break_connections()
    await stage.emit("m2", _tasks(41, 50))
    await stage.until_attached("m2", 2)
    await stage.emit("m2", _tasks(51, 60))
    await stage.until_done()


ACTS = (
    Act(
        "wrong replica",
        SILENT,
        (ReplicaPlan("a", ("--first-id", "4101")), ReplicaPlan("b", ("--first-id", "13"))),
        _wrong_replica,
    ),
    Act(
        "window exceeded",
        SILENT,
        (ReplicaPlan("w", ("--first-id", "1", "--window", "200")),),
        _window_exceeded,
    ),
    Act(
        "mcp",
        MCP,
        (ReplicaPlan("m1"), ReplicaPlan("m2", ("--early", *_tasks(21, 30)), late=True)),
        _mcp,
    ),
    Act(
        "honest server",
        HONEST,
        (ReplicaPlan("h", ("--first-id", "1", "--declare")),),
        _honest_server,
    ),
)
