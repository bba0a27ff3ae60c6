"""What an app holds open around its handlers, closed within a bound."""

import asyncio
import logging
from contextlib import AbstractAsyncContextManager
from types import TracebackType

log = logging.getLogger("fencepost.pool")

LIFESPAN_S = 2.0
"""For the app to close what it holds open, and what was left of the drain on top."""


class Lifespan:
    """The app's lifespan, entered and left by the worker's own task. Use as a context manager."""

    def __init__(self, inner: AbstractAsyncContextManager[None], drain_s: float) -> None:
        self._inner = inner
        self._drain_s = drain_s
        self._ends_s: float | None = None

    def ends(self) -> None:
        """Begin to count the time that the worker has for its end."""
        if self._ends_s is None:
            self._ends_s = asyncio.get_running_loop().time()

    async def __aenter__(self) -> "Lifespan":
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        limit_s = self._limit_s()
        limit = asyncio.timeout(limit_s)
        try:
            async with limit:
                return await self._inner.__aexit__(kind, error, trace)
        except TimeoutError:
            if not limit.expired():
                raise
            log.warning("the app's lifespan did not end within %.1f s: it is left behind", limit_s)
            return False

    def _limit_s(self) -> float:
        self.ends()
        assert self._ends_s is not None
        used_s = asyncio.get_running_loop().time() - self._ends_s
        return LIFESPAN_S + max(self._drain_s - used_s, 0.0)
