"""Gaps go to their reconciler, and what it emits goes through the ledger as any event does."""

import asyncio

import msgspec
import pytest

from fencepost import Context, Fencepost, Gap, NotApplied, Reject
from fencepost.broker.embedded import EmbeddedBroker
from fencepost.errors import UsageError
from fencepost.ports import Message
from fencepost_schemas.event import KeyScope
from fencepost_schemas.question import QuestionKind
from fencepost_schemas.row import State
from fencepost_schemas.standing import Standing
from fencepost_schemas.subject import EVENTS
from fencepost_schemas.verdict import gap_id
from kit.gaps import (
    GAP,
    JOIN_GAP,
    Refill,
    Refills,
    emit_missed,
    filled,
    gap_row,
    publish_record,
    reconciling,
    register,
)
from kit.house import House, house
from kit.pool import (
    FIRST,
    SECOND,
    SOURCE,
    THIRD,
    CrashAt,
    Runs,
    app_with,
    crash,
    dead,
    doubtful,
    event,
    publish,
    say,
    see_questions,
    states,
    working,
)
from kit.source import End, ScriptedSource, sse, stream
from kit.wait import until

MISSED, OTHER = '{"k":"missed"}', '{"k":"other"}'


async def begin(home: House, app: Fencepost) -> None:
    """Begin the sources, and have the app's reconciler registered."""
    await home.init()
    await register(home, app)


# --- from the gap to the effect -----------------------------------------------------------------
async def test_what_a_gap_hid_is_fetched_and_applied_once(broker: EmbeddedBroker) -> None:
    """The reconciler gets the gap, and the handler what it emits."""
    runs, refills = Runs(), Refills()
    app = reconciling(app_with(runs), refills)
    async with house(broker, SOURCE) as home:
        await begin(home, app)
        await publish_record(home)
        async with working(home, app):
            await filled(home)
        row = await gap_row(home)
        emitted = await home.events("app-shop")
    assert [GAP] == refills.gaps
    assert [MISSED, OTHER] == sorted(runs.keys)
    assert (State.APPLIED, "fill", "orders", 1) == (
        row.state,
        row.handler,
        row.namespace,
        row.attempt,
    )
    assert {("orders", "orders", gap_id("orders", GAP), Standing.REORIGINATED)} == {
        (one.namespace, one.fills, one.gap, one.standing) for one in emitted
    }


async def test_from_a_source_that_began_anew_to_what_it_no_longer_had(
    broker: EmbeddedBroker,
) -> None:
    """A real bridge writes the gap, and the same worker fills it."""
    runs, refills = Runs(), Refills()
    app = reconciling(app_with(runs), refills)
    script = (
        stream(sse(("1", '{"k":"a"}'))),
        stream(sse(("7", '{"k":"z"}')), end=End.HANG),
    )
    async with ScriptedSource(*script) as source:
        sources = {"orders": {**SOURCE["orders"], "url": source.url, "unverifiable": "reconcile"}}
        async with house(broker, sources) as home:
            await begin(home, app)
            async with home.bridge(), working(home, app):
                await until(lambda: len(runs.done) == 4, "all four tasks")
                await filled(home)
            (record,) = [one for one in await home.records() if one.gap is not None]
    assert [record.gap] == refills.gaps
    assert ['{"k":"a"}', MISSED, OTHER, '{"k":"z"}'] == sorted(runs.keys)


async def test_each_gap_of_a_record_is_work_of_its_own(broker: EmbeddedBroker) -> None:
    """One at the seam, one at the join before; records without any are passed over."""
    runs, refills = Runs(), Refills()
    app = reconciling(app_with(runs), refills)
    empty = msgspec.structs.replace(GAP, empty=True)
    async with house(broker, SOURCE) as home:
        await begin(home, app)
        await publish_record(home, gap=None, generation=FIRST)
        await publish_record(home, gap=empty, generation=THIRD)
        await publish_record(home, join_gap=JOIN_GAP)
        async with working(home, app):
            await filled(home)
        found = [await gap_row(home, gap) for gap in (GAP, JOIN_GAP)]
    assert [GAP, JOIN_GAP] == refills.gaps
    assert [State.APPLIED] * 2 == [row.state for row in found]
    assert [MISSED, OTHER] == sorted(runs.keys)


