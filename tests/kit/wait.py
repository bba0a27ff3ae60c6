"""Wait until something is so, by looking again and again; for what gives no signal of its own."""

import asyncio
from collections.abc import Awaitable, Callable

LIMIT_S = 30.0
LOOK_S = 0.02


async def until(
    so: Callable[[], bool | Awaitable[bool]], what: str, limit_s: float = LIMIT_S
) -> None:
    """Return once `so()` is true; fail with `what` was waited for."""
    limit = asyncio.timeout(limit_s)
    try:
        async with limit:
            while True:
                found = so()
                if found if isinstance(found, bool) else await found:
                    return
                await asyncio.sleep(LOOK_S)
    except TimeoutError:
        if not limit.expired():
            raise
    raise AssertionError(f"waited {limit_s:g} s for {what}")
