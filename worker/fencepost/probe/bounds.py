"""What a probe may cost somebody else's server, and the transport that holds it to that."""

import asyncio
from contextlib import AbstractAsyncContextManager

import msgspec

from fencepost.ports import Request, SourceResponse, Transport, Way
from fencepost.settings import Source
from fencepost_schemas.limits import EVENT_BYTES_MAX, MIB

EVENTS_WANTED = 4
"""Events to have before the break: enough for two different places to resume from."""
FRAMES_MAX = 500
ANSWER_BYTES_MAX = 16 * MIB
"""Frames kept of one answer, and bytes read for it; what comes behind them is not read."""
SAID_BYTES_MAX = 4096
"""What is read of a body that is no event stream."""

assert EVENT_BYTES_MAX <= ANSWER_BYTES_MAX, "an answer holds at least one event"


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """At most so many requests and seconds.

    `wait_s` is how long events are waited for, `answer_s` how long the answer to a position: as
    long as a bridge waits for owed events. One that has brought something is over once it has been
    quiet for `quiet_s`.
    """

    requests: int = 12
    seconds: float = 60.0
    wait_s: float = 10.0
    answer_s: float = 3.0
    quiet_s: float = 0.5


class Spent(Exception):
    """The bound on requests or on time is reached."""


class BoundedTransport:
    """Counts every request, those of a session's making too, and sends none past the bound."""

    def __init__(self, transport: Transport, bounds: Bounds) -> None:
        self.requests = 0
        self.sent_s = 0.0
        """When the last request was sent; making a session takes several before its stream."""
        self._transport = transport
        self._bounds = bounds
        self._began_s = asyncio.get_running_loop().time()

    def of(self, name: str, source: Source) -> Way:
        return BoundedWay(self, self._transport.of(name, source))

    async def close(self) -> None:
        await self._transport.close()

    def spend(self) -> None:
        """Count one more request; raise Spent where there is none left."""
        if self.spent:
            raise Spent
        self.requests += 1
        self.sent_s = self.took_s

    @property
    def took_s(self) -> float:
        return asyncio.get_running_loop().time() - self._began_s

    @property
    def answer_s(self) -> float:
        """How long an answer may take now."""
        return min(self._bounds.answer_s, self.left_s)

    @property
    def left_s(self) -> float:
        return max(0.0, self._bounds.seconds - self.took_s)

    @property
    def spent(self) -> bool:
        return self.requests >= self._bounds.requests or self.left_s <= 0


class BoundedWay:
    """The way to the server, one request of the bound at a time."""

    def __init__(self, bounded: BoundedTransport, way: Way) -> None:
        self._bounded = bounded
        self._way = way

    def open(self, request: Request) -> AbstractAsyncContextManager[SourceResponse]:
        self._bounded.spend()
        return self._way.open(request)
