"""Verdicts end to end: what a source does on the wire, and what is recorded and published of it."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from fencepost.broker.embedded import EmbeddedBroker
from fencepost_schemas.subject import EVENTS
from fencepost_schemas.verdict import Gap
from kit.house import house
from kit.loss import lose
from kit.orders import IN_DATA, OPAQUE, RESET, TOKENS, TWO, kind, live, orders, see, shelf
from kit.source import End, Reply, ScriptedSource, sse, stream
from kit.wait import until


def _refusal(status: int) -> Reply:
    return Reply(status=status, headers={"content-type": "text/plain"})


@dataclass(frozen=True)
class Case:
    """A source that brought ids 1 and 2 and then answers the reconnect with `second`."""

    name: str
    second: tuple[Reply, ...]
    verdict: str
    reasons: tuple[str, ...]
    before: str = ""
    exact: bool = False
    plain: dict[str, Any] = field(default_factory=lambda: TOKENS)
    first: Reply = TWO
    asked: tuple[str | None, ...] = (None, "2")


CASES = (
    Case(
        "every facet proven",
        (live(("3", '{"k":"c"}'), gen="g", floor="3"),),
        "resumed",
        ("generation_equal", "window_covers", "order_after"),
    ),
    Case(
        "an id before the one asked for",
        (live(("1", '{"k":"c"}'), gen="g", floor="1"),),
        "reoriginated",
        ("order_not_after",),
        before="1",
    ),
    Case(
        "the very id that was asked for",
        (live(("2", '{"k":"c"}'), gen="g", floor="1"),),
        "reoriginated",
        ("order_not_after",),
        before="2",
    ),
    Case(
        "another generation by header",
        (live(("3", '{"k":"c"}'), gen="h", floor="1"),),
        "reoriginated",
        ("generation_changed",),
        before="3",
    ),
    Case(
        "another generation by a pointer into the data",
        (live(("3", '{"k":"c","g":"two"}'), floor="1"),),
        "reoriginated",
        ("generation_changed",),
        before="3",
        plain=IN_DATA,
        first=stream(sse(("1", '{"k":"a","g":"one"}'), ("2", '{"k":"b","g":"one"}')), floor="1"),
    ),
    Case(
        "a window that was exceeded, the identity proven",
        (live(("7", '{"k":"c"}'), gen="g", floor="7"),),
        "reoriginated",
        ("window_exceeded",),
        before="7",
        exact=True,
    ),
    Case(
        "a window that was exceeded, the identity unknown",
        (live(("7", '{"k":"c"}'), floor="7"),),
        "unverifiable",
        ("window_exceeded", "generation_absent"),
        before="7",
    ),
    *(
        Case(
            f"the position refused with {status}",
            (_refusal(status), live(("8", '{"k":"c"}'), gen="g", floor="1")),
            "reoriginated",
            ("reset_status",),
            before="8",
            asked=(None, "2", None),
        )
        for status in (404, 410, 412)
    ),
    Case(
        "a reset event",
        (stream(sse(("3", '{"k":"c"}'), type="reset"), gen="g", floor="1", end=End.HANG),),
        "reoriginated",
        ("reset_event",),
        before="3",
        plain=RESET,
    ),
    Case(
        "the id taken back with an empty one",
        (stream(b'id\ndata: {"k":"c"}\n\n', gen="g", floor="1", end=End.HANG),),
        "reoriginated",
        ("reset_empty_id",),
    ),
    Case(
        "nothing declared",
        (live(("3", '{"k":"c"}')),),
        "unverifiable",
        ("window_absent", "generation_absent"),
        before="3",
        first=stream(sse(("1", '{"k":"a"}'), ("2", '{"k":"b"}'))),
    ),
    Case(
        "ids without order",
        (live(("3", '{"k":"c"}'), gen="g", floor="1"),),
        "unverifiable",
        ("window_absent", "order_unknown"),
        before="3",
        plain=OPAQUE,
    ),
    Case(
        "a tail without an id",
        (live(("3", '{"k":"c"}'), gen="g", floor="1"),),
        "unverifiable",
        ("tail_without_id",),
        before="3",
        first=stream(sse(("2", '{"k":"a"}')), b'data: {"k":"b"}\n\n', gen="g", floor="1"),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
async def test_a_reconnect_is_judged_by_what_the_source_shows(
    broker: EmbeddedBroker, case: Case
) -> None:
    """The verdict, its reasons, its gap, what was asked, and genesis once and only once."""
    async with (
        ScriptedSource(case.first, *case.second) as source,
        house(broker, orders(source.url, plain=case.plain)) as home,
    ):
        await home.init()
        async with home.bridge():
            await see(home, 3)

        first, second = await home.records()
        assert ("genesis", case.verdict) == (first.verdict.kind, second.verdict.kind)
        assert case.reasons == tuple(reason.value for reason in second.verdict.reasons)
        assert [*case.asked] == [request.asked for request in source.requests]
        last = "2+1" if case.reasons == ("tail_without_id",) else "2"
        if case.verdict == "resumed":
            assert (first.generation, None) == (second.generation, second.gap)
        else:
            assert first.generation != second.generation
            gap = Gap(first.generation, last, second.generation, case.before, exact=case.exact)
            assert gap == second.gap
        event = (await home.events())[-1]
        assert (second.generation, case.verdict) == (event.generation, event.verdict)


async def test_a_record_precedes_what_it_governs(broker: EmbeddedBroker) -> None:
    """In the stream, the verdict of a generation stands before the first event of it."""
    script = (TWO, live(("1", '{"k":"c"}'), gen="h", floor="1"))
    async with ScriptedSource(*script) as source, house(broker, orders(source.url)) as home:
        await home.init()
        async with home.bridge():
            await see(home, 3)

        order = [
            (kind(stored), stored.subject.split(".")[3])
            for stored in await shelf(home)
            if kind(stored) != "cursors"
        ]
        one, two = (record.generation for record in await home.records())
        # init's record, the genesis record, two events; the second record, one event.
        assert [
            ("epochs", one),
            ("epochs", one),
            ("events", one),
            ("events", one),
            ("epochs", two),
            ("events", two),
        ] == order


async def test_a_good_reconnect_does_not_launder_a_doubt(broker: EmbeddedBroker) -> None:
    """A proven resume inside an unverifiable generation keeps the standing that it had.

    The doubt stays in the subject and in the header; the connection's own verdict is beside it.
    """
    script = (
        TWO,
        stream(sse(("3", '{"k":"c"}')), gen="g"),
        live(("4", '{"k":"d"}'), gen="g", floor="1"),
    )
    async with ScriptedSource(*script) as source, house(broker, orders(source.url)) as home:
        await home.init()
        async with home.bridge():
            await see(home, 4)

        assert ["genesis", "unverifiable", "resumed"] == await home.verdicts()
        _, _, third, fourth = await home.events()
        assert third.generation == fourth.generation
        assert ("unverifiable", "unverifiable") == (third.standing, third.verdict)
        assert ("unverifiable", "resumed") == (fourth.standing, fourth.verdict)
        subject = [one.subject for one in await shelf(home) if kind(one) == "events"][-1]
        assert "unverifiable" == subject.split(".")[4]


async def test_a_worse_verdict_stays_in_the_lineage(broker: EmbeddedBroker) -> None:
    """What is re-originated from an unverifiable generation is unverifiable still."""
    script = (
        TWO,
        stream(sse(("3", '{"k":"c"}'))),
        live(("1", '{"k":"d"}'), gen="h", floor="1"),
    )
    async with ScriptedSource(*script) as source, house(broker, orders(source.url)) as home:
        await home.init()
        async with home.bridge():
            await see(home, 4)

        assert ["genesis", "unverifiable", "reoriginated"] == await home.verdicts()
        assert ["genesis", "genesis", "unverifiable", "unverifiable"] == [
            event.standing for event in await home.events()
        ]


async def test_an_error_page_of_another_replica_is_no_refusal(broker: EmbeddedBroker) -> None:
    """503 under another generation's header means "later", and the position is asked again."""
    busy = Reply(status=503, headers={"gen": "h"})
    script = (TWO, busy, live(("3", '{"k":"c"}'), gen="g", floor="1"))
    async with ScriptedSource(*script) as source, house(broker, orders(source.url)) as home:
        await home.init()
        async with home.bridge():
            await see(home, 3)

        assert ["genesis", "resumed"] == await home.verdicts()
        assert [None, "2", "2"] == [request.asked for request in source.requests]


async def test_a_missing_cursor_is_never_a_beginning(broker: EmbeddedBroker) -> None:
    """The cursor is gone and the records are there: neither bridge nor init begins anew."""
    async with ScriptedSource(TWO) as source, house(broker, orders(source.url)) as home:
        await home.init()
        await lose(home.connection, EVENTS, home.subjects.cursor("orders"))
        async with home.bridge() as running:
            await until(running.done, "the bridge's end")
            assert "its cursor is gone" in str(running.exception())
        with pytest.raises(Exception, match="its cursor is gone"):
            await home.init()


async def test_a_cursor_that_vanishes_stops_the_bridge_by_its_name(
    broker: EmbeddedBroker,
) -> None:
    """The data was lost under a running bridge: it says so, and blames no other bridge."""
    script = (TWO, live(("3", '{"k":"c"}'), gen="g", floor="1"))
    async with ScriptedSource(*script) as source, house(broker, orders(source.url)) as home:
        await home.init()
        async with home.bridge() as running:
            await see(home, 3)
            await lose(home.connection, EVENTS, home.subjects.cursor("orders"))
            source.cut()
            await until(running.done, "the bridge's end")
            assert "its cursor is gone" in str(running.exception())
