"""The sources that a bridge can follow: of its own file, and those that the broker tells of."""

import logging
from collections.abc import Mapping

import msgspec

from fencepost.errors import UsageError
from fencepost.intentions import checked_table
from fencepost.ports import Broker, StoredMessage
from fencepost.settings import Settings, Source
from fencepost.settings_file import source_headers
from fencepost_schemas.roster import Intention
from fencepost_schemas.subject import SOURCES, Subjects

log = logging.getLogger("fencepost.bridge")


class Known(msgspec.Struct, frozen=True):
    """A source as it is to be followed, and the revision of the intention behind it (0: none)."""

    source: Source
    revision: int = 0


class Catalogue:
    """`refresh` it to learn of what was added, changed, paused or resumed since.

    With `only_these` nothing is added to the sources of the file.
    """

    def __init__(
        self,
        connection: Broker,
        subjects: Subjects,
        settings: Settings,
        sources: Mapping[str, Source],
        *,
        only_these: bool,
    ) -> None:
        self.followable: dict[str, Known] = {name: Known(one) for name, one in sources.items()}
        self.paused: set[str] = set()
        self.unusable: set[str] = set()
        """Told of by the broker in a way that this bridge cannot follow."""
        self._connection = connection
        self._subjects = subjects
        self._settings = settings
        self._own = sources
        self._only_these = only_these
        self._read_to = 0

    @property
    def empty(self) -> bool:
        return not (self.followable or self.paused or self.unusable)

    async def refresh(self) -> None:
        """Read the intentions that were written since the last time."""
        intentions = self._subjects.intentions()
        async for stored in self._connection.scan(SOURCES, intentions, self._read_to + 1):
            self._read_to = stored.sequence
            name = stored.subject.rsplit(".", 1)[1]
            if name in self._own or not self._only_these:
                self._take(name, stored)

    def _take(self, name: str, stored: StoredMessage) -> None:
        self.followable.pop(name, None)
        self.paused.discard(name)
        self.unusable.discard(name)
        try:
            intention = msgspec.json.decode(stored.payload, type=Intention)
            source = self._source_of(name, intention)
        except (msgspec.DecodeError, UsageError) as error:
            log.error("%s: not followed by this bridge: %s", name, error)
            self.unusable.add(name)
            return
        if source is None:
            return
        if intention.paused:
            log.info("%s: paused by %s", name, intention.actor)
            self.paused.add(name)
        else:
            self.followable[name] = Known(source, stored.sequence)

    def _source_of(self, name: str, intention: Intention) -> Source | None:
        """Return the source that is meant, None where it is in the file of other bridges."""
        own = self._own.get(name)
        if own is not None:
            if intention.table is not None:
                log.warning(
                    "%s: is in this bridge's file and on the broker; what the file says counts",
                    name,
                )
            return own
        if intention.table is None:
            return None
        source = checked_table(name, intention.table, self._settings)
        source_headers(name, source)
        return source
