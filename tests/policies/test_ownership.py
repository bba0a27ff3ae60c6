"""Proves that each source has one rightful bridge among the living, and seldom another one."""

from collections import Counter
from collections.abc import Mapping

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost_policies.ownership import owner_of, renewed_only, settle, shares, without
from fencepost_schemas.roster import Member, Roster, Stop

ANY = settings(deadline=None, max_examples=150)
NOW = 1_000_000
LEASE = 5_000
LOOKS = 3
"""By then nothing changes hands any more."""

bridges = st.sets(st.sampled_from([f"bridge-{letter}" for letter in "abcdefgh"]), min_size=1)
sources = st.sets(st.sampled_from([f"source-{number}" for number in range(24)]))
owners = st.dictionaries(
    st.sampled_from([f"source-{number}" for number in range(24)]),
    st.sampled_from([f"bridge-{letter}" for letter in "abcdefgh"]),
)


def offers_of(names: set[str], offered: set[str]) -> dict[str, frozenset[str]]:
    return {name: frozenset(offered) for name in names}


@ANY
@given(names=bridges, offered=sources, before=owners)
def test_each_source_has_one_bridge_and_all_have_about_as_many(
    names: set[str], offered: set[str], before: Mapping[str, str]
) -> None:
    """Whoever had it, living or not: none is left out, and no two bridges differ by two."""
    rightful = shares(offers_of(names, offered), before)
    assert offered == set(rightful)
    assert set(rightful.values()) <= names
    counts = Counter({name: 0 for name in names} | Counter(rightful.values()))
    assert max(counts.values()) - min(counts.values()) <= 1


@ANY
@given(names=bridges, offered=sources, before=owners)
def test_what_was_divided_stays_as_it_is(
    names: set[str], offered: set[str], before: Mapping[str, str]
) -> None:
    """A second look moves nothing: the bridges do not play with the sources."""
    rightful = shares(offers_of(names, offered), before)
    assert rightful == shares(offers_of(names, offered), rightful)


@ANY
@given(names=bridges, offered=sources, before=owners)
def test_one_that_joins_takes_its_part_and_nothing_else_moves(
    names: set[str], offered: set[str], before: Mapping[str, str]
) -> None:
    """What changes hands goes to the new one."""
    balanced = shares(offers_of(names, offered), before)
    joined = shares(offers_of(names | {"bridge-z"}, offered), balanced)
    assert {"bridge-z"} >= {to for source, to in joined.items() if balanced[source] != to}


@ANY
@given(names=bridges, offered=sources, before=owners, chosen=st.integers(min_value=0))
def test_what_one_leaves_behind_is_all_that_moves(
    names: set[str], offered: set[str], before: Mapping[str, str], chosen: int
) -> None:
    """Every source of the others stays with them."""
    names = names | {"bridge-z"}
    balanced = shares(offers_of(names, offered), before)
    gone = sorted(names)[chosen % len(names)]
    left = shares(offers_of(names - {gone}, offered), balanced)
    moved = {source for source in offered if left[source] != balanced[source]}
    assert moved == {source for source in offered if balanced[source] == gone}


@ANY
@given(
    offers=st.dictionaries(
        st.sampled_from([f"bridge-{letter}" for letter in "abcd"]),
        st.frozensets(st.sampled_from([f"source-{number}" for number in range(10)])),
    ),
    before=owners,
)
def test_nobody_gets_what_it_cannot_follow(
    offers: dict[str, frozenset[str]], before: Mapping[str, str]
) -> None:
    """Bridges that know different sources: each one goes to one that offers it."""
    rightful = shares(offers, before)
    assert set().union(*offers.values()) == set(rightful)
    assert all(source in offers[bridge] for source, bridge in rightful.items())


# --- the roster
def member(name: str, *offers: str, until_ms: int = NOW + LEASE) -> Member:
    return Member(name, until_ms, offers)


def look(
    roster: Roster, name: str, *known: str, running: tuple[str, ...] = (), **more: str
) -> tuple[Roster, set[str]]:
    """Return what a bridge writes at NOW, and follows; `more` are sources with why they stopped."""
    settled = settle(
        roster,
        member(name),
        NOW,
        known=dict.fromkeys(known, 0),
        running=frozenset(running),
        stopped=more,
    )
    return settled.roster, set(settled.follow)


BOTH = {"a": member("a", "x", "y"), "b": member("b", "x", "y")}


