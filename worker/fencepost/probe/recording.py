"""One connection of a probe, read in the background and written down as it comes."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from fencepost.ports import SourceResponse, SourceUnreachable
from fencepost.probe.bounds import ANSWER_BYTES_MAX, FRAMES_MAX, SAID_BYTES_MAX, Spent
from fencepost_policies.probe.answers import Answer, Came, Ending, Question
from fencepost_schemas.sse import Decoder, Frame, SseLimitExceeded

Opened = Callable[[], AbstractAsyncContextManager[SourceResponse]]


class Recording:
    """Opens a connection at once, and holds it until `close`. `answer` is what came so far."""

    def __init__(
        self,
        question: Question,
        asked: str,
        opened: Opened,
        clock: Callable[[], float],
        sent_s: Callable[[], float],
    ) -> None:
        self.spent = False
        """True where the connection was not made, for the bound on requests was reached."""
        self._question = question
        self._asked = asked
        self._opened = opened
        self._clock = clock
        self._sent_s = sent_s
        self._asked_s = clock()
        self._headers_s = 0.0
        self._ended_s = 0.0
        self._status = 0
        self._headers: dict[str, str] = {}
        self._came: list[Came] = []
        self._ending = Ending.NEVER
        self._said = b""
        self._failure = ""
        self._changed = asyncio.Condition()
        self._done = False
        self._task = asyncio.create_task(self._run())

    def answer(self) -> Answer:
        return Answer(
            question=self._question,
            asked=self._asked,
            asked_s=self._asked_s,
            headers_s=self._headers_s,
            status=self._status,
            headers=self._headers,
            came=tuple(self._came),
            ending=self._ending,
            ended_s=self._ended_s,
            said=self._said.decode("utf-8", "replace"),
            failure=self._failure,
        )

    async def until(self, so: Callable[[Answer], bool], limit_s: float) -> bool:
        """Return True once it is so, False at the limit or where nothing more will come."""
        try:
            async with asyncio.timeout(limit_s), self._changed:
                await self._changed.wait_for(lambda: self._done or so(self.answer()))
        except TimeoutError:
            return so(self.answer())
        return so(self.answer())

    async def until_quiet(self, quiet_s: float, limit_s: float) -> None:
        """Return once something has come and then nothing for a while; at the limit in any case.

        A comment is nothing: servers greet with one before they begin.
        """
        until_s = self._clock() + limit_s
        while not self._done and (left_s := until_s - self._clock()) > 0:
            count = self._told()
            wait_s = min(left_s, quiet_s) if count else left_s
            if not await self.until(self._told_more_than(count), wait_s) and count:
                return

    def _told(self) -> int:
        return sum(one.frame.data is not None or one.frame.id_seen for one in self._came)

    def _told_more_than(self, count: int) -> Callable[[Answer], bool]:
        return lambda answer: self._told() > count

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    # --- inside
    async def _run(self) -> None:
        try:
            async with self._opened() as response:
                await self._read(response)
        except SourceUnreachable as error:
            self._failure = str(error)
            self._ending = Ending.BROKE if self._status else Ending.NEVER
        except SseLimitExceeded as exceeded:
            self._failure = f"sent more than {exceeded.bytes_max} bytes in one {exceeded.limit}"
            self._ending = Ending.BROKE
        except Spent:
            self.spent = True
        async with self._changed:
            self._ended_s = self._clock()
            self._done = True
            self._changed.notify_all()

    async def _read(self, response: SourceResponse) -> None:
        async with self._changed:
            self._headers_s = self._clock() - self._sent_s()
            self._status, self._headers = response.status, dict(response.headers)
            self._ending = Ending.OPEN
            self._changed.notify_all()
        streams = self.answer().streams
        decoder = Decoder(self._asked)
        piece = bytes_read = 0
        async for chunk in response.chunks():
            if not streams:
                self._said += chunk[: SAID_BYTES_MAX - len(self._said)]
                if len(self._said) >= SAID_BYTES_MAX:
                    return
                continue
            piece += 1
            bytes_read += len(chunk)
            await self._note(decoder.feed(chunk), piece)
            if len(self._came) >= FRAMES_MAX or bytes_read >= ANSWER_BYTES_MAX:
                # Its end is not known, and what came is enough; so it counts as open.
                return
        self._ending = Ending.ENDED

    async def _note(self, frames: list[Frame], piece: int) -> None:
        at_s = self._clock()
        async with self._changed:
            self._came += [Came(frame, at_s, piece) for frame in frames]
            self._changed.notify_all()
