"""In the middle of a connection: what turns the lineage, and from which event on."""

from typing import Any

import msgspec
import pytest

from fencepost.broker.embedded import EmbeddedBroker
from fencepost.ports import Message
from fencepost_schemas.question import Answer, QuestionKind, Ruling, seam_question_id
from fencepost_schemas.verdict import Gap
from kit.house import House, house
from kit.orders import IN_DATA, OPAQUE, RESET, TOKENS, TWO, live, orders, see
from kit.source import End, ScriptedSource, sse, stream

DENSE = {**TOKENS, "scheme": "integer-dense"}
GONE = {**TOKENS, "reset_comments": ["^410:"]}
CODED = {**TOKENS, "reset_codes": ["lagged"], "reset_pointer": "/code"}
COMMENT = b":410: Gone\n\n"
INJECTED = b"Failed to retrieve next link.\n\n"


def numbered(*numbers: int) -> bytes:
    return sse(*((str(number), f'{{"k":"k{number}"}}') for number in numbers))


async def test_an_id_that_falls_back_opens_a_generation_in_mid_stream(
    broker: EmbeddedBroker,
) -> None:
    """From the event with the lower id on, and not before it, it is another generation."""
    body = sse(("1", '{"k":"a"}'), ("2", '{"k":"b"}'), ("1", '{"k":"c"}'), ("2", '{"k":"d"}'))
    script = (stream(body, gen="g", floor="1", end=End.HANG),)
    async with ScriptedSource(*script) as source, house(broker, orders(source.url)) as home:
        await home.init()
        async with home.bridge():
            await see(home, 4)

        first, second = await home.records()
        assert ("reoriginated", ("order_not_after",)) == (
            second.verdict.kind,
            second.verdict.reasons,
        )
        assert Gap(first.generation, "2", second.generation, "1") == second.gap
        places = [(event.generation, event.position) for event in await home.events()]
        assert [(first.generation, "1"), (first.generation, "2")] == places[:2]
        assert [(second.generation, "1"), (second.generation, "2")] == places[2:]
        assert 1 == len(source.requests)


async def test_another_token_opens_a_generation_in_mid_stream(broker: EmbeddedBroker) -> None:
    """A pointer in the data names the generation of each event; the next reconnect asks in it."""
    body = sse(("1", '{"k":"a","g":"x"}'), ("2", '{"k":"b","g":"y"}'), ("3", '{"k":"c","g":"y"}'))
    script = (stream(body, floor="1"), live(("4", '{"k":"d","g":"y"}'), floor="1"))
    async with (
        ScriptedSource(*script) as source,
        house(broker, orders(source.url, plain=IN_DATA)) as home,
    ):
        await home.init()
        async with home.bridge():
            await see(home, 4)

        assert ["genesis", "reoriginated", "resumed"] == await home.verdicts()
        first, second, third = await home.records()
        assert ["x", "y", "y"] == [first.token, second.token, third.token]
        assert [first.generation] + [second.generation] * 3 == [
            event.generation for event in await home.events()
        ]


async def test_a_reset_event_in_mid_stream_turns_the_lineage(broker: EmbeddedBroker) -> None:
    """The reset event itself belongs to the new generation; the cursor follows it there."""
    body = (sse(("1", '{"k":"a"}')), sse(("2", "{}"), type="reset"), sse(("3", '{"k":"b"}')))
    script = (stream(*body, gen="g", floor="1", end=End.HANG),)
    async with (
        ScriptedSource(*script) as source,
        house(broker, orders(source.url, plain=RESET)) as home,
    ):
        await home.init()
        async with home.bridge():
            await see(home, 3)

        first, second = await home.records()
        assert ("reset_event",) == second.verdict.reasons
        assert [first.generation] + [second.generation] * 2 == [
            event.generation for event in await home.events()
        ]
        assert second.generation == (await home.cursor()).generation


async def test_events_without_an_id_of_their_own_keep_apart(broker: EmbeddedBroker) -> None:
    """They inherit the last id and count on from it; so does a constant id."""
    body = (b'data: {"k":"z"}\n\n', b'data: {"k":"y"}\n\n', sse(("5", '{"k":"a"}')))
    more = (b'data: {"k":"b"}\n\n', b'data: {"k":"c"}\n\n', sse(("5", '{"k":"d"}')))
    script = (stream(*body, *more, gen="g", floor="1", end=End.HANG),)
    async with (
        ScriptedSource(*script) as source,
        house(broker, orders(source.url, plain=OPAQUE)) as home,
    ):
        await home.init()
        async with home.bridge():
            await see(home, 6)

        positions = [event.position for event in await home.events()]
        assert ["", "+1", "5", "5+1", "5+2", "5+3"] == positions


async def test_a_ruling_counts_for_a_turn_in_mid_stream_too(broker: EmbeddedBroker) -> None:
    """A person accepted the doubtful generation: what is turned from it inherits no doubt."""
    script = (
        TWO,
        stream(sse(("3", '{"k":"c"}')), gen="g", end=End.HANG),
        stream(sse(("4", '{"k":"d"}')), sse(("1", '{"k":"e"}')), gen="g", floor="1", end=End.HANG),
    )
    async with ScriptedSource(*script) as source, house(broker, orders(source.url)) as home:
        await home.init()
        async with home.bridge():
            await see(home, 3)
            await _rule(home, (await home.records())[-1].generation, Ruling.ACCEPT)
            source.cut()
            await see(home, 5)

        # Once cut, the source repeats its last answer; only the first four verdicts count here.
        verdicts = (await home.verdicts())[:4]
        assert ["genesis", "unverifiable", "resumed", "reoriginated"] == verdicts
        assert ["unverifiable", "unverifiable", "reoriginated"] == [
            event.standing for event in (await home.events())[2:5]
        ]


