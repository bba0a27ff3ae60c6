"""The acts: what the servers do, in order. Both clients are on stage all the time."""

from collections.abc import Awaitable, Callable

import msgspec

from fencepost.demo.stage import ReplicaPlan, Stage

Say = Callable[[str], None]


class Act(msgspec.Struct, frozen=True):
    name: str
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


ACTS = (
    Act(
        "wrong replica",
        (ReplicaPlan("a", first_id=4101), ReplicaPlan("b", first_id=13)),
        _wrong_replica,
    ),
    Act("honest server", (ReplicaPlan("h", first_id=1, declare=True),), _honest_server),
)
