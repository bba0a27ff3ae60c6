"""A bridge whose loop stood still does not take that for the silence of its source."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from random import Random
from typing import Any, cast

import pytest

from fencepost.bridge.attempt import Attempt
from fencepost.testing.simulator.loop import VirtualLoop, run_virtual
from fencepost_policies.dialects.described import Dialect
from fencepost_schemas.sse import Decoder

QUIET_S = 1.0


class Response:
    """A response whose next bytes lie in the socket when the loop comes back."""

    def __init__(self) -> None:
        self.came = asyncio.Event()

    async def chunks(self) -> AsyncIterator[bytes]:
        await self.came.wait()
        for _ in range(5):  # passes of the loop
            await asyncio.sleep(0)
        yield b"id: 1\ndata: {}\n\n"
        await asyncio.Event().wait()


class NoPace:
    def look(self, *_: Any, **__: Any) -> None: ...


def attempt_on(response: Response) -> Attempt:
    unused = cast(Any, None)
    return Attempt(
        cast(Any, response),
        AsyncExitStack(),
        Decoder(),
        Dialect(),
        unused,
        None,
        "",
        None,
        cast(Any, NoPace()),
        lambda point: None,
        lambda hearing: None,
        lambda: asyncio.get_running_loop().time(),
    )


@pytest.mark.parametrize("stands_s", [QUIET_S, 60.0])
@pytest.mark.parametrize("seed", range(5))
def test_what_lies_in_the_socket_is_heard(stands_s: float, seed: int) -> None:
    """An audit that ended here would prove a join that it did not hear out."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        response = Response()
        attempt = attempt_on(response)
        hearing = asyncio.create_task(attempt.next_within(QUIET_S))
        await asyncio.sleep(QUIET_S / 2)
        response.came.set()
        loop.now_s += stands_s
        assert await hearing is not None
        assert await attempt.next_within(QUIET_S) is None, "silence is still silence"
        await attempt.close()

    run_virtual(main(), Random(seed))
