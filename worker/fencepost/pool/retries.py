"""Retries that are far off: they wait in a stream of their own.

Left with the broker as a delayed delivery, each would take one of the app's places for unacked
messages, and enough of them would stop the app. Here they take places that only they use.
"""

import logging

import msgspec

from fencepost.pool.case import Done
from fencepost.pool.clock import BrokerClock
from fencepost.pool.deliveries import TERM, Deliveries, later, settle_together
from fencepost.pool.drive import OTHER_RELEASE_MS
from fencepost.pool.rulings import Rulings
from fencepost.pool.seams import Seams
from fencepost.ports import Broker, Delivery
from fencepost_schemas.question import Parked

log = logging.getLogger("fencepost.pool")


class Retries:
    def __init__(
        self,
        connection: Broker,
        clock: BrokerClock,
        rulings: Rulings,
        deliveries: Deliveries,
        seams: Seams,
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._rulings = rulings
        self._deliveries = deliveries
        self._seams = seams

    async def work_on(self, message: Delivery) -> None:
        """Bring a parked event back to its row once it is due, and settle it."""
        try:
            parked = msgspec.json.decode(message.payload, type=Parked)
        except msgspec.ValidationError as error:
            log.warning("%s: %s; left to a newer worker", message.subject, error)
            await self._connection.settle(message, later(OTHER_RELEASE_MS))
            return
        except msgspec.DecodeError as error:
            log.error("%s: not a parked event: %s; it is passed over", message.subject, error)
            await self._connection.settle(message, TERM)
            return
        early_ms = parked.due_ms - self._clock.now_ms()
        if early_ms > 0:
            await self._connection.settle(message, later(early_ms))
            return
        work = await self._seams.work_of(parked.event, message.reply)
        if isinstance(work, Done):
            done = work
        else:
            ruled = await self._rulings.of(work.event)
            done = await self._deliveries.see_through(work, ruled, message.again)
        word = settle_together([done])
        if word is not None:
            await self._connection.settle(message, word)
