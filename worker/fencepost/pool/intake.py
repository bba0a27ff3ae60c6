"""What a worker takes in: no more messages of a consumer than it has free slots."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial

import msgspec

from fencepost.errors import Denied, LedgerDiffers, NotFine, Unreachable
from fencepost.patience import Patience
from fencepost.ports import Broker, ConsumerPlan, Delivery
from fencepost.settings import Settings

log = logging.getLogger("fencepost.pool")

LOOK_S = 1.0
PENDING_MAX = 20_000
"""Unacked messages of one app, over all its workers; each slot and each delayed retry takes one."""

WorkOn = Callable[[Delivery], Coroutine[None, None, None]]
Begin = Callable[["Intake", Sequence[Delivery]], None]
"""Begins to see to messages, and tells the intake of each once it is through."""


def in_a_task(work_on: WorkOn) -> Begin:
    """Return what sees to each message in a task of its own, which settles it too."""

    def begin(intake: "Intake", messages: Sequence[Delivery]) -> None:
        for message in messages:
            intake.spawn(partial(work_on, message))

    return begin


class Feed(msgspec.Struct, frozen=True):
    """One consumer of an app: what it takes, how many at once, and what sees to a message.

    `suffix` is behind the app's name in the consumer's. `behind` says where a consumer that is made
    has to begin; without it, that is at the beginning.
    """

    stream: str
    suffix: str
    subjects: tuple[str, ...]
    slots: int
    begin: Begin
    behind: Callable[[], Awaitable[int]] | None = None

    async def plan(self, settings: Settings, app: str) -> ConsumerPlan:
        """Return the consumer as it is to be made now."""
        return ConsumerPlan(
            self.stream,
            consumer_name(app, self.suffix),
            self.subjects,
            settings.pool.ack_wait_s,
            PENDING_MAX,
            settings.broker.replicas,
            await self.behind() if self.behind is not None else 0,
        )


def consumer_name(app: str, suffix: str) -> str:
    return f"fp-{app}{suffix}"


class Intake:
    """Keeps a number of slots busy with the messages of one consumer.

    A message has its slot until it is settled, or until the task that sees to it has ended. What
    came since it was last looked is begun together.
    """

    def __init__(
        self,
        connection: Broker,
        plan: ConsumerPlan,
        slots: int,
        begin: Begin,
        plan_again: Callable[[], Awaitable[ConsumerPlan]],
    ) -> None:
        self.tasks: set[asyncio.Task[None]] = set()
        self.taken = 0
        self.puller = connection.puller(plan.stream, plan.name, self._take)
        self._plan_again = plan_again
        self._connection = connection
        self._slots = slots
        self._begin = begin
        self._came: list[Delivery] = []
        self._stirred = asyncio.Event()
        """Something came, or a slot is free."""
        self._freed = asyncio.Event()
        self._failed: BaseException | None = None
        self._unbegun: BaseException | None = None
        """Why some of what came could not be begun."""
        self._words: list[tuple[Delivery, bytes]] = []
        self._saying = False

    async def run(self) -> None:
        """Ask for as many messages as slots are free, and begin them, for ever.

        Raises what the work raises. What has come by the end is begun, as it has its slots.
        """
        await self.puller.open()
        try:
            while True:
                if self._failed is not None:
                    raise self._failed
                if self.puller.gone.is_set():
                    await self._make_again()
                self._stirred.clear()
                self._begin_all()
                await self.puller.want(self._slots - self.taken)
                # Look after the puller even when nothing comes.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await self._stirred.wait()
        finally:
            try:
                await self.puller.close()
            finally:
                self._begin_all()

    async def _make_again(self) -> None:
        """Make a consumer again that somebody deleted. What runs is left alone."""
        try:
            plan = await self._plan_again()
            await self._connection.ensure_consumer(plan)
        except Denied:
            raise
        except Unreachable as error:
            log.warning("a consumer is gone: %s; making it again later", error)
            return
        self.puller.gone.clear()
        log.warning(
            "consumer %s of %s was gone and is made again: what is settled may come once more, "
            "and the ledger knows it",
            plan.name,
            plan.stream,
        )

    async def emptied(self) -> None:
        """Return once no slot is taken; raise what the work raised."""
        while self.taken:
            if self._unbegun is not None:
                raise self._unbegun
            self._freed.clear()
            await self._freed.wait()
        if self._failed is not None:
            raise self._failed

    # --- how a message comes out
    def settle(self, message: Delivery, word: bytes | None) -> None:
        """Say the word about a message to the broker, None for nothing, and free its slot."""
        if word is None:
            self._free()
            return
        self._words.append((message, word))
        if not self._saying:
            self._saying = True
            self._start(self._say())

    def failed(self, error: BaseException) -> None:
        """Free the slot of a message that could not be dealt with. It comes again."""
        passing = isinstance(error, Unreachable | NotFine)
        if passing and not isinstance(error, Denied | LedgerDiffers):
            # One event that cannot be dealt with must not stop all others.
            log.error("%s; the event comes again", error)
        elif not isinstance(error, asyncio.CancelledError):
            self._failed = error  # whatever it is, the worker ends with it
        self._free()

    def spawn(self, see_to: Callable[[], Coroutine[None, None, None]]) -> None:
        """See to a message in a task, at whose end its slot is free."""
        self._start(self._see_to(see_to))

    # --- inside
    def _take(self, message: Delivery) -> None:
        self.taken += 1
        self._came.append(message)
        self._stirred.set()

    def _begin_all(self) -> None:
        if self._came:
            came, self._came = self._came, []
            try:
                self._begin(self, came)
            except BaseException as error:  # nobody will ever free the slots of these messages
                self._unbegun = error
                self._freed.set()
                raise

    def _free(self, slots: int = 1) -> None:
        self.taken -= slots
        self._freed.set()
        self._stirred.set()

    async def _see_to(self, see_to: Callable[[], Coroutine[None, None, None]]) -> None:
        try:
            await see_to()
        except BaseException as error:  # whatever it is, the slot is free and the worker told
            self.failed(error)
            if isinstance(error, asyncio.CancelledError):
                raise
        else:
            self._free()

    async def _say(self) -> None:
        """Send the words that wait, and free a slot for each."""
        try:
            while self._words:
                words, self._words = self._words, []
                try:
                    await self._connection.settle_all(words)
                except Exception as error:  # what comes to be said meanwhile waits for us
                    for _ in words:
                        self.failed(error)
                else:
                    self._free(len(words))
        finally:
            self._saying = False

    def _start(self, made: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(made)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


async def open_intakes(
    settings: Settings,
    connection: Broker,
    app: str,
    feeds: Sequence[Feed],
    patience: Patience,
) -> list[Intake]:
    """Return an intake for each feed, whose consumer is made where it is missing."""
    intakes = []
    for feed in feeds:
        plan_again = partial(feed.plan, settings, app)
        plan = await patience.wait_out(plan_again)
        await patience.wait_out(partial(connection.ensure_consumer, plan))
        intakes.append(Intake(connection, plan, feed.slots, feed.begin, plan_again))
    return intakes
