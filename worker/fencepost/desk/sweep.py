"""Read a stream quickly, through its leader: several stretches side by side, in the stream's order.

One read after the other waits a round trip for each message. What is rewritten meanwhile moves to
the end of the stream; the end is read last, and again what is behind it by then, so that nothing is
missed. It may then be read twice, and the later reading counts.

A busy pool may write faster than anybody reads. So there is a last round: what was there when the
sweep began could be missed only by being rewritten in each of them, just ahead of its reader.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

import msgspec

from fencepost.errors import NotFine
from fencepost.ports import Broker, StoredMessage

LANES = 16
STRETCH_FIRST = 4
STRETCH_MOST = 1_024
"""Sequences that one lane reads in one go: few at first, for whoever wants the first rows only."""
ROUNDS_MAX = 8
"""Each reads what was written while the one before it did."""
_NOT_FOUND = 10059

Told = Callable[[int, int], None]
"""Told how many sequences of how many have been read."""


class Keeper(Broker, Protocol):
    """A broker whose streams can be asked about, too."""

    async def api(self, name: str, request: Any = None) -> dict[str, Any]:
        """Call the JetStream API and return the decoded reply, its "error" included."""


class Extent(msgspec.Struct, frozen=True):
    """The first and last sequence of a stream, and how many messages it holds."""

    first: int
    last: int
    messages: int


def nobody(done: int, of: int) -> None:
    """Nobody wants to be told."""


async def extent(connection: Keeper, stream: str) -> Extent:
    state = (await asked(connection, f"STREAM.INFO.{stream}", stream))["state"]
    return Extent(state["first_seq"], state["last_seq"], state["messages"])


async def asked(connection: Keeper, name: str, stream: str, request: Any = None) -> dict[str, Any]:
    """Return the broker's reply about a stream; raise NotFine where it is an error."""
    reply = await connection.api(name, request)
    error = reply.get("error")
    if error is None:
        return reply
    if error.get("err_code") == _NOT_FOUND:
        raise NotFine(f"the broker has no stream {stream}: run `fencepost init`")
    raise NotFine(f"stream {stream}: {error.get('description')} ({error.get('err_code')})")


async def sweep(
    connection: Keeper, stream: str, subject: str, after: int = 0, told: Told = nobody
) -> AsyncIterator[StoredMessage]:
    """Yield each message that a filter takes behind a sequence, oldest first."""
    start, width, begun = after + 1, STRETCH_FIRST, 0
    for _ in range(ROUNDS_MAX):
        bounds = await extent(connection, stream)
        start = max(start, bounds.first)
        begun = begun or start
        while start <= bounds.last:
            begins = range(start, min(start + LANES * width, bounds.last + 1), width)
            start = begins[-1] + width
            stretches = (
                _stretch(connection, stream, subject, begin, min(begin + width - 1, bounds.last))
                for begin in begins
            )
            for stretch in await asyncio.gather(*stretches):
                for stored in stretch:
                    yield stored
            told(min(start, bounds.last + 1) - begun, bounds.last + 1 - begun)
            width = min(2 * width, STRETCH_MOST)
        start = bounds.last + 1


async def _stretch(
    connection: Keeper, stream: str, subject: str, begin: int, end: int
) -> list[StoredMessage]:
    found = []
    async for stored in connection.scan(stream, subject, sequence=begin):
        if stored.sequence <= end:
            found.append(stored)
        if stored.sequence >= end:
            break
    return found
