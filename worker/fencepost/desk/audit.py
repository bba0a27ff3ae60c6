"""The audit of what people do at the desk: who did what, to what, and when."""

import msgspec

from fencepost.errors import NotFine, UsageError
from fencepost.ports import Broker, Message, Stored, World
from fencepost_schemas.limits import NOTE_CHARS_MAX
from fencepost_schemas.question import AuditEntry
from fencepost_schemas.subject import Subjects

WRITER = "desk"


def checked_actor(actor: str) -> str:
    """Return the name; raise UsageError for one that a terminal would not show as it is."""
    if not actor.strip() or not actor.isprintable():
        raise UsageError(f"{actor!r} is no name for who does this: use printable characters")
    return actor


class Audit:
    def __init__(self, connection: Broker, subjects: Subjects, world: World) -> None:
        self._connection = connection
        self._subjects = subjects
        self._world = world

    async def record(self, actor: str, action: str, subject: str, detail: str = "") -> AuditEntry:
        """Write down what was done; raise NotFine where that was not taken."""
        entry = AuditEntry(
            actor=actor,
            action=action,
            subject=subject,
            at_ms=self._world.wall_ms(),
            detail=detail[:NOTE_CHARS_MAX].encode("utf-8", "replace").decode(),
        )
        message = Message(self._subjects.audit(WRITER), msgspec.json.encode(entry))
        reply = await self._connection.store(message)
        if not isinstance(reply, Stored):
            raise NotFine(f"{action}: it is done, but its audit record was not taken: {reply.text}")
        return entry
