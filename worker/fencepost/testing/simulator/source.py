"""A source with a truth: replicas with logs of their own, epochs that end, windows that forget.

It never says more than its plan declares, and notes all that it announces and sends.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from random import Random

import msgspec

from fencepost.ports import Request, SourceUnreachable
from fencepost.settings import Source
from fencepost.testing.simulator.history import Announcement, History, Place, Sending
from fencepost.testing.simulator.loop import PROCESS, Process, outside
from fencepost.testing.simulator.plan import GENERATION_HEADER, URL, WINDOW_HEADER, SourcePlan

_BROKEN, _ENDED = "broken", "ended"
BEAT_S = 5.0


class _Log:
    """One epoch of one replica."""

    def __init__(self, replica: int, epoch: int, counter: int) -> None:
        self.replica = replica
        self.epoch = epoch
        self.counter = counter
        self.announcements: list[Announcement] = []


class Visit:
    """One open response. What it brings is queued, so a slow client loses nothing."""

    def __init__(self, process: Process | None, log: _Log, headers: Mapping[str, str]) -> None:
        self.status = 200
        self.url = URL
        self.own = True
        self.headers = {"content-type": "text/event-stream", **headers}
        self.process = process
        self.log = log
        self.over = False
        self._queue: asyncio.Queue[bytes | str] = asyncio.Queue()

    def put(self, chunk: bytes) -> None:
        if not self.over:
            self._queue.put_nowait(chunk)

    def end(self, word: str) -> None:
        if not self.over:
            self.over = True
            self._queue.put_nowait(word)

    async def chunks(self, stall_s: float = 15.0) -> AsyncIterator[bytes]:
        while True:
            try:
                async with asyncio.timeout(stall_s):
                    chunk = await self._queue.get()
            except TimeoutError:
                raise SourceUnreachable("went silent") from None
            if chunk == _BROKEN:
                raise SourceUnreachable("broke the connection")
            if isinstance(chunk, str):
                return
            yield chunk


class _Refusal:
    status = 410
    url = URL
    own = True
    headers: Mapping[str, str] = {}

    async def chunks(self) -> AsyncIterator[bytes]:
        return
        yield b""


class SimulatedSource:
    """The server; it is also the transport of whoever follows it."""

    def __init__(self, plan: SourcePlan, chance: Random, history: History) -> None:
        self.plan = plan
        self.visits: list[Visit] = []
        self.leaks_s = plan.leaks_s
        self._chance = chance
        self._history = history
        self._logs = [_Log(replica, 1, 0) for replica in range(plan.replicas)]
        self._heard: set[int] = set()
        self._next = 0
        self._data: dict[str, bytes] = {}
        self._places: dict[str, set[int]] = {}
        """Under which ids each task was announced so far."""

    # --- what happens at the source
    def announce_new(self, task: str) -> None:
        """Announce a task where somebody listens, or has listened and heard something.

        What a replica says that never told this client anything, no client can know of.
        """
        body = {"task": task}
        if self.plan.keys == "durable" and self._chance.random() >= self.plan.keys_missing:
            body["key"] = task
        self._data[task] = msgspec.json.encode(body)
        followed = [visit.log.replica for visit in self.visits] or sorted(self._heard) or [0]
        stay = self._chance.random() < 0.8
        replica = self._chance.choice(followed if stay else sorted({*followed, *self._heard}))
        self._announce(self._logs[replica], task)

    def restart(self, replica: int) -> None:
        """Begin a new epoch: the log is gone, and some of the work is announced again."""
        old = self._logs[replica]
        counter = {
            "zero": 0,
            "random": self._chance.randrange(10_000),
            "aligned": old.counter + self._chance.randrange(3),
        }[self.plan.restart]
        for visit in self._of(replica):
            self._leave(visit)
        new = self._logs[replica] = _Log(replica, old.epoch + 1, counter)
        known = list(self._data)
        count = min(len(known), self._chance.randint(0, self.plan.reannounces_max))
        again = sorted(self._chance.sample(known[-20:], min(count, len(known[-20:]))))
        outside(self._announce_again(new, again, self._chance.choice((0.0, 3.0))))

    async def _announce_again(self, log: _Log, tasks: list[str], longest_s: float) -> None:
        """Announce work that was announced before, at once or little by little."""
        for task in tasks:
            await asyncio.sleep(self._chance.uniform(0.0, longest_s))
            if self._logs[log.replica] is not log:
                return
            if self._chance.random() < 0.02:
                # The same key for other bytes: a fault of the source, to be told from a repeat.
                body = msgspec.json.decode(self._data[task])
                self._data[task] = msgspec.json.encode({**body, "changed": log.epoch})
            self._announce(log, task)

    def cut(self) -> None:
        """End every connection, in the middle of what it was saying or properly."""
        for visit in list(self.visits):
            self._leave(visit)

    def leave(self, process: Process) -> None:
        """See the connections of a process that died go away."""
        for visit in [one for one in self.visits if one.process is process]:
            self._leave(visit)

    async def beat_for_ever(self) -> None:
        """Send comments on every connection, so that who has nothing to say is not taken for gone.

        A source that is silent is left and asked again. One whose replicas do not hold the same
        then tells the client other things each time, and nothing comes to rest: that is what
        heartbeats are for, and no fault of the client's.
        """
        while True:
            await asyncio.sleep(BEAT_S)
            for visit in self.visits:
                visit.put(b":\n\n")

    def caught_up(self) -> bool:
        return any(not visit.over for visit in self.visits)

    # --- the transport
    def of(self, name: str, source: Source) -> "SimulatedSource":
        return self

    @asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator[Visit | _Refusal]:
        self._history.connections += 1
        await asyncio.sleep(self._chance.uniform(0.0, 0.3))
        replica = self._next % len(self._logs)
        self._next += 1
        log = self._logs[replica]
        backlog = self._backlog(log, request.asked)
        if backlog is None:
            yield _Refusal()
            return
        visit = Visit(PROCESS.get(), log, self._headers(log))
        if not self.leaks_s:
            self.visits.append(visit)
        for announcement in backlog:
            self._send(visit, announcement)
        if self.leaks_s:
            outside(self._take_part(visit))
        try:
            yield visit
        finally:
            self._leave(visit)

    async def close(self) -> None:
        """Nothing is held beyond its visits."""

    async def _take_part(self, visit: Visit) -> None:
        """Have a connection hear what is announced, some time after it was told what was before."""
        await asyncio.sleep(self._chance.uniform(0.0, self.leaks_s))
        gone = visit.over or (visit.process is not None and visit.process.dead)
        if gone or self._logs[visit.log.replica] is not visit.log:
            self._leave(visit)
        else:
            self.visits.append(visit)

    # --- inside
    def _announce(self, log: _Log, task: str) -> None:
        log.counter += 1
        # Byte for byte the same at the same place is the same log, as far as any client can know.
        while log.counter in self._places.setdefault(task, set()):
            log.counter += 1
        self._places[task].add(log.counter)
        announcement = Announcement(
            Place(log.replica, log.epoch, log.counter),
            len(log.announcements),
            task,
            self._data[task],
            self._now(),
        )
        log.announcements.append(announcement)
        self._history.announcements.append(announcement)
        for visit in self._of(log.replica):
            self._send(visit, announcement)

    def _backlog(self, log: _Log, asked: str) -> list[Announcement] | None:
        """Return what is replayed, None where the position is refused."""
        if not asked:
            return []
        window = log.announcements[-self.plan.window :]
        last = int(asked)
        oldest = window[0].place.id if window else log.counter + 1
        # It knows numbers only: one that another epoch gave out may look like its own.
        if oldest - 1 <= last <= log.counter:
            return [one for one in window if one.place.id > last]
        if self.plan.unknown == "410":
            return None
        if self.plan.unknown == "all":
            return window
        if self.plan.unknown == "greater":
            return [one for one in window if one.place.id > last]
        return []

    def _headers(self, log: _Log) -> dict[str, str]:
        headers = {}
        if self.plan.declares_generation:
            headers[GENERATION_HEADER] = f"r{log.replica}-e{log.epoch}"
        if self.plan.declares_window:
            window = log.announcements[-self.plan.window :]
            oldest = window[0].place.id if window else log.counter + 1
            headers[WINDOW_HEADER] = str(oldest)
        return headers

    def _send(self, visit: Visit, announcement: Announcement) -> None:
        data = announcement.data.decode()
        visit.put(f"id: {announcement.place.id}\nevent: task\ndata: {data}\n\n".encode())
        self._heard.add(visit.log.replica)
        self._history.sendings.append(Sending(announcement, self._now()))

    def _leave(self, visit: Visit) -> None:
        if visit in self.visits:
            self.visits.remove(visit)
        if self._chance.random() < 0.3:
            visit.put(b'id: 999999\nevent: task\ndata: {"task": "ha')
        visit.end(_BROKEN if self._chance.random() < 0.5 else _ENDED)

    def _of(self, replica: int) -> list[Visit]:
        return [visit for visit in self.visits if visit.log is self._logs[replica]]

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