async def test_gaps_from_before_it_was_registered_are_left_alone(broker: EmbeddedBroker) -> None:
    """It is called for those that are recorded from then on, a worker or none."""
    refills = Refills()
    app = reconciling(app_with(Runs()), refills)
    later = Gap(SECOND, "9", THIRD, "1")
    async with house(broker, SOURCE) as home:
        await home.init()
        await publish_record(home)
        await register(home, app)
        await publish_record(home, gap=later, generation=THIRD)
        async with working(home, app):
            await filled(home)
    assert [later] == refills.gaps


async def test_a_reconciler_that_comes_later_begins_at_its_own_first_start(
    broker: EmbeddedBroker,
) -> None:
    """Whatever the app's other reconcilers have seen, or not seen yet."""
    refills, others = Refills(), list[Gap]()

    def with_another() -> Fencepost:
        app = reconciling(Fencepost("shop"), refills)

        @app.reconcile("crm")
        async def other(gap: Gap, ctx: Context) -> None:
            others.append(gap)

        return app

    later = Gap(SECOND, "9", THIRD, "1")
    async with house(broker, {**SOURCE, "crm": SOURCE["orders"]}) as home:
        await begin(home, reconciling(Fencepost("shop"), refills))
        await publish_record(home, source="crm")
        await publish_record(home)
        await publish_record(home, source="crm", gap=JOIN_GAP)
        await register(home, with_another())
        await publish_record(home, source="crm", gap=later, generation=THIRD)
        async with working(home, with_another()):
            await until(lambda: later in others, "the later gap")
            await filled(home)
    assert ([GAP], [later]) == (refills.gaps, others)


async def test_gaps_of_other_sources_are_no_business_of_it(broker: EmbeddedBroker) -> None:
    refills = Refills()
    app = reconciling(app_with(Runs()), refills)
    sources = {**SOURCE, "crm": SOURCE["orders"]}
    async with house(broker, sources) as home:
        await begin(home, app)
        await publish_record(home, source="crm")
        await publish_record(home)
        async with working(home, app):
            await filled(home)
    assert [GAP] == refills.gaps


async def test_two_workers_and_one_of_them_is_called(broker: EmbeddedBroker) -> None:
    runs, refills = Runs(), Refills()
    apps = [reconciling(app_with(runs), refills) for _ in range(2)]
    gaps = [Gap(FIRST, str(number), SECOND, "9") for number in range(20)]
    async with house(broker, SOURCE) as home:
        await begin(home, apps[0])
        async with working(home, *apps):
            for gap in gaps:
                await publish_record(home, gap=gap)
            await filled(home)
    assert sorted(map(str, gaps)) == sorted(map(str, refills.gaps))
    assert [MISSED, OTHER] == sorted(runs.keys)


class CrashInFill(CrashAt):
    """Crash where the reconciler's own work comes by a point, and no handler's."""

    ran = False

    def __call__(self, point: str) -> None:
        task = asyncio.current_task()
        # The task that runs a handler bears its name. A row's write has none: the first one that is
        # written is the gap's, and nothing is through before the reconciler has run.
        mine = task is not None and task.get_name().startswith("fill ")
        if mine or point == "written" or (point == "published" and self.ran):
            super().__call__(point)
        self.ran = self.ran or (mine and point == "ran")


def barred(ran: list[str], *, mortal: bool) -> Fencepost:
    """Return an app whose handler leaves the work to another worker if it is to die."""
    app = Fencepost("shop")

    @app.on("task", barrier=True, attempts=1_000)
    async def charge(payload: bytes, ctx: Context) -> None:
        if mortal:
            raise NotApplied("another's")
        async with ctx.effect():
            ran.append(payload.decode())

    return app


