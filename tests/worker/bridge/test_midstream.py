"""In the middle of a connection: what turns the lineage, and from which event on."""

import msgspec

from fencepost.broker.embedded import EmbeddedBroker
from fencepost.ports import Message
from fencepost_schemas.question import Answer, QuestionKind, Ruling, seam_question_id
from fencepost_schemas.verdict import Gap
from kit.house import House, house
from kit.orders import IN_DATA, OPAQUE, RESET, TWO, live, orders, see
from kit.source import End, ScriptedSource, sse, stream


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


async def _rule(home: House, generation: str, ruling: Ruling) -> None:
    question = seam_question_id("orders", generation)
    answer = Answer(question, "orders", QuestionKind.SEAM, ruling, "ada", 0)
    await home.connection.store(
        Message(home.subjects.answer(question), msgspec.json.encode(answer))
    )
