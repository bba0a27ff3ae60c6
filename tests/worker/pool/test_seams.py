"""What waits under a seam, and what each ruling does for it and for what comes later."""

import asyncio
from typing import Any

import pytest

from fencepost import Context
from fencepost.broker.embedded import EmbeddedBroker
from fencepost.errors import NotFine
from fencepost_schemas.event import KeyScope
from fencepost_schemas.question import Question, QuestionKind
from fencepost_schemas.row import Effect, State
from kit.house import House, house
from kit.pool import (
    FIRST,
    SECOND,
    SHORT,
    SOURCE,
    THIRD,
    Runs,
    app_with,
    doubtful,
    event,
    held,
    publish,
    publish_seam,
    questions,
    rows,
    rule,
    see_questions,
    settle,
    states,
    working,
)
from kit.source import End, ScriptedSource, sse, stream
from kit.wait import until

A, B, C = '{"k":"a"}', '{"k":"b"}', '{"k":"c"}'


def silent_source(url: str, **fields: Any) -> dict[str, Any]:
    """Return a source that gives no signal at all."""
    return {"orders": {"url": url, "keys": "durable", "key": "/k", **fields}}


async def see_events(home: House, count: int) -> None:
    async def there() -> bool:
        return len(await home.events()) >= count

    await until(there, f"{count} events")


def broken_once(*later: tuple[str, str]) -> ScriptedSource:
    """Return a source that breaks behind its first event, and comes back as if nothing was."""
    return ScriptedSource(stream(sse(("1", A))), stream(sse(*later), end=End.HANG))


# --- through the real bridge --------------------------------------------------------------------
async def test_a_seam_has_one_question_however_many_events_and_workers(
    broker: EmbeddedBroker,
) -> None:
    """Forty events, two workers: one question, its bytes and evidence, and nothing has run."""
    later = [(str(one), f'{{"k":"{one}"}}') for one in range(2, 42)]
    runs = Runs()
    async with broken_once(*later) as source, house(broker, silent_source(source.url)) as home:
        await home.init()
        async with home.bridge(), working(home, app_with(runs), app_with(runs)):
            await see_events(home, 41)
            await settle(home)
            [entry] = await home.book.entries()
            assert runs.keys == [A]
            await home.book.answer(entry.question.id, "accept", "ada")
            await settle(home)
        events = await home.events()
    question = entry.question
    assert (question.kind, entry.held) == (QuestionKind.SEAM, 40)
    assert question.event is not None
    assert question.event.payload in {data.encode() for _, data in later}
    assert question.generation == events[-1].generation != events[0].generation
    assert question.gap is not None
    assert question.gap.after_generation == events[0].generation
    assert question.reasons
    assert question.facts
    assert sorted(runs.keys) == sorted([A, *(data for _, data in later)])


async def test_an_idempotent_handler_with_durable_keys_runs_at_once(
    broker: EmbeddedBroker,
) -> None:
    """One attempt, no question about the seam; where it fails it is not tried again but asked."""
    runs = Runs()

    async def fail(payload: bytes, ctx: Context) -> None:
        if payload.decode() == C:
            raise RuntimeError("cut off")

    app = app_with(runs, fail, effect="idempotent")
    async with (
        broken_once(("2", B), ("3", C)) as source,
        house(broker, silent_source(source.url)) as home,
    ):
        await home.init()
        async with home.bridge(), working(home, app, app):
            await see_events(home, 3)
            await settle(home)
            asked = await questions(home)
        found = await rows(home)
    assert sorted(runs.started) == [(A, 1), (B, 1), (C, 1)]
    assert [one.kind for one in asked] == [QuestionKind.DOUBT]
    assert (found["k:b"].state, found["k:b"].effect) == (State.APPLIED, Effect.ONCE)
    assert found["k:c"].state is State.IN_DOUBT


async def test_reconcile_can_stand_in_the_configuration(broker: EmbeddedBroker) -> None:
    """Keyed events are applied by the ledger without a question; the row names who ruled."""
    runs = Runs()
    async with (
        broken_once(("2", B), ("3", '{"no":"key"}')) as source,
        house(broker, silent_source(source.url, unverifiable="reconcile")) as home,
    ):
        await home.init()
        async with home.bridge(), working(home, app_with(runs), app_with(runs)):
            await see_events(home, 3)
            await settle(home)
            found = await rows(home)
            asked = await questions(home)
    assert sorted(runs.keys) == [A, B]
    assert (found["k:b"].state, found["k:b"].actor) == (State.APPLIED, "configuration")
    refused = [row for row in found.values() if row.state is State.REFUSED]
    assert [row.key.startswith("p:") for row in refused] == [True]
    assert [one.kind for one in asked] == [QuestionKind.SEAM], "what has no key is still asked"


