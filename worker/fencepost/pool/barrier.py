"""The effect barrier of one attempt: the line in a handler behind which its effect may happen."""

import asyncio
from collections.abc import Awaitable, Callable
from enum import StrEnum

from fencepost.errors import UsageError


class Side(StrEnum):
    BEFORE = "before"
    INSIDE = "inside"
    BEHIND = "behind"


class Superseded(BaseException):
    """This attempt is over: another worker has the event, or its lease ended at the barrier.

    No `except Exception` of a handler may catch it, or the effect would happen all the same.
    """


class Barrier:
    """Made for one attempt, on the loop that it belongs to; `enter` lets it through or raises."""

    def __init__(self, enter: Callable[[], Awaitable[None]]) -> None:
        self.side = Side.BEFORE
        self._enter = enter
        self._loop = asyncio.get_running_loop()

    async def __aenter__(self) -> None:
        self._check_first()
        await self._enter()
        self.side = Side.INSIDE

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.side = Side.BEHIND

    def __enter__(self) -> None:
        """Enter from a handler that runs in a thread."""
        self._check_first()
        if _on_loop(self._loop):
            raise UsageError("in an `async def` handler it is `async with ctx.effect():`")
        entering = asyncio.run_coroutine_threadsafe(self._await_entry(), self._loop)
        error = entering.result()
        if error is not None:
            raise error
        self.side = Side.INSIDE

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.side = Side.BEHIND

    async def _await_entry(self) -> BaseException | None:
        """Return what entering raised: a loop must not see this exception go by."""
        try:
            await self._enter()
        except Superseded as over:
            return over
        return None

    def _check_first(self) -> None:
        if self.side is not Side.BEFORE:
            # Two effects of one attempt cannot be told apart afterwards.
            self.side = Side.INSIDE
            raise UsageError("enter ctx.effect() once: an attempt has one effect")


def _on_loop(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