@pytest.mark.parametrize(
    ("roster", "running", "follow", "claims"),
    [
        (Roster(), (), {"x", "y"}, {"x": "a", "y": "a"}),
        (Roster(BOTH, {"x": "b", "y": "a"}), ("y",), {"y"}, {"x": "b", "y": "a"}),
        # It lives, but its lease is over: what it had is ours.
        (
            Roster({"b": member("b", "x", "y", until_ms=NOW)}, {"x": "b", "y": "b"}),
            (),
            {"x", "y"},
            {"x": "a", "y": "a"},
        ),
        # The other one has two and we none: it has to let one go before anybody takes it.
        (Roster(BOTH, {"x": "b", "y": "b"}), (), set(), {"x": "b", "y": "b"}),
        # We have both, and one is to go: it is ours in the record until it runs no more.
        (Roster(BOTH, {"x": "a", "y": "a"}), ("x", "y"), 1, {"x": "a", "y": "a"}),
        (Roster(BOTH, {"x": "a", "y": "a"}), (), 1, 1),
        # Our own lease was over and somebody took what we had: it is not ours while it runs.
        (Roster({"b": BOTH["b"]}, {"x": "b", "y": "b"}), ("x", "y"), set(), {"x": "b", "y": "b"}),
        # A claim of one that is nowhere among the members.
        (Roster(claims={"x": "gone"}), (), {"x", "y"}, {"x": "a", "y": "a"}),
    ],
    ids=["alone", "shared", "dead", "too many there", "too many here", "let go", "woken", "nobody"],
)
def test_a_look(
    roster: Roster, running: tuple[str, ...], follow: set[str] | int, claims: dict[str, str] | int
) -> None:
    """What bridge `a`, which can follow x and y, writes and follows; or how many of them."""
    written, ours = look(roster, "a", "x", "y", running=running)
    assert follow == (len(ours) if isinstance(follow, int) else ours)
    assert claims == (len(written.claims) if isinstance(claims, int) else written.claims)
    assert ours <= {source for source, owner in written.claims.items() if owner == "a"}


@ANY
@given(
    names=st.lists(st.sampled_from("abcd"), min_size=1, max_size=40), offered=sources, before=owners
)
def test_no_source_is_ever_followed_by_two(
    names: list[str], offered: set[str], before: dict[str, str]
) -> None:
    """Bridges look in any order, each lets go what it has to; and in the end all are followed.

    Nobody takes back what it has let go: a source changes hands once.
    """
    roster = Roster(claims=before)
    running: dict[str, set[str]] = {name: set() for name in "abcd"}
    let_go: dict[str, set[str]] = {name: set() for name in "abcd"}
    for name in [*names, *(sorted(set(names)) * LOOKS)]:
        roster, ours = look(roster, name, *offered, running=tuple(running[name]))
        assert not ours & let_go[name]
        let_go[name] |= running[name] - ours
        running[name] = ours
        followed = Counter(source for own in running.values() for source in own)
        assert set(followed.values()) <= {1}
    assert set().union(*running.values()) == offered
    counts = [len(running[name]) for name in set(names)]
    assert max(counts) - min(counts) <= 1


def test_a_source_that_stopped_is_left_alone() -> None:
    """By the one that stopped it and by the other: until something new is wished of it."""
    roster, ours = look(Roster(BOTH, {"x": "a", "y": "b"}), "a", "x", "y", x="answered 401")
    assert (set(), {"y": "b"}) == (ours, roster.claims)
    assert Stop("answered 401", "a", NOW) == roster.stops["x"]
    roster, ours = look(roster, "b", "x", "y", running=("y",))
    assert ({"y"}, ("y",)) == (ours, roster.members["b"].offers)
    acted = settle(roster, member("b"), NOW, known={"x": 7, "y": 0}, running=frozenset({"y"}))
    assert {} == acted.roster.stops
    assert "x" in acted.roster.members["b"].offers


def test_one_that_joins_tries_it_once_more() -> None:
    """Only what it can follow itself, and only once: its own stop counts again."""
    stops = {"x": Stop("401", "b", NOW), "other": Stop("404", "b", NOW)}
    roster, ours = look(Roster({"b": BOTH["b"]}, stops=stops), "a", "x")
    assert ({"x"}, {"other"}) == (ours, set(roster.stops))
    roster, ours = look(roster, "a", "x", x="401 again")
    assert (set(), "401 again") == (ours, roster.stops["x"].reason)
    assert set() == look(roster, "a", "x")[1]


def test_a_stop_of_a_source_that_is_not_known_any_more() -> None:
    """It was taken out of the file meanwhile: nothing is written of it."""
    roster, _ = look(Roster(), "a", "y", x="too late")
    assert {} == roster.stops


def test_leaving() -> None:
    """All that it had is anybody's, and nothing else changes."""
    left = without(Roster(BOTH, {"x": "a", "y": "b"}, {"z": Stop("401", "a", NOW)}), "a")
    assert ({"b"}, {"y": "b"}, {"z"}) == (set(left.members), left.claims, set(left.stops))


def test_a_renewal_is_told_from_a_change() -> None:
    """Only leases may wait for their time."""
    roster = Roster(BOTH, {"x": "a"})
    later = {name: msgspec.structs.replace(one, lease_until_ms=9) for name, one in BOTH.items()}
    assert renewed_only(roster, Roster(later, {"x": "a"}))
    assert not renewed_only(roster, Roster(later, {"x": "b"}))
    assert not renewed_only(roster, Roster({"a": BOTH["a"]}, {"x": "a"}))
    assert not renewed_only(roster, Roster({**BOTH, "b": member("b", "x")}, {"x": "a"}))


def test_who_follows() -> None:
    """Nobody without a claim, and nobody whose lease is over."""
    roster = Roster({"a": BOTH["a"], "b": member("b", until_ms=NOW)}, {"x": "a", "y": "b"})
    assert ["a", "", ""] == [owner_of(roster, source, NOW) for source in "xyz"]