async def test_a_ruling_spares_what_the_bridge_finds_later(broker: EmbeddedBroker) -> None:
    """A third generation behind a second one that was accepted has a question of its own."""
    runs = Runs()
    script = (
        stream(sse(("1", A))),
        stream(sse(("2", B)), end=End.HANG),
        stream(sse(("3", C)), end=End.HANG),
    )
    async with (
        ScriptedSource(*script) as source,
        house(broker, silent_source(source.url)) as home,
    ):
        await home.init()
        async with home.bridge(), working(home, app_with(runs)):
            [first] = await see_questions(home, 1, QuestionKind.SEAM)
            await home.book.answer(first.id, "accept", "ada")
            await until(lambda: runs.keys == [A, B], "the accepted event")
            source.cut()
            await until(lambda: _holds(home, "k:c"), "the event behind the second seam")
            # The row is written before the question is asked.
            await until(lambda: _asks_behind(home, first), "the question of the second seam")
            asked = await questions(home)
        behind = [one for one in asked if one.gap and one.gap.after_generation == first.generation]
        assert len(behind) == 1
        assert behind[0].id != first.id
    assert runs.keys == [A, B]


async def _asks_behind(home: House, first: Question) -> bool:
    asked = await questions(home)
    return any(one.gap and one.gap.after_generation == first.generation for one in asked)


async def _holds(home: House, key: str) -> bool:
    return (await states(home)).get(key) is State.PENDING


# --- every ruling, with every kind of key -------------------------------------------------------
SAME, RECONCILE, ACCEPT, DISCARD = "same", "reconcile", "accept", "discard"
DURABLE, OF_GENERATION, NONE = KeyScope.DURABLE, KeyScope.GENERATION, KeyScope.NONE

RULED: dict[tuple[str, KeyScope], tuple[str, dict[str, State]]] = {
    # what runs behind the seam (a was applied before it), and the rows that are left
    (SAME, DURABLE): ("bc", {"k:a": State.APPLIED, "k:b": State.APPLIED, "k:c": State.APPLIED}),
    (RECONCILE, DURABLE): (
        "bc",
        {"k:a": State.APPLIED, "k:b": State.APPLIED, "k:c": State.APPLIED},
    ),
    (ACCEPT, DURABLE): ("bc", {"k:a": State.APPLIED, "k:b": State.APPLIED, "k:c": State.APPLIED}),
    (DISCARD, DURABLE): ("", {"k:a": State.APPLIED, "k:b": State.DENIED, "k:c": State.DENIED}),
    (SAME, OF_GENERATION): (
        "bc",
        {
            f"g:{FIRST}:a": State.APPLIED,
            f"g:{FIRST}:b": State.APPLIED,
            f"g:{FIRST}:c": State.APPLIED,
            f"g:{SECOND}:a": State.DENIED,
            f"g:{SECOND}:b": State.DENIED,
        },
    ),
    (RECONCILE, OF_GENERATION): (
        "",
        {
            f"g:{FIRST}:a": State.APPLIED,
            f"g:{SECOND}:a": State.REFUSED,
            f"g:{SECOND}:b": State.REFUSED,
            f"g:{SECOND}:c": State.REFUSED,
        },
    ),
    (ACCEPT, OF_GENERATION): (
        "abc",
        {
            f"g:{FIRST}:a": State.APPLIED,
            f"g:{SECOND}:a": State.APPLIED,
            f"g:{SECOND}:b": State.APPLIED,
            f"g:{SECOND}:c": State.APPLIED,
        },
    ),
    (DISCARD, OF_GENERATION): (
        "",
        {
            f"g:{FIRST}:a": State.APPLIED,
            f"g:{SECOND}:a": State.DENIED,
            f"g:{SECOND}:b": State.DENIED,
            f"g:{SECOND}:c": State.DENIED,
        },
    ),
    (SAME, NONE): (
        "bc",
        {
            f"p:{FIRST}:1": State.APPLIED,
            f"p:{FIRST}:2": State.APPLIED,
            f"p:{FIRST}:3": State.APPLIED,
            f"p:{SECOND}:1": State.DENIED,
            f"p:{SECOND}:2": State.DENIED,
        },
    ),
    (RECONCILE, NONE): (
        "",
        {
            f"p:{FIRST}:1": State.APPLIED,
            f"p:{SECOND}:1": State.REFUSED,
            f"p:{SECOND}:2": State.REFUSED,
            f"p:{SECOND}:3": State.REFUSED,
        },
    ),
    (ACCEPT, NONE): (
        "abc",
        {
            f"p:{FIRST}:1": State.APPLIED,
            f"p:{SECOND}:1": State.APPLIED,
            f"p:{SECOND}:2": State.APPLIED,
            f"p:{SECOND}:3": State.APPLIED,
        },
    ),
    (DISCARD, NONE): (
        "",
        {
            f"p:{FIRST}:1": State.APPLIED,
            f"p:{SECOND}:1": State.DENIED,
            f"p:{SECOND}:2": State.DENIED,
            f"p:{SECOND}:3": State.DENIED,
        },
    ),
}


