"""What people wish of the sources: added, changed, paused, resumed, begun anew from another place.

Bridges read it within seconds. Each wish is one record a source, by compare-and-set, so that two
people do not undo each other's without seeing it.
"""

from typing import Any

import msgspec

from fencepost.clock import RealWorld
from fencepost.desk.audit import Audit, checked_actor
from fencepost.desk.sweep import Keeper
from fencepost.errors import NotFine, UsageError
from fencepost.ports import Message, NotStored, Stored, World
from fencepost.records import read_record
from fencepost.storing import store_decided
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.limits import NOTE_CHARS_MAX
from fencepost_schemas.roster import Intention
from fencepost_schemas.subject import EVENTS, SOURCES, BadSubject, Subjects

REBASELINER = "sources rebaseline"
"""Who wrote the cursor last: a bridge that is fenced by it says so."""
TRIES_MAX = 20
_REAL = RealWorld()


class Intended(msgspec.Struct, frozen=True):
    """What is wished of a source now, None where nobody has said anything, and its revision."""

    intention: Intention | None
    revision: int = 0

    @property
    def table(self) -> dict[str, Any] | None:
        return self.intention.table if self.intention is not None else None

    @property
    def paused(self) -> bool:
        return self.intention is not None and self.intention.paused


class Intentions:
    """`configured` are the sources of this command's own file."""

    def __init__(
        self,
        connection: Keeper,
        subjects: Subjects,
        configured: frozenset[str] = frozenset(),
        world: World = _REAL,
    ) -> None:
        self._connection = connection
        self._subjects = subjects
        self._configured = configured
        self._world = world

    async def of(self, source: str) -> Intended:
        try:
            subject = self._subjects.intention(source)
        except BadSubject as error:
            raise UsageError(str(error)) from None
        stored = await self._connection.last(SOURCES, subject)
        if stored is None:
            return Intended(None)
        try:
            intention = msgspec.json.decode(stored.payload, type=Intention)
        except msgspec.DecodeError as error:
            raise NotFine(f"{source}: not an intention that this release knows: {error}") from None
        return Intended(intention, stored.sequence)

    async def check_addable(self, source: str, *, replace: bool) -> None:
        """Raise where a source of this name is there already, and is not to be replaced."""
        if source in self._configured:
            raise UsageError(f"{source} is in the configuration file: change it there")
        there = (await self.of(source)).table is not None
        if there and not replace:
            raise NotFine(f"{source} was added before: --replace changes it")
        if replace and not there:
            raise NotFine(f"{source} was not added before: leave out --replace")

    async def add(
        self, source: str, table: dict[str, Any], actor: str, note: str = "", *, replace: bool
    ) -> Intention:
        """Have bridges follow a source that is in none of their files. A pause stays."""
        await self.check_addable(source, replace=replace)
        now = await self.of(source)
        done = "changed the source" if replace else "added the source"
        return await self._write(now, source, done, actor, note, table=table, paused=now.paused)

    async def pause(self, source: str, actor: str, note: str = "") -> Intention:
        """Have nobody follow a source until it is resumed; its cursor stays where it is."""
        now = await self._known(source)
        if now.paused:
            assert now.intention is not None
            raise NotFine(f"{source} is paused already, by {now.intention.actor!r}")
        return await self._write(now, source, "paused the source", actor, note, paused=True)

    async def resume(self, source: str, actor: str, note: str = "") -> Intention:
        """Have a source followed again that was paused, or that stopped by itself."""
        now = await self._known(source)
        return await self._write(now, source, "resumed the source", actor, note, paused=False)

    async def rebaseline(self, source: str, start: str, actor: str, note: str) -> Cursor:
        """Have a source go on from another place, in a generation of its own.

        The next connection asks from `start`, and is `reoriginated` whatever it brings; what may
        be missing in between is in its gap. Until then another rebaseline only changes the place.
        """
        checked_actor(actor)
        await self._known(source)
        for _ in range(TRIES_MAX):
            before, revision = await self._cursor(source)
            after = msgspec.structs.replace(
                before,
                owner=REBASELINER,
                fresh=True,
                start=start,
                # A source that has brought nothing yet simply begins elsewhere.
                rebaselined=before.rebaselined or not before.fresh,
            )
            message = Message(
                self._subjects.cursor(source), msgspec.json.encode(after), expect=revision
            )
            reply = await self._connection.store(message)
            if isinstance(reply, Stored):
                # A bridge that follows it has to begin anew, before it is refused by the cursor.
                told = f"from {start!r}, {before.generation} {before.position or '(nothing)'}"
                detail = f"{told}: {note}"
                done, now = "rebaselined the source", await self.of(source)
                await self._write(now, source, done, actor, detail, paused=now.paused)
                return after
            if not reply.conflict and not reply.in_flight:
                raise NotFine(f"{source}: the cursor is not taken: {reply.text} ({reply.error})")
        raise NotFine(f"{source}: its bridge writes all the time: pause it, then try again")

    async def _known(self, source: str) -> Intended:
        """Return what is wished of a source; raise NotFine where there is no such source."""
        now = await self.of(source)
        if now.intention is not None or source in self._configured:
            return now
        if await self._connection.last(EVENTS, self._subjects.cursor(source)) is None:
            raise NotFine(f"there is no source {source}: see `fencepost sources ls`")
        return now

    async def _cursor(self, source: str) -> tuple[Cursor, int]:
        stored = await self._connection.last(EVENTS, self._subjects.cursor(source))
        if stored is None:
            raise NotFine(f"{source}: not begun yet: run `fencepost init` once")
        return read_record(stored, Cursor), stored.sequence

    async def _write(
        self,
        now: Intended,
        source: str,
        done: str,
        actor: str,
        note: str,
        *,
        paused: bool,
        table: dict[str, Any] | None = None,
    ) -> Intention:
        """Write an intention behind the one that was read, and the audit of it."""
        intention = Intention(
            source=source,
            actor=checked_actor(actor),
            at_ms=self._world.wall_ms(),
            table=table if table is not None else now.table,
            paused=paused,
            note=note[:NOTE_CHARS_MAX].encode("utf-8", "replace").decode(),
        )
        message = Message(
            self._subjects.intention(source), msgspec.json.encode(intention), expect=now.revision
        )
        reply = await store_decided(self._connection, message)
        if isinstance(reply, NotStored):
            if reply.conflict:
                raise NotFine(f"{source} was changed by somebody else just now: look at it again")
            raise NotFine(f"{source}: it is not taken: {reply.text} ({reply.error})")
        audit = Audit(self._connection, self._subjects, self._world)
        await audit.record(actor, done, source, note)
        return intention
