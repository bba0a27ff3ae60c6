"""Carry a ruling out for one event that is held under a seam."""

import logging

from fencepost.app import Fencepost
from fencepost.pool.ask import Desk, held_subject
from fencepost.pool.case import Done
from fencepost.pool.drive import OTHER_RELEASE_MS, Driver
from fencepost.pool.rulings import Rulings
from fencepost.pool.work import Ruled, Work, make_work
from fencepost_policies.plan import Settlement
from fencepost_schemas.event import BadEvent, event_of
from fencepost_schemas.question import Held, Ruling
from fencepost_schemas.row import State
from fencepost_schemas.subject import Subjects

log = logging.getLogger("fencepost.pool")


class Seams:
    def __init__(
        self,
        app: Fencepost,
        subjects: Subjects,
        rulings: Rulings,
        driver: Driver,
        desk: Desk,
    ) -> None:
        self._app = app
        self._subjects = subjects
        self._rulings = rulings
        self._driver = driver
        self._desk = desk

    def mine(self, held: Held) -> bool:
        """Return True if this app held the event, and has to see it through."""
        return held.app == self._app.name

    async def work_of(self, held: Held, reply: str = "") -> Work | Done:
        """Return the work that is kept in this app's event, or how to settle what cannot be one.

        A handler that is not there may be known to another worker of this app, one that was
        deployed before or after us.
        """
        handler = self._app.handlers.get(held.handler)
        if handler is None:
            log.warning("%r: no such handler here; left to another worker", held.handler)
            return Done(Settlement.LATER, OTHER_RELEASE_MS)
        try:
            event = event_of(held.headers, held.payload)
        except BadEvent as error:
            log.error("an event held for %s: %s; it is passed over", handler.name, error)
            return Done(Settlement.ACK)
        ruled = await self._rulings.of(event)
        return make_work(handler, event, held, ruled, self._subjects, reply)

    async def ruled_on(self, work: Work) -> Ruled:
        """Return what holds for the generation of this work's event."""
        return await self._rulings.of(work.event)

    def place_of(self, work: Work) -> str:
        """Return where this work's event is held, or would be, as long as nothing is ruled."""
        return held_subject(self._subjects, self._under(work, Ruled(None, work.event.generation)))

    async def carry_out(self, subject: str, held: Held, reply: str = "") -> Done:
        """Bring an event that this app held to its row, under what was ruled.

        `subject` is where it is held, `reply` where to say that this is going on. It is released
        once something else carries its bytes, or nothing has to: its row is terminal, or in doubt
        and asked about by itself.
        """
        work = await self.work_of(held, reply)
        if isinstance(work, Done):
            return work
        ruled = await self._rulings.of(work.event)
        done = await self._driver.arrived(work, ruled)
        settled = done.row is not None and (
            done.row.state.terminal or done.row.state is State.IN_DOUBT
        )
        if done.settlement is not Settlement.ACK or not settled:
            return done
        await self.close_placeholder(work, ruled)
        await self._desk.release(subject, held)
        return done

    async def close_placeholder(self, work: Work, ruled: Ruled) -> None:
        """Deny the row under which the event waited, now that it was settled under another key.

        That is so where a person ruled that the stream went on: then an event without a key of its
        own is known by its place in the generation before the seam. A worker may have written that
        row and died before it held the event, so it is looked for wherever the keys differ.
        """
        if self.place_of(work) == held_subject(self._subjects, work):
            return
        discarded = Ruled(Ruling.DISCARD, work.event.generation, ruled.actor)
        placeholder = self._under(work, discarded)
        if await self._driver.stands(placeholder):
            await self._driver.arrived(placeholder, discarded)

    def _under(self, work: Work, ruled: Ruled) -> Work:
        return make_work(work.handler, work.event, work.carrier, ruled, self._subjects)