@pytest.mark.parametrize(("ruling", "scope"), RULED)
async def test_a_ruling_covers_what_is_held_and_what_comes(
    broker: EmbeddedBroker, ruling: str, scope: KeyScope
) -> None:
    """Before the seam: a. Held under it: a again, and b. After the ruling: c, and all once more."""
    runs = Runs()
    expected_runs, expected_rows = RULED[ruling, scope]
    again = [doubtful(key, place, scope=scope) for key, place in (("a", "1"), ("b", "2"))]
    later = doubtful("c", "3", scope=scope)
    async with house(broker, SOURCE) as home:
        await home.init()
        await publish_seam(home)
        async with working(home, app_with(runs), app_with(runs)):
            await publish(home, event("a", "1", scope=scope))
            await until(lambda: runs.keys == [A], "the event before the seam")
            await publish(home, *again)
            await see_questions(home, 1, QuestionKind.SEAM)
            await settle(home)
            assert runs.keys == [A], "nothing runs before the ruling"
            await rule(home, ruling)
            await settle(home)
            await publish(home, later, *again, later)
            await settle(home)
        found = await rows(home)
        waiting = await held(home)
        assert await home.book.entries() == []
    assert "".join(sorted(key[-3] for key in runs.keys[1:])) == expected_runs
    assert {key: row.state for key, row in found.items()} == expected_rows
    assert len(waiting) == sum(row.state is State.REFUSED for row in found.values())
    ruled = {row.actor for row in found.values() if row.state is not State.REFUSED}
    assert ruled <= {"", "ada"}


async def test_a_handlers_own_key_counts_where_the_source_has_none(
    broker: EmbeddedBroker,
) -> None:
    """A pointer at the handler vouches for the key, so the event can be reconciled by it."""
    runs = Runs()
    async with house(broker, SOURCE) as home:
        await home.init()
        await publish_seam(home)
        app = app_with(runs, key="/k")
        async with working(home, app):
            await publish(home, event("a", "1", scope=NONE))
            await until(lambda: runs.keys == [A], "the event before the seam")
            await publish(home, doubtful("a", "7", scope=NONE), doubtful("b", "8", scope=NONE))
            await see_questions(home, 1, QuestionKind.SEAM)
            await rule(home, RECONCILE)
            await settle(home)
        found = await states(home)
    assert runs.keys == [A, B]
    assert found == {"k:a": State.APPLIED, "k:b": State.APPLIED}


async def test_what_is_in_doubt_or_in_conflict_behind_a_seam_is_not_held_on(
    broker: EmbeddedBroker,
) -> None:
    """Once the question of a doubt, or the dead, carry the bytes, the seam lets go of them."""

    async def fail(payload: bytes, ctx: Context) -> None:
        if payload == b"doubt":
            raise RuntimeError("cut off")

    runs = Runs()
    async with house(broker, SOURCE) as home:
        await home.init()
        await publish_seam(home)
        async with working(home, app_with(runs, fail)):
            await publish(home, event("a", "1", payload=b"first", scope=NONE))
            await settle(home)
            await publish(
                home,
                doubtful("a", "1", payload=b"other", scope=NONE),
                doubtful("b", "2", payload=b"doubt", scope=NONE),
            )
            await see_questions(home, 1, QuestionKind.SEAM)
            await settle(home)
            await rule(home, SAME)
            [doubt] = await see_questions(home, 1, QuestionKind.DOUBT)
            await settle(home)
            assert await held(home) == []
            await home.book.answer(doubt.id, "applied", "ada")
            await settle(home)
        found = await states(home)
    assert runs.keys == ["first", "doubt"]
    conflicts = {key for key, state in found.items() if state is State.CONFLICT}
    assert len(conflicts) == 1
    assert {key: state for key, state in found.items() if key not in conflicts} == {
        f"p:{FIRST}:1": State.APPLIED,
        f"p:{FIRST}:2": State.APPLIED,
        f"p:{SECOND}:1": State.DENIED,
        f"p:{SECOND}:2": State.DENIED,
    }


