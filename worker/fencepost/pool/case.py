"""One piece of work on its way through its row, and how it came out."""

import asyncio
from typing import Protocol

import msgspec

from fencepost.pool.work import Work
from fencepost_policies.plan import Given, Plan, Settlement
from fencepost_schemas.row import Row

NOTHING_YET = Plan()


class Done(msgspec.Struct, frozen=True, gc=False):
    """How one piece of work settles, and the row that says so (None where there is none).

    `held` says that its event was put under the question of its seam, `written` that the row was
    written on the way here.
    """

    settlement: Settlement
    delay_ms: int = 0
    row: Row | None = None
    held: bool = False
    written: bool = False


class Ending(Protocol):
    """Who hears, once, how a piece of work came out."""

    def ended(self, done: Done) -> None: ...

    def failed(self, error: BaseException) -> None:
        """It could not be carried to its end; its event comes again."""


class Case:
    """A piece of work, what is known of its row, and what comes next.

    `given` is what `step` hears next, `plan` what it said last. `row` and `revision` are what
    stands, as far as this worker knows: an event's row is taken for absent, and found by the insert
    that fails. `decided_ms` is when its plan was made, by this machine's own clock; `fresh` says
    that the broker's clock was read for what is decided next. `trace` is where its last attempt
    failed, `task` what works on it just now.
    """

    __slots__ = (
        "decided_ms",
        "ending",
        "fresh",
        "given",
        "plan",
        "revision",
        "row",
        "task",
        "trace",
        "work",
    )

    def __init__(self, work: Work, given: Given, ending: Ending) -> None:
        self.work = work
        self.given = given
        self.ending = ending
        self.row: Row | None = None
        self.revision = 0
        self.plan = NOTHING_YET
        self.decided_ms = 0
        self.fresh = False
        self.trace = ""
        self.task: asyncio.Task[None] | None = None


class Awaited:
    """The ending of what somebody awaits."""

    def __init__(self) -> None:
        self._out: asyncio.Future[Done] = asyncio.get_running_loop().create_future()

    async def out(self) -> Done:
        """Return how it came out; raise where it failed."""
        return await self._out

    def ended(self, done: Done) -> None:
        if not self._out.done():  # whoever awaited it was cancelled
            self._out.set_result(done)

    def failed(self, error: BaseException) -> None:
        if not self._out.done():
            self._out.set_exception(error)
