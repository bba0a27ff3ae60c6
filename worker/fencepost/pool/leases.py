"""The attempts that run in this process, and the leases that are kept up for them.

A lease that runs out hands the event to another worker, so it must not depend on the handlers'
good manners: `Leases.renew_for_ever` is made to run on a thread of its own, with a connection of
its own, and goes on while a handler blocks everybody else. What an attempt's row is, and at which
revision, stands in one tuple that both threads replace as a whole; the broker's compare-and-set
decides between them.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import msgspec

from fencepost.errors import Unreachable
from fencepost.pool.clock import STEP_MS, BrokerClock
from fencepost.ports import Broker, Delivery, Message, NotStored, Stored
from fencepost.settings import Pool
from fencepost_policies.ledger import step
from fencepost_policies.plan import Renewing
from fencepost_schemas.row import Row, UnknownRowVersion, decode_row, encode_row
from fencepost_schemas.subject import LEDGER

log = logging.getLogger("fencepost.pool")

IN_PROGRESS = b"+WPI"


class Running:
    """One attempt that runs here.

    `stands` is its row and revision as far as anybody here knows, and when its lease is over by
    this machine's own clock (`BrokerClock.steady_ms`), which nobody sets. It is renewed until
    `until_ms` of that clock (None: for as long as it runs), and whoever delivered the event is told
    so at `reply`.
    """

    __slots__ = ("claim", "reply", "shown", "stands", "subject", "until_ms")

    def __init__(
        self,
        subject: str,
        row: Row,
        revision: int,
        *,
        over_ms: int,
        until_ms: int | None,
        reply: str,
        shown: str,
    ) -> None:
        self.subject = subject
        self.claim = row.claim
        self.stands = (row, revision, over_ms)
        self.until_ms = until_ms
        self.reply = reply
        self.shown = shown

    @property
    def over_ms(self) -> int:
        """When the lease is over, by this machine's own clock."""
        return self.stands[2]

    def time_ms(self, steady_ms: int) -> int:
        """Return the broker's time, by the clock that the row's lease was written by."""
        row, _, over_ms = self.stands
        return row.lease_until_ms - (over_ms - steady_ms)

    def written(self, row: Row, revision: int) -> None:
        """Its row was written, and its lease is the one that it was."""
        self.stands = (row, revision, self.over_ms)


class Leases:
    """What runs, by claim. `watch` and `end` it here, `renew_for_ever` it anywhere."""

    def __init__(self, pool: Pool, clock: BrokerClock) -> None:
        self._pool = pool
        self._clock = clock
        self._running: dict[str, Running] = {}
        self.blocked_by: Callable[[asyncio.Task[Any]], None] = lambda task: None
        """Called from any thread with the task that blocks the worker's loop."""

    def watch(self, running: Running) -> None:
        """Keep an attempt's lease up until `end` says that it runs no more."""
        self._running[running.claim] = running

    def end(self, running: Running) -> None:
        del self._running[running.claim]

    @property
    def shown(self) -> list[str]:
        """What runs, in words for a person."""
        return [one.shown for one in list(self._running.values())]

    async def renew_for_ever(self, connection: Broker) -> None:
        """Renew what runs long enough to need it; a broker that is away is asked again."""
        every_s = self._pool.renewal_s
        if not every_s:
            return
        while True:
            await asyncio.sleep(every_s / 2)
            try:
                if self._running and self._clock.stale:
                    # The worker's own loop reads it oftener, unless something blocks that.
                    await self._clock.read(connection, LEDGER)
                due = self._due(every_s)
                if due:
                    await self._renew(connection, due)
            except Unreachable as error:
                log.warning("leases: %s; %d run and may have to stop", error, len(self._running))

    def _due(self, every_s: float) -> list[Running]:
        """Return what had its lease for a while, and has not run over its limit.

        So is a lease that was written by another clock than the broker's is now: the others judge
        it by that one.
        """
        steady_ms, now_ms = self._clock.steady_ms(), self._clock.now_ms()
        left_ms = int((self._pool.lease_s - every_s) * 1000)
        return [
            one
            for one in list(self._running.values())
            if steady_ms < one.over_ms
            and (
                one.over_ms <= steady_ms + left_ms
                or abs(now_ms - one.time_ms(steady_ms)) >= STEP_MS
            )
            and (one.until_ms is None or steady_ms < one.until_ms)
        ]

    async def _renew(self, connection: Broker, due: list[Running]) -> None:
        steady_ms, now_ms = self._clock.steady_ms(), self._clock.now_ms()
        lease_ms = int(self._pool.lease_s * 1000)
        asked: list[tuple[Running, Row]] = []
        messages = []
        for running in due:
            row, revision, _ = running.stands
            time_ms = running.time_ms(steady_ms)
            given = Renewing(running.claim, lease_ms, now_ms - time_ms)
            renewed = step(row, given, time_ms).write
            if renewed is not None:
                asked.append((running, renewed))
                messages.append(Message(running.subject, encode_row(renewed), {}, revision))
        replies = await connection.store_burst(messages)
        for (running, renewed), reply in zip(asked, replies, strict=True):
            if isinstance(reply, Stored):
                running.stands = (renewed, reply.sequence, steady_ms + lease_ms)
                if running.reply:
                    told = Delivery(running.subject, {}, b"", running.reply)
                    await connection.settle(told, IN_PROGRESS)
            elif isinstance(reply, NotStored) and reply.conflict:
                await self._look(connection, running)

    async def _look(self, connection: Broker, running: Running) -> None:
        """See what stands where our renewal lost: another write of this attempt, or another's."""
        stored = await connection.last(LEDGER, running.subject)
        if stored is None:
            return
        try:
            row = decode_row(stored.payload)
        except (UnknownRowVersion, msgspec.DecodeError):
            return
        if row.claim == running.claim:
            # It may be any of our writes, so its lease is taken for no longer than the old one.
            running.written(row, stored.sequence)
        else:
            log.warning("%s: another worker has taken it over", running.shown)