async def test_a_refusal_can_be_answered_after_its_seam_was_ruled_the_same(
    broker: EmbeddedBroker,
) -> None:
    """The ruling gives the event another key, but the answer is about the row that was asked of."""
    async with house(broker, SOURCE) as home:
        await home.init()
        await publish_seam(home)
        async with working(home, app_with(Runs())):
            big = doubtful("a", "1", scope=NONE, withheld="too_large")
            await publish(home, big, doubtful("b", "2", scope=NONE))
            [refusal] = await see_questions(home, 1, QuestionKind.REFUSAL)
            await see_questions(home, 1, QuestionKind.SEAM)
            await rule(home, SAME)
            await settle(home)
            await home.book.answer(refusal.id, "applied", "ada")
            await settle(home)
        assert (await states(home))[f"p:{SECOND}:1"] is State.APPLIED


# --- chains -------------------------------------------------------------------------------------
async def test_generations_in_a_row_have_their_own_questions_and_one_root(
    broker: EmbeddedBroker,
) -> None:
    """Ruled the same twice: what was applied in the first generation is skipped in the third."""
    runs = Runs()
    async with house(broker, SOURCE) as home:
        await home.init()
        await publish_seam(home, SECOND, FIRST)
        await publish_seam(home, THIRD, SECOND)
        async with working(home, app_with(runs), app_with(runs)):
            await publish(home, event("a", "1", scope=NONE))
            await until(lambda: runs.keys == [A], "the event before the seam")
            await publish(home, doubtful("b", "2", scope=NONE))
            await publish(
                home,
                *(
                    doubtful(key, place, generation=THIRD, scope=NONE)
                    for key, place in (("a", "1"), ("b", "2"), ("c", "3"))
                ),
            )
            asked = await see_questions(home, 2, QuestionKind.SEAM)
            await settle(home)
            assert {one.generation for one in asked} == {SECOND, THIRD}
            await rule(home, SAME, SECOND)
            await settle(home)
            assert runs.keys == [A, B]
            await rule(home, SAME, THIRD)
            await settle(home)
        found = await states(home)
    assert runs.keys == [A, B, C]
    assert {key for key, state in found.items() if state is State.APPLIED} == {
        f"p:{FIRST}:{place}" for place in (1, 2, 3)
    }


async def test_the_same_cannot_be_said_before_the_seam_in_front_is_ruled(
    broker: EmbeddedBroker,
) -> None:
    """Else what it goes on from would change later, and the keys with it: it would run twice."""
    runs = Runs()
    async with house(broker, SOURCE) as home:
        await home.init()
        await publish_seam(home, SECOND, FIRST)
        await publish_seam(home, THIRD, SECOND)
        async with working(home, app_with(runs)):
            await publish(
                home,
                doubtful("a", "1", scope=NONE),
                doubtful("a", "1", generation=THIRD, scope=NONE),
            )
            asked = await see_questions(home, 2, QuestionKind.SEAM)
            [front] = [one.id for one in asked if one.generation == SECOND]
            with pytest.raises(NotFine, match=f"{front} first"):
                await rule(home, SAME, THIRD)
            await rule(home, SAME, SECOND)
            await rule(home, SAME, THIRD)
            await settle(home)
    assert runs.keys == [A]


# --- two answers --------------------------------------------------------------------------------
async def test_of_two_answers_at_one_moment_exactly_one_wins(broker: EmbeddedBroker) -> None:
    """The broker decides; the loser is told who was first, and what; the ruling that won holds."""
    runs = Runs()
    async with house(broker, SOURCE) as home:
        await home.init()
        await publish_seam(home)
        async with working(home, app_with(runs)):
            await publish(home, doubtful("b", "2"))
            await see_questions(home, 1, QuestionKind.SEAM)
            given = [("ada", "accept"), ("bob", "discard"), ("eve", "same"), ("joe", "reconcile")]
            ended = await asyncio.gather(
                *(rule(home, ruling, actor=actor) for actor, ruling in given),
                return_exceptions=True,
            )
            await settle(home)
        losers = [str(error) for error in ended if isinstance(error, NotFine)]
        [(actor, ruling)] = [pair for pair, end in zip(given, ended, strict=True) if end is None]
        assert len(losers) == 3
        assert all(actor in text and ruling in text for text in losers)
        found = (await states(home))["k:b"]
    assert (found, runs.keys) == ((State.DENIED, []) if ruling == DISCARD else (State.APPLIED, [B]))


