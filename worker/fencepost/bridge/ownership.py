"""This bridge's part of the roster: that it lives, and which sources it has.

The roster keeps bridges from following a source twice. It is a matter of manners: what holds, even
against a bridge that was frozen and does not know how late it is, is the compare-and-set on the
source's cursor.
"""

import asyncio
import logging
from collections.abc import Mapping

import msgspec

from fencepost.errors import NotFine, Unreachable, Unreadable
from fencepost.ports import Broker, Message, NotStored, Stored, World
from fencepost.records import read_record
from fencepost.settings import Bridge
from fencepost.storing import store_decided
from fencepost_policies.ownership import renewed_only, settle, without
from fencepost_policies.retry import WaitBounds
from fencepost_schemas.roster import Member, Roster
from fencepost_schemas.subject import SOURCES, Subjects

log = logging.getLogger("fencepost.bridge")

LEAVE_S = 2.0
"""Longest try to say goodbye; a bridge that did not is missed once its lease is over."""
_AGAIN = WaitBounds(0.0, 0.05)
"""Before reading the roster again that another bridge has just written."""


class Ownership:
    def __init__(
        self,
        connection: Broker,
        subjects: Subjects,
        bridge: str,
        settings: Bridge,
        world: World,
    ) -> None:
        self.roster = Roster()
        """As it stood at the last look."""
        self._connection = connection
        self._subject = subjects.roster()
        self._bridge = bridge
        self._lease_s = settings.lease_s
        self._renew_s = settings.renew_s
        self._world = world
        self._renew_at_s = world.monotonic_s()

    async def look(
        self, known: Mapping[str, int], running: frozenset[str], stopped: Mapping[str, str]
    ) -> frozenset[str]:
        """Bring our part of the roster up to date, and return which sources are ours to follow.

        `known` are those that we can follow with the revision of what is wished of each,
        `running` those that we follow, `stopped` why we stopped some. Raises Unreachable where
        the broker does not say.
        """
        while True:
            roster, revision = await self._read()
            now_ms = await self._connection.clock_ms(SOURCES)
            me = Member(self._bridge, now_ms + int(self._lease_s * 1000))
            settled = settle(roster, me, now_ms, known=known, running=running, stopped=stopped)
            self.roster = settled.roster
            due_s = self._world.monotonic_s()
            if due_s < self._renew_at_s and renewed_only(roster, settled.roster):
                return settled.follow
            if await self._write(settled.roster, revision):
                self._renew_at_s = due_s + self._renew_s
                return settled.follow
            await asyncio.sleep(self._world.draw_s(_AGAIN))

    async def leave(self) -> None:
        """Give up all that is ours, so that nobody has to wait for the end of a lease."""
        try:
            async with asyncio.timeout(LEAVE_S):
                while True:
                    roster, revision = await self._read()
                    if self._bridge not in roster.members:
                        return
                    if await self._write(without(roster, self._bridge), revision):
                        return
                    await asyncio.sleep(self._world.draw_s(_AGAIN))
        except (TimeoutError, Unreachable, NotFine) as error:
            log.info("the other bridges will wait for the end of our lease: %s", error)

    async def _read(self) -> tuple[Roster, int]:
        stored = await self._connection.last(SOURCES, self._subject)
        if stored is None:
            return Roster(), 0
        try:
            return read_record(stored, Roster), stored.sequence
        except Unreadable as error:
            # It says who follows what, and no more: the cursors keep bridges apart without it.
            log.error("%s; the roster is written anew", error)
            return Roster(), stored.sequence

    async def _write(self, roster: Roster, revision: int) -> bool:
        """Return True if it stands, False where another bridge was faster."""
        message = Message(self._subject, msgspec.json.encode(roster), expect=revision)
        reply = await store_decided(self._connection, message)
        if isinstance(reply, NotStored) and not reply.conflict:
            raise Unreachable(f"the roster is not taken: {reply.text} ({reply.error})")
        return isinstance(reply, Stored)