@pytest.mark.parametrize(
    ("plain", "chunks", "kind", "reason", "gap"),
    [
        (TOKENS, [numbered(4), numbered(2)], "reoriginated", "order_not_after", ("4", "2", False)),
        (
            TOKENS,
            [numbered(4), sse(("4", '{"k":"other"}'))],
            "reoriginated",
            "id_reused",
            ("4", "4", False),
        ),
        (DENSE, [numbered(4), numbered(7)], "reoriginated", "dense_hole", ("4", "7", True)),
        (GONE, [numbered(4), COMMENT, numbered(5)], "reoriginated", "reset_comment", ("4", "5")),
        (
            CODED,
            [numbered(4), sse(("5", '{"code":"lagged"}'))],
            "reoriginated",
            "reset_code",
            ("4", "5"),
        ),
        (
            RESET,
            [numbered(4), sse(("5", '{"k":"k5"}'), type="reset")],
            "reoriginated",
            "reset_event",
            ("4", "5"),
        ),
        (
            TOKENS,
            [numbered(4), INJECTED, numbered(5)],
            "reoriginated",
            "text_injected",
            ("4", "5", False),
        ),
    ],
    ids=["falls back", "other bytes", "a hole", "a comment", "a code", "an event", "injected text"],
)
async def test_what_speaks_against_a_proven_stream_turns_it_at_that_frame(
    broker: EmbeddedBroker,
    plain: dict[str, Any],
    chunks: list[bytes],
    kind: str,
    reason: str,
    gap: tuple[Any, ...],
) -> None:
    """What came before it stays in the old generation, the event itself begins the new one."""
    after, before, exact = (*gap, False)[:3]
    script = (
        stream(numbered(1, 2), gen="g", floor="1"),
        stream(numbered(3), *chunks, numbered(8, 9), gen="g", floor="1", end=End.HANG),
    )
    async with (
        ScriptedSource(*script) as source,
        house(broker, orders(source.url, plain=plain)) as home,
    ):
        await home.init()
        async with home.bridge():
            await see(home, 7)

        assert ["genesis", "resumed", kind] == (await home.verdicts())[:3]
        turned = (await home.records())[2]
        assert reason in {one.value for one in turned.verdict.reasons}
        assert turned.gap is not None
        assert (after, before, exact) == (
            turned.gap.after_position,
            turned.gap.before_position,
            turned.gap.exact,
        )
        assert (2 if reason == "dense_hole" else 0) == turned.gap.missing
        generations = [event.generation for event in await home.events()]
        assert [turned.parent] * 4 == generations[:4]
        assert turned.generation == generations[4]
        assert turned.parent not in generations[4:]
        assert 2 == len(source.requests)


async def test_a_hole_where_nothing_says_which_generation_it_is(broker: EmbeddedBroker) -> None:
    """The first connection proves no identity: what is missing is told, and it is doubted."""
    script = (stream(numbered(1, 2, 5, 6), end=End.HANG),)
    plain = {"scheme": "integer-dense"}
    async with (
        ScriptedSource(*script) as source,
        house(broker, orders(source.url, plain=plain)) as home,
    ):
        await home.init()
        async with home.bridge():
            await see(home, 4)

        assert ["genesis", "unverifiable"] == await home.verdicts()
        gap = (await home.records())[1].gap
        assert gap is not None
        assert ("2", "5") == (gap.after_position, gap.before_position)


@pytest.mark.parametrize("last", [COMMENT, INJECTED], ids=["a comment", "injected text"])
async def test_a_word_before_a_clean_end_is_not_forgotten(
    broker: EmbeddedBroker, last: bytes
) -> None:
    """The next connection is judged on a goodbye; a proxy's page behind the last event spoils none,

    and whether anything is missing behind it is what that connection's resume proves.
    """
    script = (
        stream(numbered(1, 2), gen="g", floor="1"),
        stream(numbered(3), last, gen="g", floor="1"),
        stream(numbered(4), gen="g", floor="1", end=End.HANG),
    )
    async with (
        ScriptedSource(*script) as source,
        house(broker, orders(source.url, plain=GONE)) as home,
    ):
        await home.init()
        async with home.bridge():
            await see(home, 4)

        verdicts = await home.verdicts()
        assert (["reoriginated"] if last is COMMENT else ["resumed"]) == verdicts[2:3]
        assert ["k1", "k2", "k3", "k4"] == [event.key for event in await home.events()]


async def test_a_heartbeat_with_a_strange_line_is_no_event(broker: EmbeddedBroker) -> None:
    """Fields that the source is known to send beside events are not taken for a proxy's page."""
    plain = {**TOKENS, "extra_fields": True}
    body = (numbered(1), b"seen: now\n\n", numbered(2))
    script = (stream(*body, gen="g", floor="1", end=End.HANG),)
    async with (
        ScriptedSource(*script) as source,
        house(broker, orders(source.url, plain=plain)) as home,
    ):
        await home.init()
        async with home.bridge():
            await see(home, 2)

        assert ["genesis"] == await home.verdicts()


async def _rule(home: House, generation: str, ruling: Ruling) -> None:
    question = seam_question_id("orders", generation)
    answer = Answer(question, "orders", QuestionKind.SEAM, ruling, "ada", 0)
    await home.connection.store(
        Message(home.subjects.answer(question), msgspec.json.encode(answer))
    )
