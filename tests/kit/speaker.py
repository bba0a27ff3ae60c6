"""A real HTTP source with a log of its own, that resumes well or badly in ways that are known.

Where a `ScriptedSource` answers by number, this one answers by position, as servers do: what it
makes of the position that a client names is the one thing in which good and bad ones differ.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

from kit.source import End, Reply, Request, ScriptedSource, sse, stream

Event = tuple[str, str]
"""An id ("" for none) and the data."""
Resume = Callable[["Speaker", str | None], Reply | Sequence[Event]]
"""What is answered to a position: another reply, or the events that come before the live ones."""


def numbered(count: int, first: int = 1) -> list[Event]:
    return [(str(id), f'{{"task_id":"t-{id}","n":{id}}}') for id in range(first, first + count)]


# --- what servers make of a position --------------------------------------------------------------
def honest(speaker: "Speaker", asked: str | None) -> Reply | Sequence[Event]:
    """Replay what is behind a known position, and refuse another one with 400."""
    place = speaker.place(asked)
    if asked and place is None:
        return Reply((b"unknown position",), 400, {"content-type": "text/plain"})
    return speaker.log if place is None else speaker.log[place + 1 :]


def unknown_is_none(speaker: "Speaker", asked: str | None) -> Reply | Sequence[Event]:
    """Replay what is behind a known position, and everything to anybody else."""
    place = speaker.place(asked)
    return speaker.log if place is None else speaker.log[place + 1 :]


def ignores(speaker: "Speaker", asked: str | None) -> Reply | Sequence[Event]:
    """Send everything to everybody."""
    return speaker.log


def accepts_and_forgets(speaker: "Speaker", asked: str | None) -> Reply | Sequence[Event]:
    """Accept any position, and replay nothing."""
    return [] if asked else speaker.log


def resets(speaker: "Speaker", asked: str | None) -> Reply | Sequence[Event]:
    """Say by an event of its own that a position is not known."""
    place = speaker.place(asked)
    if asked and place is None:
        return stream(b"event: stream-reset\ndata: {}\n\n", end=End.HANG)
    return speaker.log if place is None else speaker.log[place + 1 :]


@dataclass
class Speaker(ScriptedSource):
    """Sends its log, and then each live event as it is `emitted`. Use as a context manager."""

    log: list[Event]
    resume: Resume = honest
    headers: dict[str, str] = field(default_factory=dict)
    encode: Callable[[int, Event], bytes] | None = None
    """How an event travels; the number of the connection is given."""
    future_is_dead: bool = False
    """A position that is not known gets no live event."""
    live_after_replay: bool = True
    """A resumed connection gets the live events."""

    def __post_init__(self) -> None:
        super().__init__()
        self._more = asyncio.Condition()

    def place(self, asked: str | None) -> int | None:
        """Return the index of the event with this id, None where there is none."""
        return next((at for at, (id, _) in enumerate(self.log) if id and id == asked), None)

    async def emit(self, *events: Event) -> None:
        async with self._more:
            self.log += events
            self._more.notify_all()

    async def _respond(self, number: int, request: Request, writer: asyncio.StreamWriter) -> None:
        sent = len(self.log)
        answered = self.resume(self, request.asked)
        if isinstance(answered, Reply):
            await self._send(answered, writer)
            return
        encode = self.encode or (lambda number, event: sse(event) if event[0] else bare(event))
        chunks = [encode(number, event) for event in answered]
        headers = {"content-type": "text/event-stream", **self.headers}
        head = Reply(chunks or [b": welcome\n\n"], headers=headers, end=End.BREAK)
        await self._send(head, writer)
        unknown = bool(request.asked) and self.place(request.asked) is None
        if (request.asked and not self.live_after_replay) or (unknown and self.future_is_dead):
            await self._cut.wait()
        async for event in self._live(sent):
            piece = encode(number, event)
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await writer.drain()

    async def _live(self, sent: int) -> AsyncIterator[Event]:
        """Yield what is emitted behind the first `sent` events, for ever."""
        for at in itertools.count(sent):
            async with self._more:
                while len(self.log) <= at:
                    await self._more.wait()
            yield self.log[at]


def bare(event: Event) -> bytes:
    """Return an event without an id."""
    return f"event: task\ndata: {event[1]}\n\n".encode()
