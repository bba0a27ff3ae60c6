"""Make the sources go on with another ledger than the one that they were begun with.

A ledger that was made again, or restored, does not know everything that was applied. Workers refuse
it until a person says that they know. By default the lineage is then in doubt: it goes on in a
generation of its own that is unverifiable, so that no ruling that was given before speaks for it,
and whatever it brings is asked about.
"""

from typing import Literal

import msgspec

from fencepost.clock import RealWorld
from fencepost.desk.audit import Audit, checked_actor
from fencepost.desk.sweep import Keeper, asked
from fencepost.errors import NotFine
from fencepost.ports import Message, NotStored, Stored, StoredMessage, World
from fencepost.records import read_record
from fencepost_policies.cover import join_gap
from fencepost_policies.lineage import turn
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.standing import Standing
from fencepost_schemas.subject import EVENTS, Subjects
from fencepost_schemas.verdict import EpochRecord, Gap, Verdict

ADOPTER = "ledger adopt"
"""Who wrote the cursor last: a bridge that is fenced by it says so."""
IMPORTING = "importing-"
"""Before the identity of a ledger that an import has not completed."""
TRIES_MAX = 20
_REAL = RealWorld()

Choice = Literal["keep", "doubt"]


class Pinned(msgspec.Struct, frozen=True):
    """A source, the ledger that it is pinned to, and where it stands."""

    source: str
    ledger: str
    generation: str
    standing: Standing
    owner: str


class Unsettled(msgspec.Struct, frozen=True):
    """How many events one app's consumer has not settled, delivered or not."""

    consumer: str
    events: int


class Adoption(msgspec.Struct, frozen=True):
    """What is to be adopted: the ledger, the sources that differ, and what is still on its way."""

    identity: str
    differing: list[Pinned]
    unsettled: list[Unsettled]


def doubted(cursor: Cursor, chance: str) -> Cursor:
    """Return the cursor in a generation of its own that is in doubt, at the same position.

    What proves a resume is kept, for it is the ledger that is doubted, not the source. The seam is
    not: what it counts is published under the generation before.
    """
    turned = turn(cursor, Verdict(Standing.UNVERIFIABLE, ()), None, chance, None).cursor
    return msgspec.structs.replace(
        turned,
        position=cursor.position,
        token=cursor.token,
        ring=cursor.ring,
        fresh=cursor.fresh,
        rebaselined=cursor.rebaselined,
        seam=None,
    )


def record_of(before: Cursor, after: Cursor, at_ms: int) -> EpochRecord:
    """Return the record that opens the generation in doubt."""
    place = str(before.position) if before.position is not None else ""
    return EpochRecord(
        source=after.source,
        generation=after.generation,
        parent=before.generation,
        verdict=Verdict(Standing.UNVERIFIABLE, ()),
        standing=after.standing,
        gap=Gap(before.generation, place, after.generation, "", empty=True),
        join_gap=join_gap(before, None),
        ledger=after.ledger,
        bridge=ADOPTER,
        at_ms=at_ms,
        token=after.token,
        asked=place,
    )


class Pins:
    """Which ledger each source is pinned to."""

    def __init__(self, connection: Keeper, subjects: Subjects, world: World = _REAL) -> None:
        self._connection = connection
        self._subjects = subjects
        self._world = world

    async def all(self) -> list[Pinned]:
        return [_pinned(cursor) for cursor in await self.cursors()]

    async def cursors(self) -> list[Cursor]:
        """Return every source's cursor, by name."""
        subjects = await self._connection.subjects(EVENTS, self._subjects.cursors())
        found = [await self._connection.last(EVENTS, subject) for subject in subjects]
        return [_cursor_in(stored) for stored in found if stored is not None]

    async def adoption(self, identity: str | None) -> Adoption:
        """Return what adopting the ledger of this identity would change.

        Raises NotFine where there is no such ledger yet, or half of one.
        """
        if identity is None:
            raise NotFine("the ledger has no identity: run `fencepost init`")
        if identity.startswith(IMPORTING):
            raise NotFine(
                "an import into this ledger was broken off, so rows may be missing: run "
                "`fencepost ledger import` with the same file again"
            )
        differing = [one for one in await self.all() if one.ledger != identity]
        return Adoption(identity, differing, await self._unsettled())

    async def adopt(self, identity: str, source: str, standing: Choice, actor: str) -> Pinned:
        """Pin one source to this ledger. A bridge that follows it is refused from here on."""
        checked_actor(actor)
        subject = self._subjects.cursor(source)
        for _ in range(TRIES_MAX):
            stored = await self._connection.last(EVENTS, subject)
            if stored is None:
                raise NotFine(f"{source}: its cursor is gone; nothing is pinned")
            before = _cursor_in(stored)
            if before.ledger == identity:
                # Somebody else was faster, or an earlier try of ours came through after all.
                return _pinned(before)
            after = msgspec.structs.replace(before, ledger=identity, owner=ADOPTER)
            if standing == "doubt":
                after = doubted(after, self._world.random_name(8))
            reply = await self._write(before, after, subject, stored.sequence)
            if isinstance(reply, Stored):
                await self._record(before, after, actor)
                return _pinned(after)
            if not reply.conflict and not reply.in_flight:
                raise NotFine(f"{source}: the cursor is not taken: {reply.text} ({reply.error})")
        raise NotFine(f"{source}: its bridge writes all the time: stop the bridge, then try again")

    async def _write(
        self, before: Cursor, after: Cursor, subject: str, revision: int
    ) -> Stored | NotStored:
        message = Message(subject, msgspec.json.encode(after), expect=revision)
        if after.generation == before.generation:
            return await self._connection.store(message)
        record = record_of(before, after, self._world.wall_ms())
        opened = Message(
            self._subjects.epoch(after.source, after.generation),
            msgspec.json.encode(record),
            {"Nats-TTL": "never"},
        )
        return await self._connection.store_batch([opened, message])

    async def _record(self, before: Cursor, after: Cursor, actor: str) -> None:
        audit = Audit(self._connection, self._subjects, self._world)
        detail = (
            f"ledger {before.ledger} -> {after.ledger}, standing {before.standing} -> "
            f"{after.standing}, generation {before.generation} -> {after.generation}"
        )
        await audit.record(actor, "adopted the ledger", before.source, detail)

    async def _unsettled(self) -> list[Unsettled]:
        """Return which apps have events that they have not settled; they keep their standing."""
        found: list[Unsettled] = []
        offset = 0
        while True:
            reply = await asked(
                self._connection, f"CONSUMER.LIST.{EVENTS}", EVENTS, {"offset": offset}
            )
            page = reply.get("consumers") or []
            found += [
                Unsettled(one["name"], one["num_pending"] + one["num_ack_pending"]) for one in page
            ]
            offset += len(page)
            if not page or offset >= reply.get("total", 0):
                return [one for one in found if one.events]


def _pinned(cursor: Cursor) -> Pinned:
    return Pinned(cursor.source, cursor.ledger, cursor.generation, cursor.standing, cursor.owner)


def _cursor_in(stored: StoredMessage) -> Cursor:
    return read_record(stored, Cursor)