async def test_the_same_stream_without_ids_is_told_apart_by_its_generations(
    broker: EmbeddedBroker,
) -> None:
    """Its positions begin anew behind a seam: the first event there is not the first of all."""
    runs = Runs()
    async with house(broker, SOURCE) as home:
        await home.init()
        await publish_seam(home, SECOND, FIRST)
        async with working(home, app_with(runs)):
            await publish(home, event("a", "", scope=NONE))
            await until(lambda: runs.keys == [A], "the event before the seam")
            await publish(home, doubtful("b", "", scope=NONE))
            await see_questions(home, 1, QuestionKind.SEAM)
            await rule(home, SAME)
            await settle(home)
    assert runs.keys == [A, B]


async def test_the_same_cannot_be_said_before_the_seam_in_front_is_asked_about(
    broker: EmbeddedBroker,
) -> None:
    """The third generation's event may come to a worker sooner than the second's.

    Were it known by its place in the second, and that one the same as the first after all, it would
    get another key then, and be applied again.
    """
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        await publish_seam(home)
        await publish_seam(home, THIRD, SECOND)
        runs = Runs()
        async with working(home, app_with(runs)):
            await publish(home, doubtful("c", "3", generation=THIRD, scope=NONE))
            await see_questions(home, 1, QuestionKind.SEAM)
            with pytest.raises(NotFine, match=f"from {SECOND}, and nobody has asked"):
                await rule(home, SAME, THIRD)
            await publish(home, doubtful("b", "2", generation=SECOND, scope=NONE))
            await see_questions(home, 2, QuestionKind.SEAM)
            await rule(home, SAME, SECOND)
            await rule(home, SAME, THIRD)
            await until(lambda: len(runs.done) == 2, "the events of both")
            await settle(home)
        found = await states(home)
    assert State.APPLIED is found[f"p:{FIRST}:3"]
    assert State.APPLIED is found[f"p:{FIRST}:2"]
    assert 1 == runs.most


@pytest.mark.parametrize("ruling", [RECONCILE, DISCARD])
async def test_the_same_cannot_be_said_where_the_seam_in_front_left_it_open(
    broker: EmbeddedBroker, ruling: str
) -> None:
    """A second generation applied nothing by place, so nobody said whose places its own are.

    The third, said to go on from it, brings an event of the first once more: known by its place in
    the second, it would be applied again.
    """
    runs = Runs()
    async with house(broker, SOURCE) as home:
        await home.init()
        await publish_seam(home)
        await publish_seam(home, THIRD, SECOND)
        async with working(home, app_with(runs)):
            await publish(home, event("a", "1", scope=NONE), doubtful("b", "2", scope=NONE))
            await see_questions(home, 1, QuestionKind.SEAM)
            await rule(home, ruling, SECOND)
            await publish(
                home,
                doubtful("a", "1", generation=THIRD, scope=NONE),
                doubtful("c", "3", generation=THIRD, scope=NONE),
            )
            await see_questions(home, 1, QuestionKind.SEAM)
            with pytest.raises(NotFine, match=f"{ruling} was said of {SECOND}"):
                await rule(home, SAME, THIRD)
            await settle(home)
    assert runs.keys == [A]


async def test_the_same_as_what_was_accepted_is_counted_from_there(
    broker: EmbeddedBroker,
) -> None:
    """Whoever accepts takes all that comes, so its places are its own, and the next one's, too."""
    runs = Runs()
    async with house(broker, SOURCE) as home:
        await home.init()
        await publish_seam(home)
        await publish_seam(home, THIRD, SECOND)
        async with working(home, app_with(runs)):
            await publish(home, event("a", "1", scope=NONE), doubtful("b", "1", scope=NONE))
            await see_questions(home, 1, QuestionKind.SEAM)
            await rule(home, ACCEPT, SECOND)
            await publish(
                home,
                doubtful("b", "1", generation=THIRD, scope=NONE),
                doubtful("c", "2", generation=THIRD, scope=NONE),
            )
            await see_questions(home, 1, QuestionKind.SEAM)
            await rule(home, SAME, THIRD)
            await until(lambda: C in runs.keys, "what is new in the third generation")
            await settle(home)
        found = await states(home)
    assert runs.keys == [A, B, C]
    assert {key for key, state in found.items() if state is State.APPLIED} == {
        f"p:{FIRST}:1",
        f"p:{SECOND}:1",
        f"p:{SECOND}:2",
    }
