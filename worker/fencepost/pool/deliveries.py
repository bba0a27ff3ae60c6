"""Events from the broker: each goes to the rows of all its handlers, and is settled once.

An event is acked when every row was durably seen terminal or parked; it is asked for again later
when some row has to wait; and when another worker owns a row, nothing is said at all.
"""

import logging
from collections import Counter
from collections.abc import Sequence
from functools import partial

from fencepost.app import Fencepost
from fencepost.handler import Handler
from fencepost.pool.case import Done
from fencepost.pool.drive import Driver
from fencepost.pool.intake import Intake
from fencepost.pool.pauses import Pauses
from fencepost.pool.rulings import Rulings
from fencepost.pool.seams import Seams
from fencepost.pool.work import Ruled, Work, make_work, namespace_of
from fencepost.ports import Broker, Delivery
from fencepost_policies.plan import Settlement
from fencepost_schemas.event import BadEvent, ClassifiedEvent, event_of
from fencepost_schemas.question import Held, Ruling
from fencepost_schemas.row import State
from fencepost_schemas.subject import BadSubject, Subjects, slug

log = logging.getLogger("fencepost.pool")

ACK = b"+ACK"
TERM = b"+TERM"
UNMATCHED_NAMES_MAX = 1_000


class Deliveries:
    def __init__(
        self,
        app: Fencepost,
        connection: Broker,
        subjects: Subjects,
        rulings: Rulings,
        driver: Driver,
        seams: Seams,
        pauses: Pauses,
    ) -> None:
        self.unmatched: Counter[str] = Counter()
        self._app = app
        self._connection = connection
        self._subjects = subjects
        self._rulings = rulings
        self._driver = driver
        self._seams = seams
        self._pauses = pauses

    def begin(self, intake: Intake, messages: Sequence[Delivery]) -> None:
        """Begin to see deliveries through; the intake settles each once that is done.

        One thing is done for all of them and then the next, which costs less than all for each.
        """
        plain = []
        for message, event in self._read(intake, messages):
            handlers = self._app.handlers_for(event)
            if not handlers:
                self._count_unmatched(event.type)
                intake.settle(message, ACK)
                continue
            name = handlers[0].name
            carrier = Held(message.subject, message.headers, message.payload, self._app.name, name)
            alone = len(handlers) == 1 and not self._pauses.is_paused(name)
            ruled = self._rulings.without_asking(event) if alone else None
            if ruled is None:
                intake.spawn(partial(self._work_on, message, event, carrier, handlers))
            else:
                plain.append((message, handlers[0], event, carrier, ruled))
        parcels = []
        for message, handler, event, carrier, ruled in plain:
            work = make_work(handler, event, carrier, ruled, self._subjects, message.reply)
            parcels.append(Parcel(self, intake, message, work, ruled))
        for parcel in parcels:
            self._driver.begin(parcel.work, parcel.ruled, parcel)

    def _read(
        self, intake: Intake, messages: Sequence[Delivery]
    ) -> list[tuple[Delivery, ClassifiedEvent]]:
        """Return the events that came; what is none is taken out of the stream."""
        events = []
        for message in messages:
            try:
                events.append((message, self._event_of(message)))
            except BadEvent as error:
                log.error("%s: %s; it is taken out of the stream", message.subject, error)
                intake.settle(message, TERM)
        return events

    async def _work_on(
        self,
        message: Delivery,
        event: ClassifiedEvent,
        carrier: Held,
        handlers: Sequence[Handler],
    ) -> None:
        """See one delivery through that asks for more than its handler's row."""
        ruled = await self._rulings.of(event)
        works = [
            make_work(handler, event, carrier, ruled, self._subjects, message.reply)
            for handler in handlers
        ]
        again = message.again
        word = settle_together([await self.see_through(work, ruled, again) for work in works])
        if word is not None:
            await self._connection.settle(message, word)

    def _event_of(self, message: Delivery) -> ClassifiedEvent:
        """Return the event; raise BadEvent for anything else, which a forger may have put there.

        A bridge may publish to its own source's subjects only, so the headers have to say the same.
        """
        event = event_of(message.headers, message.payload)
        try:
            told = self._subjects.parse_event(message.subject)
            slug(namespace_of(event))
        except BadSubject as error:
            raise BadEvent(str(error)) from None
        if (told.source, told.generation, told.standing) != (
            event.source,
            event.generation,
            event.standing,
        ):
            raise BadEvent("its headers do not say what its subject says")
        return event

    async def see_through(self, work: Work, ruled: Ruled, again: bool) -> Done:
        """Bring an event to its row, and to where it is held if a ruling has come for it there.

        Between our look at the rulings and the event's safe place at the desk a person may have
        ruled, and the worker that carried out the ruling may not have seen this event. So the look
        is repeated once the event is there: one of the two sees the other. A worker that died in
        between left the event to us: then it comes `again`, when all is ruled.
        """
        paused = await self._pauses.arrived(work)
        if paused is not None:
            return paused
        return await self._see_out(work, ruled, again, await self._driver.arrived(work, ruled))

    def came_out(self, parcel: "Parcel", done: Done) -> None:
        """Settle a delivery whose work is through, or see out what is left to do about it."""
        if done.held or (done.row is not None and done.row.state is State.IN_DOUBT):
            parcel.intake.spawn(partial(self._see_parcel_out, parcel, done))
            return
        self._pauses.count(parcel.work, done)
        parcel.intake.settle(parcel.message, settle_together([done]))

    async def _see_parcel_out(self, parcel: "Parcel", done: Done) -> None:
        message = parcel.message
        done = await self._see_out(parcel.work, parcel.ruled, message.again, done)
        word = settle_together([done])
        if word is not None:
            await self._connection.settle(message, word)

    async def _see_out(self, work: Work, ruled: Ruled, again: bool, done: Done) -> Done:
        """Do what a ruling, or one doubt too many, asks for behind the row."""
        if self._pauses.count(work, done) and done.row is not None:
            await self._pauses.pause(work, done.row)
        if done.held:
            ruled_now = await self._rulings.of(work.event)
            overlooked = ruled_now.ruling is not ruled.ruling
        else:
            overlooked = again and ruled.ruling is not None
        if not overlooked:
            if ruled.ruling is Ruling.SAME and done.settlement is Settlement.ACK:
                await self._seams.close_placeholder(work, ruled)
            return done
        return await self._seams.carry_out(self._seams.place_of(work), work.carrier)

    def _count_unmatched(self, type: str) -> None:
        known = type in self.unmatched or len(self.unmatched) < UNMATCHED_NAMES_MAX
        name = type if known else "(others)"
        if not self.unmatched[name]:
            log.info("no handler takes events of type %r; they are passed over", name)
        self.unmatched[name] += 1


class Parcel:
    """A delivery that asks for no more than its handler's row: the ending of that piece of work."""

    __slots__ = ("deliveries", "intake", "message", "ruled", "work")

    def __init__(
        self, deliveries: Deliveries, intake: Intake, message: Delivery, work: Work, ruled: Ruled
    ) -> None:
        self.deliveries = deliveries
        self.intake = intake
        self.message = message
        self.work = work
        self.ruled = ruled

    def ended(self, done: Done) -> None:
        self.deliveries.came_out(self, done)

    def failed(self, error: BaseException) -> None:
        self.intake.failed(error)


def settle_together(done: list[Done]) -> bytes | None:
    """Return what to tell the broker of an event whose rows settled like this; None: nothing."""
    settlements = {one.settlement for one in done}
    if Settlement.SILENT in settlements:
        return None
    if Settlement.LATER in settlements:
        delay_ms = min(one.delay_ms for one in done if one.settlement is Settlement.LATER)
        return later(delay_ms)
    return ACK


def later(delay_ms: int) -> bytes:
    """Return the word that asks for the message again, no sooner than in `delay_ms`."""
    return b'-NAK {"delay": %d}' % (delay_ms * 1_000_000)