@pytest.mark.parametrize(
    ("point", "nth"),
    [
        ("written", 1),
        ("emitting", 1),
        ("emitted", 1),
        ("emitting", 2),
        ("emitted", 2),
        ("ran", 1),
        ("written", 2),
        ("published", 1),
    ],
)
async def test_a_worker_that_dies_anywhere_is_followed_by_another(
    broker: EmbeddedBroker, point: str, nth: int
) -> None:
    """Whatever it emitted before is emitted again, and applied once."""
    ran: list[str] = []
    mortal = reconciling(barred(ran, mortal=True), Refills())
    app = reconciling(barred(ran, mortal=False), Refills())
    async with house(broker, SOURCE, pool={"lease_s": 1.0, "ack_wait_s": 1.2}) as home:
        await begin(home, app)
        await publish_record(home)
        await crash(home, mortal, CrashInFill(point, nth))
        async with working(home, app):
            await filled(home)
        row = await gap_row(home)
        found = await states(home)
    assert (State.APPLIED, [MISSED, OTHER]) == (row.state, sorted(ran))
    assert {State.APPLIED} == set(found.values())


# --- beside what the source brings --------------------------------------------------------------
async def emit_otherwise(gap: Gap, ctx: Context) -> None:
    """Emit a task in other words than the source's."""
    await ctx.emit(type="task", key="missed", data={"k": "missed", "fetched": True})


@pytest.mark.parametrize("refill", [emit_missed, emit_otherwise])
@pytest.mark.parametrize("first", ["source", "reconciler"])
async def test_a_task_that_comes_both_ways_is_applied_once(
    broker: EmbeddedBroker, refill: Refill, first: str
) -> None:
    """In the same bytes or in others, whoever is first; and no conflict is made of it."""
    runs, refills = Runs(), Refills()
    app = reconciling(app_with(runs), refills, refill)
    async with house(broker, SOURCE) as home:
        await begin(home, app)
        async with working(home, app):
            for way in (first, "reconciler" if first == "source" else "source"):
                if way == "source":
                    await publish(home, event("missed"))
                else:
                    await publish_record(home)
                await filled(home)
        found = await states(home)
        assert [] == await dead(home)
    assert 1 == sum("missed" in payload for payload in runs.keys)
    assert State.CONFLICT not in found.values()
    assert State.APPLIED is found["k:missed"]


async def test_an_emitted_event_meets_the_rows_of_a_shared_namespace(
    broker: EmbeddedBroker,
) -> None:
    """Where its bridge says that the source's keys are: what is configured here may be older."""
    runs, refills = Runs(), Refills()
    app = reconciling(app_with(runs), refills)
    brought = msgspec.structs.replace(event("missed"), namespace="shared")
    async with house(broker, SOURCE) as home:
        await begin(home, app)
        async with working(home, app):
            await publish(home, brought)
            await filled(home)
            await publish_record(home)
            await filled(home)
        namespaces = {row.key: row.namespace for row in await home.rows()}
    assert [MISSED, OTHER] == sorted(runs.keys)
    assert "shared" == namespaces["k:other"]


async def test_the_configured_namespace_counts_before_there_is_an_event(
    broker: EmbeddedBroker,
) -> None:
    refills = Refills()
    app = reconciling(app_with(Runs()), refills)
    async with house(broker, {"orders": {**SOURCE["orders"], "namespace": "shared"}}) as home:
        await begin(home, app)
        await publish_record(home)
        async with working(home, app):
            await filled(home)
        namespaces = {row.key: row.namespace for row in await home.rows()}
    assert "shared" == namespaces["k:missed"]


async def test_keys_that_do_not_last_are_found_out_where_they_are_not_configured(
    broker: EmbeddedBroker,
) -> None:
    """A source may be added while the worker runs; its events say what its keys are worth."""
    said: list[str] = []

    async def emit_and_tell(gap: Gap, ctx: Context) -> None:
        with pytest.raises(UsageError) as refused:
            await emit_missed(gap, ctx)
        said.append(str(refused.value))

    app = reconciling(app_with(Runs()), Refills(), emit_and_tell)
    async with house(broker, SOURCE) as home:
        await begin(home, app)
        async with working(home, app):
            await publish(home, event("a", scope=KeyScope.GENERATION))
            await filled(home)
            await publish_record(home)
            await filled(home)
        assert [] == await home.events("app-shop")
    assert 1 == len(said) and 'keys = "durable"' in said[0]


