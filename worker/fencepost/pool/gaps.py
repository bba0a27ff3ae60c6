"""Gaps of the sources that this app reconciles: each is work of its own, with a row of its own.

A verdict's record brings them. It is acked when the row of each of its gaps is terminal or parked,
as an event is.
"""

import logging

import msgspec

from fencepost.app import Fencepost
from fencepost.clock import iso_time
from fencepost.errors import UsageError
from fencepost.pool.deliveries import ACK, TERM, Deliveries, later, settle_together
from fencepost.pool.drive import OTHER_RELEASE_MS
from fencepost.pool.work import Ruled, Work, make_work
from fencepost.ports import Broker, Delivery
from fencepost.settings import Source
from fencepost_policies.gaps import gap_event, gaps_in
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.event import KeyScope, headers_of
from fencepost_schemas.question import Held
from fencepost_schemas.subject import EVENTS, LEDGER, BadSubject, Subjects
from fencepost_schemas.verdict import EpochRecord, Gap

log = logging.getLogger("fencepost.pool")


class Gaps:
    def __init__(
        self, app: Fencepost, connection: Broker, subjects: Subjects, deliveries: Deliveries
    ) -> None:
        self._app = app
        self._connection = connection
        self._subjects = subjects
        self._deliveries = deliveries

    async def work_on(self, message: Delivery) -> None:
        """See the gaps of one record through, and settle it."""
        try:
            record = msgspec.json.decode(message.payload, type=EpochRecord)
            if message.subject != self._subjects.epoch(record.source, record.generation):
                raise BadSubject("it does not say what its subject says")
        except msgspec.ValidationError as error:
            log.warning("%s: %s; left to a newer worker", message.subject, error)
            await self._connection.settle(message, later(OTHER_RELEASE_MS))
            return
        except (msgspec.DecodeError, BadSubject) as error:
            log.error("%s: not a verdict's record: %s; passed over", message.subject, error)
            await self._connection.settle(message, TERM)
            return
        made = [self._work(record, gap, message) for gap in gaps_in(record)]
        works = [work for work in made if work is not None]
        if record.early and await self._are_overtaken(record, works):
            works = []
        ruled = Ruled(None, record.generation)
        done = [await self._deliveries.see_through(work, ruled, message.again) for work in works]
        word = settle_together(done) if done else ACK
        if word is not None:
            await self._connection.settle(message, word)

    async def _are_overtaken(self, record: EpochRecord, works: list[Work]) -> bool:
        """Return True for a loss that was told early, and of which a verdict has said more by now.

        Either it was none, or a record with the whole gap follows. What was begun already has a
        row, which is to be brought to its end.
        """
        for work in works:
            if await self._connection.last(LEDGER, work.row_subject) is not None:
                return False
        stored = await self._connection.last(EVENTS, self._subjects.cursor(record.source))
        if stored is None:
            return False
        try:
            cursor = msgspec.json.decode(stored.payload, type=Cursor)
        except msgspec.DecodeError:
            return False  # of a newer release: to call once too often does no harm
        return cursor.loss is None or cursor.generation != record.generation

    def _work(self, record: EpochRecord, gap: Gap, message: Delivery) -> Work | None:
        reconciler = self._app.reconcilers.get(record.source)
        if reconciler is None:
            return None  # it was asked for by another release of this app
        event = gap_event(record, gap, iso_time(record.at_ms))
        carrier = Held(message.subject, headers_of(event), event.payload, self._app.name, "")
        ruled = Ruled(None, record.generation)
        return make_work(reconciler, event, carrier, ruled, self._subjects, message.reply)


def check_reconciled(app: Fencepost, sources: dict[str, Source]) -> None:
    """Raise UsageError where what a reconciler emits could not be told from what a source brings.

    It is told by the ledger's key alone, so that has to name the same work for ever.
    """
    for name, reconciler in app.reconcilers.items():
        source = sources.get(name)
        if source is None:
            if sources:
                log.warning("%s: this configuration has no source %r", reconciler.name, name)
            continue
        takers = [
            handler
            for handler in app.handlers.values()
            if not handler.reconciles and handler.source in (None, name)
        ]
        vouched = source.keys is KeyScope.NONE and all(handler.key for handler in takers)
        if source.keys is not KeyScope.DURABLE and not vouched:
            raise UsageError(
                f'{reconciler.name} reconciles sources.{name}, which says keys = "{source.keys}": '
                "what it fetches could not be told from what the stream brought. It takes "
                'keys = "durable", or "none" and a key= on every handler'
            )
