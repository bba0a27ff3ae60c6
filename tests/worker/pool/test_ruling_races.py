"""A ruling that comes between a worker's look at the rulings and the event's place at the desk."""

import asyncio

import pytest

from fencepost.broker.embedded import EmbeddedBroker
from fencepost.pool.ask import Desk
from fencepost.pool.work import Work
from fencepost_schemas.event import KeyScope
from fencepost_schemas.question import QuestionKind
from fencepost_schemas.row import State
from fencepost_schemas.subject import ANSWERS, EVENTS
from kit.house import House, house
from kit.pool import (
    FIRST,
    SECOND,
    SHORT,
    SOURCE,
    CrashAt,
    Runs,
    app_with,
    crash,
    doubtful,
    held,
    publish,
    publish_seam,
    rule,
    see_questions,
    settle,
    states,
    working,
)
from kit.wait import until

RACES = [
    # ruling, scope, how often it runs, the row it ends in
    ("accept", KeyScope.DURABLE, 1, "k:b", State.APPLIED),
    ("accept", KeyScope.NONE, 1, f"p:{SECOND}:2", State.APPLIED),
    ("same", KeyScope.NONE, 1, f"p:{FIRST}:2", State.APPLIED),
    ("same", KeyScope.GENERATION, 1, f"g:{FIRST}:b", State.APPLIED),
    ("reconcile", KeyScope.DURABLE, 1, "k:b", State.APPLIED),
    ("reconcile", KeyScope.NONE, 0, f"p:{SECOND}:2", State.REFUSED),
    ("discard", KeyScope.DURABLE, 0, "k:b", State.DENIED),
    ("discard", KeyScope.NONE, 0, f"p:{SECOND}:2", State.DENIED),
]


def answer_at_the_door(home: House, ruling: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the first event from its place at the desk until a ruling was given and carried out."""
    hold = Desk._hold
    answered = False

    async def acked() -> bool:
        info = await home.connection.api(f"CONSUMER.INFO.{ANSWERS}.fp-shop-answers")
        return bool(info["ack_floor"]["stream_seq"] >= 1)

    async def late(desk: Desk, work: Work) -> None:
        nonlocal answered
        if not answered:
            answered = True
            await rule(home, ruling)
            await until(acked, "the ruling to be carried out, with nothing held under it")
        await hold(desk, work)

    monkeypatch.setattr(Desk, "_hold", late)


@pytest.mark.parametrize(("ruling", "scope", "times", "key", "state"), RACES)
async def test_an_event_that_is_held_too_late_for_its_ruling_is_carried_out_by_its_own_worker(
    broker: EmbeddedBroker,
    monkeypatch: pytest.MonkeyPatch,
    ruling: str,
    scope: KeyScope,
    times: int,
    key: str,
    state: State,
) -> None:
    """Asked, ruled, carried out with nothing held, then held: neither lost nor run twice."""
    runs = Runs()
    async with house(broker, SOURCE) as home:
        await home.init()
        await publish_seam(home)
        answer_at_the_door(home, ruling, monkeypatch)
        async with working(home, app_with(runs), app_with(runs)):
            await publish(home, doubtful("b", "2", scope=scope))
            await until(lambda: _seen(home, key, state), f"{key} {state}")
            await settle(home)
        found = await states(home)
        waiting = await held(home)
    assert len(runs.started) == times
    assert found[key] is state
    assert set(found.values()) <= {state, State.DENIED}, "nothing is left that seems to wait"
    assert len(waiting) == (state is State.REFUSED)


async def _seen(home: House, key: str, state: State) -> bool:
    return (await states(home)).get(key) is state


@pytest.mark.parametrize(
    ("point", "race"),
    [("written", 2), ("written", 5), ("published", 1), ("published", 3), ("published", 5)],
)
async def test_a_worker_that_dies_between_look_and_place_is_followed_by_another(
    broker: EmbeddedBroker, point: str, race: int
) -> None:
    """Crash behind the row's write or behind the hold, ruled before the event comes again."""
    ruling, scope, times, key, state = RACES[race]
    runs = Runs()
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        await publish_seam(home)
        await publish(home, doubtful("b", "2", scope=scope))
        await crash(home, app_with(runs), CrashAt(point))
        # Where it died before it asked, another app has asked about the same seam.
        async with working(home, app_with(Runs(), name="ship", app="shipping")):
            await see_questions(home, 1, QuestionKind.SEAM)
        await rule(home, ruling)
        async with working(home, app_with(runs)):
            await settle(home)
        found = {row.key: row.state for row in await home.rows() if row.handler == "charge"}
        waiting = [one for one in await held(home) if one.handler == "charge"]
    assert len(runs.started) == times
    assert found[key] is state
    assert set(found.values()) <= {state, State.DENIED}, "nothing is left that seems to wait"
    assert len(waiting) == (state is State.REFUSED)


async def test_a_ruling_given_while_two_workers_hold_reaches_every_event(
    broker: EmbeddedBroker,
) -> None:
    """Two hundred events stream in while a person answers in the middle of it: each runs once."""
    runs = Runs()
    async with house(broker, SOURCE) as home:
        await home.init()
        await publish_seam(home)
        events = [doubtful(str(one), str(one), scope=KeyScope.NONE) for one in range(200)]
        async with working(home, app_with(runs), app_with(runs)):

            async def publish_all() -> None:
                for one in events:
                    await publish(home, one)

            async def answer_in_the_middle() -> None:
                await see_questions(home, 1, QuestionKind.SEAM)
                await rule(home, "same")

            await asyncio.gather(publish_all(), answer_in_the_middle())
            await settle(home)
            found = await states(home)
            waiting = await held(home)
    assert sorted(runs.keys) == sorted(f'{{"k":"{one}"}}' for one in range(200))
    applied = {key for key, state in found.items() if state is State.APPLIED}
    assert applied == {f"p:{FIRST}:{one}" for one in range(200)}
    assert {found[key] for key in set(found) - applied} <= {State.DENIED}
    assert waiting == []


async def test_a_row_whose_worker_died_before_it_held_is_closed_by_the_ruling(
    broker: EmbeddedBroker,
) -> None:
    """The event never got to the desk, and the broker forgets that it had delivered it.

    Applied under its place before the seam, it leaves no refusal behind that nobody is asked about.
    """
    bare = {"scope": KeyScope.NONE}
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        await publish_seam(home)
        runs = Runs()
        await publish(home, doubtful("a", "1", **bare))
        async with working(home, app_with(runs)):
            await see_questions(home, 1, QuestionKind.SEAM)
            await settle(home)
        await publish(home, doubtful("b", "2", **bare))
        await crash(home, app_with(runs), CrashAt("written"))
        assert State.REFUSED is (await states(home))[f"p:{SECOND}:2"]
        await rule(home, "same")
        await home.connection.api(f"CONSUMER.DELETE.{EVENTS}.fp-shop")
        async with working(home, app_with(runs)):
            await until(lambda: len(runs.done) == 2, "both to be applied")
            await settle(home)
        found = await states(home)
    places = (f"p:{FIRST}:1", f"p:{FIRST}:2", f"p:{SECOND}:1", f"p:{SECOND}:2")
    expected = [State.APPLIED, State.APPLIED, State.DENIED, State.DENIED]
    assert expected == [found[place] for place in places]
    assert 1 == runs.most
