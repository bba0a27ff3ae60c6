"""Carry a ruling out for one event that is held under a seam."""

from fencepost.app import Fencepost
from fencepost.pool.ask import Desk, held_subject
from fencepost.pool.drive import Done, Driver
from fencepost.pool.rulings import Rulings
from fencepost.pool.work import Ruled, Work, make_work
from fencepost_policies.plan import Settlement
from fencepost_schemas.event import event_of
from fencepost_schemas.question import Held, Ruling
from fencepost_schemas.subject import Subjects


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

    async def work_of(self, held: Held) -> Work | None:
        """Return the work that is kept in a held event, None where it is another app's."""
        handler = self._app.handlers.get(held.handler)
        if held.app != self._app.name or handler is None:
            return None
        event = event_of(held.headers, held.payload)
        return make_work(handler, event, held, await self._rulings.of(event), self._subjects)

    async def carry_out(self, subject: str, held: Held) -> Done | None:
        """Bring a held event to its row under what was ruled; None where it is another app's.

        `subject` is where it is held. It is released once its row is terminal.
        """
        work = await self.work_of(held)
        if work is None:
            return None
        ruled = await self._rulings.of(work.event)
        done = await self._driver.arrived(work, ruled)
        terminal = done.row is not None and done.row.state.terminal
        if done.settlement is not Settlement.ACK or not terminal:
            return done
        if subject != held_subject(self._subjects, work):
            await self._close_placeholder(work, ruled)
        await self._desk.release(subject, held)
        return done

    async def _close_placeholder(self, work: Work, ruled: Ruled) -> None:
        """Deny the row under which the event waited, now that it was settled under another key.

        That is so where a person ruled that the stream went on: then an event without a key of its
        own is known by its place in the generation before the seam.
        """
        discarded = Ruled(Ruling.DISCARD, work.event.generation, ruled.actor)
        placeholder = make_work(work.handler, work.event, work.carrier, discarded, self._subjects)
        await self._driver.arrived(placeholder, discarded)
