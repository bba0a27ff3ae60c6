"""Who follows which source, and what people wish to be followed."""

from typing import Any

import msgspec


class Member(msgspec.Struct, frozen=True):
    """A bridge that lives until its lease ends, by the broker's clock.

    `offers` names the sources that it can follow: it knows them, and has what they need.
    """

    bridge: str
    lease_until_ms: int
    offers: tuple[str, ...] = ()


class Stop(msgspec.Struct, frozen=True):
    """Why nobody follows a source: it cannot be, until somebody acts.

    It counts for the `revision` of the source's intention under which it came (0: none).
    """

    reason: str
    bridge: str
    at_ms: int
    revision: int = 0


class Roster(msgspec.Struct, frozen=True):
    """One record for all bridges, rewritten by compare-and-set: its members by name, and by source
    which of them follows it, and why nobody does.
    """

    members: dict[str, Member] = {}
    claims: dict[str, str] = {}
    stops: dict[str, Stop] = {}


class Intention(msgspec.Struct, frozen=True):
    """What somebody wishes of one source; the newest counts.

    `table` is the source's configuration as a TOML file would have it, None where the source is
    in the bridges' own file. It never holds a secret, only the names of variables that do. Each
    new intention has the bridge that follows the source begin anew from its cursor.
    """

    source: str
    actor: str
    at_ms: int
    table: dict[str, Any] | None = None
    paused: bool = False
    note: str = ""
