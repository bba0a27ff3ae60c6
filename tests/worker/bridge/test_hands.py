"""What becomes of a source whose follower ends: begun again, stopped, or the end of all."""

import asyncio

import pytest

from fencepost.bridge.catalogue import Known
from fencepost.bridge.hands import Hands
from fencepost.clock import RealWorld
from fencepost.errors import Denied, Fenced, SourceStopped, Unreachable, UsageError
from fencepost.settings import Bridge, Source
from fencepost_policies.retry import WaitBounds
from fencepost_schemas.event import KeyScope
from kit.wait import until

KNOWN = Known(Source(url="http://127.0.0.1:9/x", keys=KeyScope.NONE))
OTHER = Known(KNOWN.source, revision=7)
SETTINGS = Bridge(retry_first_s=1.0, retry_longest_s=8.0, healthy_s=10.0)


class Told(RealWorld):
    """A world whose clock stands until it is moved; waits are the longest."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic_s(self) -> float:
        return self.now_s

    def draw_s(self, bounds: WaitBounds) -> float:
        return bounds.most_s


class Followers:
    """Follows by hand: `end` one with an error."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []
        self._ends: dict[str, asyncio.Future[None]] = {}

    async def follow(self, name: str, source: Source) -> None:
        self.begun.append(name)
        self._ends[name] = asyncio.get_running_loop().create_future()
        try:
            await self._ends[name]
        finally:
            self.ended.append(name)

    def end(self, name: str, error: Exception) -> None:
        self._ends[name].set_exception(error)


async def _begun(followers: Followers, count: int) -> None:
    await until(lambda: len(followers.begun) >= count, f"{count} that are begun")


async def test_holding_and_letting_go() -> None:
    """What is wanted runs once, what is not is let go, what changed begins anew."""
    followers, world = Followers(), Told()
    hands = Hands(followers.follow, SETTINGS, world)
    assert not await hands.hold({"a": KNOWN, "b": KNOWN})
    await _begun(followers, 2)
    assert not await hands.hold({"a": KNOWN, "b": KNOWN})
    assert {"a", "b"} == hands.running
    assert await hands.hold({"a": KNOWN}), "b is nobody's now, and that is to be told"
    assert (["b"], frozenset("a")) == (followers.ended, hands.running)
    assert not await hands.hold({"a": OTHER}), "it stays here"
    await _begun(followers, 3)
    assert (["b", "a"], ["a", "b", "a"]) == (followers.ended, followers.begun)
    await hands.let_go()
    assert (["b", "a", "a"], frozenset()) == (followers.ended, hands.running)


@pytest.mark.parametrize("error", [Fenced("overtaken"), Unreachable("no reply")])
async def test_one_that_was_overtaken_rests_longer_each_time(error: Exception) -> None:
    """It is not begun again before its time, however often somebody looks."""
    followers, world = Followers(), Told()
    hands = Hands(followers.follow, SETTINGS, world)
    for number, rest_s in enumerate((1.0, 2.0, 4.0, 8.0, 8.0), 1):
        await hands.hold({"a": KNOWN})
        await _begun(followers, number)
        followers.end("a", error)
        await hands.wait(5.0)
        assert {"a"} == hands.running, "it is nobody else's to take"
        await hands.hold({"a": KNOWN})
        world.now_s += rest_s - 0.1
        await hands.hold({"a": KNOWN})
        assert number == len(followers.begun)
        world.now_s += 0.1
    # After a healthy time the first rest is short again, and it is forgotten with the source.
    await hands.hold({"a": KNOWN})
    await _begun(followers, 6)
    world.now_s += SETTINGS.healthy_s
    followers.end("a", error)
    await hands.wait(5.0)
    await hands.hold({})
    await hands.hold({"a": KNOWN})
    await _begun(followers, 7)
    await hands.let_go()
    assert {} == hands.stopped


@pytest.mark.parametrize("error", [SourceStopped("a: answered 401"), UsageError("a: not set")])
async def test_one_that_stopped_is_told_of(error: Exception) -> None:
    """With its own words."""
    followers = Followers()
    hands = Hands(followers.follow, SETTINGS, Told())
    await hands.hold({"a": KNOWN})
    await _begun(followers, 1)
    followers.end("a", error)
    await hands.wait(5.0)
    assert ({"a": str(error)}, frozenset()) == (hands.stopped, hands.running)


@pytest.mark.parametrize(
    ("error", "kind"),
    [(Denied("not for you"), Denied), (ZeroDivisionError("a bug"), ZeroDivisionError)],
)
async def test_what_concerns_all_is_raised(error: Exception, kind: type[Exception]) -> None:
    """A login without a right, and a fault of ours."""
    followers = Followers()
    hands = Hands(followers.follow, SETTINGS, Told())
    await hands.hold({"a": KNOWN})
    await _begun(followers, 1)
    followers.end("a", error)
    with pytest.raises(kind):
        await hands.wait(5.0)


async def test_waiting_ends_with_the_time() -> None:
    """With a task that runs, and without any."""
    followers = Followers()
    hands = Hands(followers.follow, SETTINGS, Told())
    loop = asyncio.get_running_loop()
    for wanted in ({}, {"a": KNOWN}):
        await hands.hold(wanted)
        began_s = loop.time()
        await hands.wait(0.05)
        assert loop.time() - began_s >= 0.04
    await hands.let_go()