async def test_what_waits_in_doubt_is_applied_once_it_was_fetched(broker: EmbeddedBroker) -> None:
    """The source brought it in a stream that nothing vouches for; the reconciler vouches by key."""
    runs, refills = Runs(), Refills()
    app = reconciling(app_with(runs), refills)
    async with house(broker, SOURCE) as home:
        await begin(home, app)
        async with working(home, app):
            await publish(home, doubtful("missed"))
            await see_questions(home, 1, QuestionKind.SEAM)
            await publish_record(home)
            await filled(home)
        found = await states(home)
    assert [MISSED, OTHER] == sorted(runs.keys)
    assert State.APPLIED is found["k:missed"]


async def test_a_handler_of_one_source_takes_what_fills_its_gaps(broker: EmbeddedBroker) -> None:
    """And nothing of what fills another's."""
    ran: list[str] = []
    app = reconciling(Fencepost("shop"), Refills())

    @app.on("task", source="orders")
    async def mine(payload: bytes) -> None:
        ran.append(payload.decode())

    @app.on("task", source="crm")
    async def of_another(payload: bytes) -> None:
        ran.append("of another")

    async with house(broker, SOURCE) as home:
        await begin(home, app)
        await publish_record(home)
        async with working(home, app):
            await filled(home)
    assert [MISSED, OTHER] == sorted(ran)


async def test_what_the_source_tells_is_not_lost_with_a_bad_telling(
    broker: EmbeddedBroker,
) -> None:
    """What was fetched could not be read; what the source brings under that key lies beside it."""

    async def emit_nonsense(gap: Gap, ctx: Context) -> None:
        await ctx.emit(type="task", key="a", data=b"[")

    app = reconciling(Fencepost("shop"), Refills(), emit_nonsense)

    @app.on("task")
    async def charge(task: dict[str, str]) -> None:
        pass

    async with house(broker, SOURCE) as home:
        await begin(home, app)
        async with working(home, app):
            await publish_record(home)
            await filled(home)
            await publish(home, event("a"))
            await filled(home)
        found = await states(home)
        buried = [letter.payload for letter in await dead(home)]
    assert State.REJECTED is found["k:a"]
    assert [b"[", b'{"k":"a"}'] == buried


# --- when it fails ------------------------------------------------------------------------------
async def test_one_that_fails_is_called_again(broker: EmbeddedBroker) -> None:
    """What it emitted before it failed is not applied twice."""
    runs, refills = Runs(), Refills()

    async def at_the_third(gap: Gap, ctx: Context) -> None:
        await emit_missed(gap, ctx)
        if ctx.attempt == 1:
            raise ConnectionError("away")
        if ctx.attempt == 2:
            raise NotApplied("not yet")

    app = reconciling(app_with(runs), refills, at_the_third)
    async with house(broker, SOURCE) as home:
        await begin(home, app)
        await publish_record(home)
        async with working(home, app):
            await filled(home)
        row = await gap_row(home)
    assert ([1, 2, 3], State.APPLIED) == (refills.attempts, row.state)
    assert [MISSED, OTHER] == sorted(runs.keys)


@pytest.mark.parametrize(
    ("ruling", "expected", "attempts"),
    [
        ("applied", State.APPLIED, [1, 2]),
        ("discard", State.DENIED, [1, 2]),
        ("retry", State.APPLIED, [1, 2, 3]),
    ],
)
async def test_one_that_fails_for_good_leaves_a_question(
    broker: EmbeddedBroker, ruling: str, expected: State, attempts: list[int]
) -> None:
    """The gap waits at the desk, not among the dead, and the answer is carried out."""
    refills = Refills()

    async def fail_twice(gap: Gap, ctx: Context) -> None:
        if ctx.attempt <= 2:
            raise ConnectionError("the other side is away")

    app = reconciling(app_with(Runs()), refills, fail_twice, attempts=2)
    short = {"handler_timeout_s": 0.4, "lease_s": 1.0, "ack_wait_s": 1.2}
    async with house(broker, SOURCE, pool=short) as home:
        await begin(home, app)
        await publish_record(home)
        async with working(home, app):
            (question,) = await see_questions(home, 1, QuestionKind.GAP)
            await filled(home)
            waiting = await gap_row(home)
            await say(home, question.id, ruling)

            async def ruled() -> bool:
                return (await gap_row(home)).state is expected

            await until(ruled, "the answer to be carried out")
        assert [] == await dead(home)
    assert (State.IN_DOUBT, attempts) == (waiting.state, refills.attempts)
    assert (GAP, "fill", "orders") == (question.gap, question.handler, question.source)
    assert "ConnectionError: the other side is away" == question.error


