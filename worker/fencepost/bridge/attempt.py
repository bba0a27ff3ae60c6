"""One open connection to a source: it is read in the background, heard, and held until judged.

Reading goes on while a second connection is opened beside it, so that nothing is lost between a
probe that failed and whatever is judged in the end. What is read and not taken is bounded; past the
bound the source waits.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from enum import StrEnum
from math import inf

import msgspec

from fencepost.awake import Awake
from fencepost.bridge.pace import Pace
from fencepost.ports import SourceResponse
from fencepost_policies.dialects.dialect import Speech
from fencepost_policies.overlap import Ask
from fencepost_policies.witness import Hearing, contradiction
from fencepost_schemas.evidence import Fact
from fencepost_schemas.limits import (
    HELD_BYTES_MAX,
    HELD_FRAMES_MAX,
    READ_AHEAD_BYTES_MAX,
    READ_AHEAD_FRAMES_MAX,
)
from fencepost_schemas.sse import Decoder, Frame, SseLimitExceeded

RETRY_MS_MAX = 24 * 3600 * 1000

WAITED_S = 0.1
"""Whoever waited for so long had nothing left that came before."""


class Heard(StrEnum):
    """Why the hearing of an attempt came to its end."""

    READY = "ready"
    """It can be judged, or waiting longer would not help."""
    MISSED = "missed"
    """Another event came where an owed one was due; a later mark may still be asked for."""
    SILENT = "silent"
    """Owed events did not come in time."""
    ENDED = "ended"
    """The connection is over."""


class Arrival(msgspec.Struct, frozen=True):
    """A frame, and when it came (time of the loop)."""

    frame: Frame
    at_s: float


class Attempt:
    """`held` are the new events that came before the verdict; repeats of what we had are not."""

    def __init__(
        self,
        response: SourceResponse,
        line: AsyncExitStack,
        decoder: Decoder,
        dialect: Speech,
        hearing: Hearing,
        ask: Ask | None,
        asked: str,
        answer: Callable[[Frame], Awaitable[None]] | None,
        pace: Pace,
        reached: Callable[[str], None],
        said: Callable[[Hearing], None],
        now_s: Callable[[], float],
    ) -> None:
        self.hearing = hearing
        self.ask = ask
        self.asked = asked
        self.held: list[Arrival] = []
        self.skip_ids: frozenset[str] = frozenset()
        """Ids of events that another connection has brought already."""
        self.finished = False
        """True once the source has said that nothing will ever follow."""
        self.heard_s: float | None = None
        """A time (of `now_s`, which goes on while the machine is suspended) at which the connection
        surely went on, as late as can be said."""
        self.decoder = decoder
        self._line = line
        self._dialect = dialect
        self._reading = dialect.reading(ask)
        self._answer = answer
        self._pace = pace
        self._reached = reached
        self._said = said
        self._now_s = now_s
        self._held_bytes = 0
        self._replayed = False
        self._frames: deque[Arrival] = deque()
        self._frames_bytes = 0
        self._changed = asyncio.Condition()
        self._awake = Awake()
        self._ended = False
        self._failure: Exception | None = None
        self._reader = asyncio.create_task(self._read(response))

    async def close(self) -> None:
        """Stop reading and let the response go; `line` is what it is held open on."""
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)
        await self._line.aclose()

    # --- before the verdict
    async def hear_out(self, *, owed_s: float, held_s: float) -> Heard:
        """Hear the witnesses frame by frame until there is no more to wait for.

        `owed_s` is how long the next owed event may take to come, `held_s` how long a first event,
        or a contradiction, waits for better evidence.
        """
        loop = asyncio.get_running_loop()
        owed_since_s = loop.time()
        first_s: float | None = None
        self._said(self.hearing)
        while True:
            if self.hearing.ready() or self._full():
                return Heard.READY
            if self.hearing.overlap.missed:
                return Heard.MISSED
            owing = self.hearing.overlap.owing
            if first_s is None and (self.held or contradiction(self.hearing.facts)):
                first_s = loop.time()
            deadline_s = owed_since_s + owed_s if owing else _behind(first_s, held_s)
            came = await self._next(deadline_s)
            if came is None:
                if self._ended:
                    return Heard.ENDED
                return Heard.SILENT if owing else Heard.READY
            self._hear(came)
            if self.hearing.overlap.repeat:
                owed_since_s = loop.time()
            self._reached("held")

    async def hear_replay(self, quiet_s: float) -> bool:
        """Hold what comes until the replay is over; return False where it is too long to hold.

        It is over where the source says so, where no event comes for so long, and at the end.
        """
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + quiet_s
        while not self._replayed:
            if self._full():
                return False
            came = await self._next(deadline_s)
            if came is None:
                break
            self._hear(came)
            if came.frame.data is not None:
                deadline_s = loop.time() + quiet_s
        return True

    async def hear_news(self, limit_s: float) -> bool:
        """Wait until something new is held; return False where the connection ends before."""
        deadline_s = asyncio.get_running_loop().time() + limit_s
        while not self.held:
            came = await self._next(deadline_s)
            if came is None:
                return not self._ended
            self._hear(came)
        return True

    async def hear_for(self, limit_s: float) -> None:
        """Hold what comes for so long, or until there is too much of it."""
        deadline_s = asyncio.get_running_loop().time() + limit_s
        while not self._full() and (came := await self._next(deadline_s)) is not None:
            self._hear(came)

    async def hear_what_came(self) -> None:
        """Hold what has come by now, without waiting for more."""
        while self._frames and not self._full():
            came = await self._next(asyncio.get_running_loop().time())
            if came is None:
                break
            self._hear(came)

    def _hear(self, came: Arrival) -> None:
        frame = came.frame
        if not self.hearing.overlap.owing and self._dialect.replayed(frame):
            self._replayed = True
        if not self.wanted(frame):
            facts = self.noticed(frame)
        else:
            facts = self.hearing.arrived(frame)
            if frame.data is not None and not self.hearing.repeat:
                self.held.append(came)
                self._held_bytes += len(frame.data)
        if facts:
            self._said(self.hearing)

    @property
    def retry_s(self) -> float | None:
        """How long the source wants us to wait before the next connection, if it says so."""
        retry = self.decoder.retry
        # The number may have hundreds of digits, more than a float can hold.
        return None if retry is None else min(retry, RETRY_MS_MAX) / 1000

    @property
    def barren(self) -> bool:
        """True where the connection came to a proper end, and brought no event at all."""
        proper = self._ended and self._failure is None and not self._frames
        return proper and not self.hearing.events

    def _full(self) -> bool:
        return len(self.held) >= HELD_FRAMES_MAX or self._held_bytes >= HELD_BYTES_MAX

    # --- at any time
    def wanted(self, frame: Frame) -> bool:
        """Return True unless this is no event of the source, or one that we have already."""
        if frame.data is None:
            return True
        if frame.id_seen and frame.last_event_id in self.skip_ids:
            return False
        return self._dialect.counts(frame)

    def noticed(self, frame: Frame) -> tuple[Fact, ...]:
        """Have what is no event heard by those to whom it says something; return their facts."""
        return () if self._dialect.counts(frame) else self.hearing.noticed(frame)

    @property
    def ended(self) -> bool:
        """True once nothing more comes. What came before may wait to be taken."""
        return self._ended

    @property
    def over(self) -> bool:
        """True once the connection is over and all that it brought was taken."""
        return self._ended and not self._frames

    @property
    def waiting(self) -> tuple[Arrival, ...]:
        """What has come and was not taken yet."""
        return tuple(self._frames)

    async def frames(self, deadline_s: float | None = None) -> list[Frame]:
        """Return what has come, waiting for at least one frame.

        Nothing comes at a proper end, nor at the deadline (time of the loop). Raises
        SourceUnreachable or SseLimitExceeded once all that came before it was taken.
        """
        first = await self._next(deadline_s)
        if first is None:
            self.check()
            return []
        frames = [first.frame]
        async with self._changed:
            frames += [came.frame for came in self._frames]
            self._frames.clear()
            self._frames_bytes = 0
            self._changed.notify_all()
        return frames

    def check(self) -> None:
        """Raise what ended the connection, unless it ended properly or goes on."""
        if self._failure is not None and not self._frames:
            raise self._failure

    async def next_within(self, limit_s: float) -> Frame | None:
        """Return the next frame, None at the end or when none comes in time."""
        came = await self._next(asyncio.get_running_loop().time() + limit_s)
        return None if came is None else came.frame

    async def _next(self, deadline_s: float | None) -> Arrival | None:
        """Return the next frame, None at the end or at the deadline (time of the loop).

        A loop that stood still did not read, so its standstill is no silence of the source.
        """
        limit_s = inf
        if deadline_s is not None:
            limit_s = max(deadline_s - asyncio.get_running_loop().time(), 0.0)
        async with self._changed:
            try:
                if not self._frames and not self._ended:
                    async with self._awake.timeout(limit_s):
                        await self._changed.wait_for(lambda: bool(self._frames) or self._ended)
            except TimeoutError:
                return None
            if not self._frames:
                return None
            came = self._frames.popleft()
            self._frames_bytes -= _size(came.frame)
            self._changed.notify_all()
            return came

    async def _read(self, response: SourceResponse) -> None:
        """Read ahead, within bounds, until the connection ends."""
        try:
            await self._read_frames(response)
        # A dialect may be the user's own code. Whatever it raises is told to whoever reads on; if
        # it ended this task alone, the connection would look silent for ever.
        except Exception as error:
            self._failure = error
        async with self._changed:
            self._ended = True
            self._changed.notify_all()

    async def _read_frames(self, response: SourceResponse) -> None:
        waits_since_s = self._now_s()
        try:
            async for chunk in response.chunks():
                if self._now_s() - waits_since_s >= WAITED_S:
                    self.heard_s = waits_since_s
                frames = self.decoder.feed(chunk)
                if self._answer is not None:
                    for frame in frames:
                        await self._answer(frame)
                await self._add(frames)
                # What is not read because nobody takes it is not the source's delay.
                waits_since_s = self._now_s()
                self._pace.look(frames, unfinished=self.decoder.unfinished, now_s=waits_since_s)
        except SseLimitExceeded as exceeded:
            await self._add(exceeded.frames)
            self._failure = exceeded

    async def _add(self, sent: Sequence[Frame]) -> None:
        frames = self._reading.read(sent)
        now_s = asyncio.get_running_loop().time()
        async with self._changed:
            self.finished = self.finished or any(self._dialect.ends(frame) for frame in frames)
            self._frames.extend(Arrival(frame, now_s) for frame in frames)
            self._frames_bytes += sum(_size(frame) for frame in frames)
            self._changed.notify_all()
            await self._changed.wait_for(
                lambda: (
                    len(self._frames) <= READ_AHEAD_FRAMES_MAX
                    and self._frames_bytes <= READ_AHEAD_BYTES_MAX
                )
            )


def _size(frame: Frame) -> int:
    return len(frame.data) if frame.data is not None else 0


def _behind(began_s: float | None, limit_s: float) -> float:
    """Return when a limit is over that may not have begun yet."""
    return began_s + limit_s if began_s is not None else inf
