"""Which bridge follows which source: each one is followed by one, and all have about as many.

Every bridge decides by the same record and comes to the same answer; it writes down only what
concerns itself, by compare-and-set. So a source changes hands in two steps: whoever has it lets it
go, then the other takes it.
"""

from collections.abc import Mapping

import msgspec

from fencepost_schemas.roster import Member, Roster, Stop
from fencepost_schemas.subject import digest_token


class Settled(msgspec.Struct, frozen=True):
    """The roster that a bridge wants to write, and what is its own under it.

    `follow` may be followed once that stands; what runs here and is not in it has to be let go.
    """

    roster: Roster
    follow: frozenset[str]


def shares(offers: Mapping[str, frozenset[str]], owners: Mapping[str, str]) -> dict[str, str]:
    """Return the rightful bridge of each source that anybody offers to follow.

    Whoever has a source keeps it, unless another that offers it has at least two fewer. So one
    that joins gets its part from those who have most, what one leaves behind is divided among the
    others, and nothing else moves.
    """
    held: dict[str, set[str]] = {bridge: set() for bridge in offers}
    for source, owner in owners.items():
        if source in offers.get(owner, ()):
            held[owner].add(source)
    taken = frozenset[str]().union(*held.values())
    for source in sorted(frozenset[str]().union(*offers.values()) - taken):
        able = [bridge for bridge in offers if source in offers[bridge]]
        held[min(able, key=lambda one: (len(held[one]), _weight(source, one)))].add(source)
    while (move := _fairer(offers, held)) is not None:
        source, giver, taker = move
        held[giver].remove(source)
        held[taker].add(source)
    return {source: bridge for bridge, sources in held.items() for source in sources}


def settle(
    roster: Roster,
    me: Member,
    now_ms: int,
    *,
    known: Mapping[str, int],
    running: frozenset[str] = frozenset(),
    stopped: Mapping[str, str] = {},
) -> Settled:
    """Return the roster with this bridge's own part of it brought up to date.

    `me` names the bridge and its new lease. `known` are the sources that it can follow, with the
    revision of the intention that it knows of each, `running` what it does follow, `stopped` why
    it had to stop some. A bridge that joins tries once more what others had to stop.
    """
    living = {name: one for name, one in roster.members.items() if one.lease_until_ms > now_ms}
    joins = me.bridge not in roster.members
    stops = {
        source: stop for source, stop in roster.stops.items() if not (joins and source in known)
    }
    for source, reason in stopped.items():
        if source in known:
            stops[source] = Stop(reason, me.bridge, now_ms, known[source])
    for source, revision in known.items():
        if source in stops and stops[source].revision < revision:
            # Somebody has acted since.
            del stops[source]
    offers = tuple(sorted(source for source in known if source not in stops))
    members = {**living, me.bridge: msgspec.structs.replace(me, offers=offers)}
    # What is written down as ours and was let go meanwhile is anybody's: it is the first to move.
    owners = {
        source: owner
        for source, owner in roster.claims.items()
        if owner in members and (owner != me.bridge or source in running)
    }
    rightful = shares({name: frozenset(one.offers) for name, one in members.items()}, owners)
    claims = {source: owner for source, owner in owners.items() if owner != me.bridge}
    follow = frozenset(
        source for source, owner in rightful.items() if owner == me.bridge and source not in claims
    )
    leaving = frozenset(source for source in running if owners.get(source) == me.bridge)
    claims |= dict.fromkeys(sorted(follow | leaving), me.bridge)
    return Settled(Roster(members, claims, stops), follow)


def without(roster: Roster, bridge: str) -> Roster:
    """Return the roster once this bridge is gone: what it followed is anybody's."""
    return Roster(
        {name: one for name, one in roster.members.items() if name != bridge},
        {source: owner for source, owner in roster.claims.items() if owner != bridge},
        roster.stops,
    )


def renewed_only(before: Roster, after: Roster) -> bool:
    """Return True where nothing but the end of leases differs."""
    return _timeless(before) == _timeless(after)


def owner_of(roster: Roster, source: str, now_ms: int) -> str:
    """Return the living bridge that follows a source, "" where there is none."""
    member = roster.members.get(roster.claims.get(source, ""))
    return member.bridge if member is not None and member.lease_until_ms > now_ms else ""


def _fairer(
    offers: Mapping[str, frozenset[str]], held: Mapping[str, set[str]]
) -> tuple[str, str, str] | None:
    """Return the move (source, from, to) between the two that differ most, by two at least."""
    poorest_first = sorted(held, key=lambda one: (len(held[one]), one))
    for giver in reversed(poorest_first):
        for taker in poorest_first:
            if len(held[giver]) - len(held[taker]) < 2:
                break
            movable = held[giver] & offers[taker]
            if movable:
                return min(movable, key=lambda one: _weight(one, taker)), giver, taker
    return None


def _weight(source: str, bridge: str) -> str:
    """Return what breaks a tie, the same for every bridge and different for every source."""
    return digest_token(source, bridge)


def _timeless(roster: Roster) -> Roster:
    members = {
        name: msgspec.structs.replace(one, lease_until_ms=0) for name, one in roster.members.items()
    }
    return Roster(members, roster.claims, roster.stops)