async def test_one_that_fails_again_is_asked_about_again(broker: EmbeddedBroker) -> None:
    async def fail(gap: Gap, ctx: Context) -> None:
        raise ConnectionError("still away")

    app = reconciling(app_with(Runs()), Refills(), fail, attempts=1)
    short = {"handler_timeout_s": 0.4, "lease_s": 1.0, "ack_wait_s": 1.2}
    async with house(broker, SOURCE, pool=short) as home:
        await begin(home, app)
        await publish_record(home)
        async with working(home, app):
            (first,) = await see_questions(home, 1, QuestionKind.GAP)
            await say(home, first.id, "retry")

            async def asked_again() -> bool:
                open_now = await see_questions(home, 1, QuestionKind.GAP)
                return [2] == [one.attempt for one in open_now]

            await until(asked_again, "the second question")


async def test_a_gap_that_is_rejected_lies_among_the_dead(broker: EmbeddedBroker) -> None:
    async def refuse(gap: Gap, ctx: Context) -> None:
        raise Reject("too long ago")

    app = reconciling(app_with(Runs()), Refills(), refuse)
    async with house(broker, SOURCE) as home:
        await begin(home, app)
        await publish_record(home)
        async with working(home, app):
            await filled(home)
        row = await gap_row(home)
        (letter,) = await dead(home)
    assert (State.REJECTED, "rejected: too long ago") == (row.state, row.error)
    assert GAP == msgspec.json.decode(letter.payload, type=Gap)


async def test_an_event_without_a_key_is_not_emitted(broker: EmbeddedBroker) -> None:
    """It says so where it is emitted."""
    said: list[str] = []

    async def emit_keyless(gap: Gap, ctx: Context) -> None:
        for key in ("", "a\nb", "k" * 256):
            with pytest.raises(UsageError) as refused:
                await ctx.emit(type="task", key=key, data={})
            said.append(str(refused.value))

    app = reconciling(app_with(Runs()), Refills(), emit_keyless)
    async with house(broker, SOURCE) as home:
        await begin(home, app)
        await publish_record(home)
        async with working(home, app):
            await filled(home)
        assert [] == await home.events("app-shop")
    assert 3 == len(said) and all("key=" in text for text in said)


async def test_what_the_broker_cannot_carry_is_not_emitted(broker: EmbeddedBroker) -> None:
    """A message that is too large would close the connection for good."""

    async def emit_much(gap: Gap, ctx: Context) -> None:
        with pytest.raises(UsageError, match="max_payload"):
            await ctx.emit(type="task", key="a", data="x" * 1_000_000)
        await ctx.emit(type="task", key="a", data="x")

    runs = Runs()
    app = reconciling(app_with(runs), Refills(), emit_much)
    async with house(broker, SOURCE) as home:
        await begin(home, app)
        await publish_record(home)
        async with working(home, app):
            await filled(home)
    assert ['"x"'] == runs.keys


async def test_records_that_are_none_do_not_hold_up_others(broker: EmbeddedBroker) -> None:
    """Neither bytes that are no record, nor a record under another's subject."""
    refills = Refills()
    app = reconciling(app_with(Runs()), refills)
    async with house(broker, SOURCE) as home:
        await begin(home, app)
        subject = home.subjects.epoch("orders", SECOND)
        await home.connection.store(Message(subject, b"{"))
        await publish_record(home, gap=Gap(FIRST, "2", SECOND, "9"))
        stored = await home.connection.last(EVENTS, subject)
        assert stored is not None
        elsewhere = home.subjects.epoch("orders", THIRD)
        await home.connection.store(Message(elsewhere, stored.payload))
        async with working(home, app):
            await filled(home)
    assert [Gap(FIRST, "2", SECOND, "9")] == refills.gaps
