"""What a worker takes in: no more messages of a consumer than it has free slots."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Sequence

import msgspec

from fencepost.errors import Denied, NotFine, Unreachable
from fencepost.ports import Broker, ConsumerPlan, Delivery
from fencepost.settings import Settings

log = logging.getLogger("fencepost.pool")

LOOK_S = 1.0
PENDING_MAX = 20_000
"""Unacked messages of one app, over all its workers; each slot and each delayed retry takes one."""

WorkOn = Callable[[Delivery], Coroutine[None, None, None]]


class Feed(msgspec.Struct, frozen=True):
    """One consumer of an app: what it takes, how many at once, and what works on a message.

    `suffix` is behind the app's name in the consumer's. `from_now` passes over what was there
    before the consumer was.
    """

    stream: str
    suffix: str
    subjects: tuple[str, ...]
    slots: int
    work_on: WorkOn
    from_now: bool = False


class Intake:
    """Keeps a number of slots busy with the messages of one consumer."""

    def __init__(
        self,
        connection: Broker,
        stream: str,
        consumer: str,
        slots: int,
        work_on: WorkOn,
    ) -> None:
        self.running: set[asyncio.Task[None]] = set()
        self.puller = connection.puller(stream, consumer, self._take)
        self._slots = slots
        self._work_on = work_on
        self._freed = asyncio.Event()
        self._failed: BaseException | None = None

    async def run(self) -> None:
        """Ask for as many messages as slots are free, for ever; raise what the work raises."""
        await self.puller.open()
        try:
            while True:
                if self._failed is not None:
                    raise self._failed
                if self.puller.gone.is_set():
                    raise NotFine("the consumer is gone: start the worker again")
                self._freed.clear()
                await self.puller.want(self._slots - len(self.running))
                # Look after the puller even when nothing comes.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await self._freed.wait()
        finally:
            await self.puller.close()

    def _take(self, message: Delivery) -> None:
        self.running.add(asyncio.create_task(self._see_to(message)))

    async def _see_to(self, message: Delivery) -> None:
        try:
            await self._work_on(message)
        except Denied as error:
            self._failed = error
        except (Unreachable, NotFine) as error:
            # One event that cannot be dealt with must not stop all others.
            log.error("%s; the event comes again", error)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # whatever it is, the worker ends with it
            self._failed = error
        finally:
            task = asyncio.current_task()
            assert task is not None
            self.running.discard(task)
            self._freed.set()


async def open_intakes(
    settings: Settings, connection: Broker, app: str, feeds: Sequence[Feed]
) -> list[Intake]:
    """Return an intake for each feed, whose consumer is made where it is missing."""
    intakes = []
    for feed in feeds:
        plan = ConsumerPlan(
            feed.stream,
            f"fp-{app}{feed.suffix}",
            feed.subjects,
            settings.pool.ack_wait_s,
            PENDING_MAX,
            settings.broker.replicas,
            feed.from_now,
        )
        await connection.ensure_consumer(plan)
        intakes.append(Intake(connection, feed.stream, plan.name, feed.slots, feed.work_on))
    return intakes
