"""A loss that a source proves is told at once, and not with the next event."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from fencepost import Context, Fencepost
from fencepost.broker.embedded import EmbeddedBroker
from fencepost.desk.adoption import doubted
from fencepost.desk.intentions import Intentions
from fencepost.desk.lineages import Lineages
from fencepost.errors import SourceStopped
from fencepost_schemas.cursor import Cursor, KnownLoss, Position
from fencepost_schemas.reason import Reason
from fencepost_schemas.standing import Standing
from fencepost_schemas.subject import EVENTS
from fencepost_schemas.verdict import EpochRecord, Gap
from kit.command import configure, run_command
from kit.gaps import Refills, filled, reconciling, register
from kit.house import House, house
from kit.orders import RESET, TOKENS, TWO, kind, live, orders, see, shelf
from kit.source import End, Reply, Request, ScriptedSource, sse, stream
from kit.speaker import Speaker, honest
from kit.wait import until

GONE = {**TOKENS, "reset_comments": ["^410:"]}
QUIET = {"gen": "g", "floor": "202"}
"""The second connection's headers: what follows 2 is gone up to 201, and nothing comes."""


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.bridge.early.EARLY_S", 0.3)


async def loss(home: House) -> KnownLoss | None:
    return (await home.cursor()).loss


async def see_loss(home: House) -> KnownLoss:
    """Return what is known to be gone, once it is."""

    async def known() -> bool:
        return await loss(home) is not None

    await until(known, "the loss to be told")
    found = await loss(home)
    assert found is not None
    return found


async def early_records(home: House) -> list[EpochRecord]:
    scan = home.connection.scan(EVENTS, home.subjects.epochs_of("orders"))
    records = [msgspec.json.decode(one.payload, type=EpochRecord) async for one in scan]
    return [record for record in records if record.early]


def silent(**headers: str) -> Reply:
    """Return an answer that stays open and brings nothing."""
    return stream(end=End.HANG, **headers)


def hello(said: str) -> bytes:
    return f"event: hello\ndata: {said}\n\n".encode()


def greeted(said: str, *events: tuple[str, str], **headers: str) -> Reply:
    """Return an answer that begins with a greeting, and stays open where it brings no event."""
    if events:
        return stream(hello(said), sse(*events), end=End.CLOSE, **headers)
    return stream(hello(said), end=End.HANG, **headers)


GREETING = {"scheme": "integer-dense", "generation_header": "gen", "control_events": ["hello"]}
FIRST = (("1", '{"k":"a"}'), ("2", '{"k":"b"}'))
CLEAN = {"gen": "g", "floor": "1"}
KINDS: dict[str, tuple[dict[str, Any], tuple[Reply, ...], set[str]]] = {
    "window": (TOKENS, (TWO, silent(**QUIET)), {"window_exceeded"}),
    "window alone": (
        {"scheme": "integer", "window_header": "floor", "overlap": "off"},
        (TWO, silent(floor="202")),
        {"window_exceeded"},
    ),
    "generation": (TOKENS, (TWO, silent(gen="h", floor="1")), {"generation_changed"}),
    "both": (
        TOKENS,
        (TWO, silent(gen="h", floor="202")),
        {"generation_changed", "window_exceeded"},
    ),
    "refusal": (RESET, (TWO, Reply(status=410), silent(**CLEAN)), {"reset_status"}),
    "comment": (
        GONE,
        (TWO, stream(b":410: Gone\n\n", end=End.HANG, gen="g", floor="1")),
        {"reset_comment"},
    ),
    "id taken back": (TOKENS, (TWO, stream(b"id\n\n", end=End.HANG, **CLEAN)), {"reset_empty_id"}),
    "status": (
        {**TOKENS, "status_header": "resume"},
        (TWO, silent(resume="reset", **CLEAN)),
        {"resume_denied"},
    ),
    "echo": (
        {**TOKENS, "echo_header": "echo"},
        (TWO, silent(echo="1", **CLEAN)),
        {"resume_point_other"},
    ),
    "cookie": (
        {"scheme": "integer", "generation_cookie": "sid", "window_header": "floor"},
        (stream(sse(*FIRST), floor="1", set_cookie="sid=a"), silent(floor="1", set_cookie="sid=b")),
        {"generation_changed"},
    ),
    "uptime": (
        {**GREETING, "generation_header": "", "uptime_control": "/up", "window_header": "floor"},
        (greeted('{"up":50}', *FIRST, floor="1"), greeted('{"up":3}', floor="1")),
        {"uptime_went_back"},
    ),
    "greeting": (
        {**GREETING, "generation_header": "", "generation_control": "/g"},
        (greeted('{"g":"g"}', *FIRST), greeted('{"g":"h"}')),
        {"generation_changed"},
    ),
    "count": (
        {**GREETING, "resume_control": "/newest", "window_count": 10},
        (greeted('{"newest":"2"}', *FIRST, gen="g"), greeted('{"newest":"300"}', gen="g")),
        {"window_exceeded"},
    ),
    "recovered": (
        {**GREETING, "recovered_control": "/r", "window_header": "floor"},
        (greeted('{"r":true}', *FIRST, **CLEAN), greeted('{"r":false}', **CLEAN)),
        {"resume_denied"},
    ),
    "first id": (
        {"scheme": "opaque", "generation_first_id": True, "overlap": "off"},
        (
            stream(b"id: x\n\n", sse(*FIRST)),
            stream(b"id: y\n\n", end=End.HANG),
        ),
        {"generation_changed"},
    ),
    "no first way to ask gets anywhere": (
        {"scheme": "integer", "generation_header": "gen"},
        (
            stream(sse(*FIRST, ("3", '{"k":"c"}')), gen="g"),
            stream(end=End.BREAK, gen="h"),
        ),
        {"generation_changed"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("named", KINDS)
async def test_what_is_said_before_any_event_is_told(
    broker: EmbeddedBroker, named: str, caplog: pytest.LogCaptureFixture
) -> None:
    """In the cursor, in what the desk says of the source, and once in the log."""
    plain, script, reasons = KINDS[named]
    async with (
        ScriptedSource(*script) as source,
        house(broker, orders(source.url, plain=plain)) as home,
    ):
        await home.init("earliest")
        with caplog.at_level(logging.WARNING, "fencepost.bridge"):
            async with home.bridge():
                await see(home, 2)
                told = await see_loss(home)
                (report,) = await Lineages(home.connection, home.subjects).reports(["orders"])
        assert reasons == {reason.value for reason in told.reasons}
        assert report.entry.loss == told and not report.entry.fine
        assert reasons <= {fact.reason for fact in report.loss_facts}
        (record,) = await early_records(home)
        cursor = await home.cursor()
        assert Gap(cursor.generation, str(cursor.position), "", "") == record.gap
        assert ["genesis"] == await home.verdicts()
    assert 1 == sum("does not have what follows" in line for line in caplog.messages)


async def test_ids_without_holes_tell_how_many_are_gone(broker: EmbeddedBroker) -> None:
    """What we have is not counted, though an overlap probe asks from further back."""
    plain = {**TOKENS, "scheme": "integer-dense", "overlap": "on"}
    script = (TWO, silent(**QUIET))
    async with (
        ScriptedSource(*script) as source,
        house(broker, orders(source.url, plain=plain)) as home,
    ):
        await home.init()
        async with home.bridge():
            await see(home, 2)
            assert 199 == (await see_loss(home)).missing


MIDDLE: dict[str, tuple[dict[str, Any], bytes, str]] = {
    "a comment": (GONE, b":410: Gone\n\n", "reset_comment"),
    "an id taken back": (TOKENS, b"id\n\n", "reset_empty_id"),
    "a greeting": (
        {**GREETING, "generation_control": "/g"},
        hello('{"g":"h"}'),
        "generation_changed",
    ),
}


@pytest.mark.parametrize("named", MIDDLE)
async def test_what_is_said_in_mid_stream_is_told(broker: EmbeddedBroker, named: str) -> None:
    """No event has to come; the connection that follows it is judged on it, as always."""
    plain, word, reason = MIDDLE[named]
    before = (TWO, stream(sse(("3", '{"k":"c"}')), word, end=End.HANG, **CLEAN))
    script = (*before, live(("4", '{"k":"d"}'), **CLEAN))
    async with (
        ScriptedSource(*script) as source,
        house(broker, orders(source.url, plain=plain)) as home,
    ):
        await home.init()
        async with home.bridge():
            await see(home, 3)
            told = await see_loss(home)
            assert ["genesis", "resumed"] == await home.verdicts()
            source.cut()
            await see(home, 4)
        assert [reason] == [one.value for one in told.reasons]
        assert await loss(home) is None
        verdict = (await home.records())[2].verdict
        assert ("reoriginated", [reason]) == (verdict.kind, [one.value for one in verdict.reasons])


class Beating(ScriptedSource):
    """Sends a heartbeat again and again where a reply would hang."""

    async def _send(self, reply: Reply, writer: asyncio.StreamWriter) -> None:
        if reply.end is not End.HANG:
            await super()._send(reply, writer)
            return
        await super()._send(replace(reply, end=End.BREAK), writer)
        while True:
            writer.write(b"8\r\n: beat\n\n\r\n")
            await writer.drain()
            await asyncio.sleep(0.02)


async def test_heartbeats_do_not_put_it_off(broker: EmbeddedBroker) -> None:
    """They are no event, however often they come."""
    async with Beating(TWO, silent(**QUIET)) as source, house(broker, orders(source.url)) as home:
        await home.init()
        async with home.bridge():
            await see(home, 2)
            await see_loss(home)


async def test_connections_that_contradict_each_other_write_no_more_than_there_are_reasons(
    broker: EmbeddedBroker,
) -> None:
    """Two replicas in turn, each for another reason, many times: one record, two notes."""
    replicas = (stream(gen="h", floor="1"), stream(end=End.CLOSE, **QUIET))
    script = (TWO, *(replicas * 8), silent(**QUIET))
    async with ScriptedSource(*script) as source, house(broker, orders(source.url)) as home:
        await home.init()
        async with home.bridge():
            await see(home, 2)
            await source.asked_times(len(script))
            await until(lambda: _said(home, 2), "both reasons")
        notes = [
            cursor.loss
            for stored in await shelf(home)
            if kind(stored) == "cursors"
            for cursor in [msgspec.json.decode(stored.payload, type=Cursor)]
            if cursor.loss is not None
        ]
        assert len(notes) <= 2
        assert 1 == len(await early_records(home))


async def _said(home: House, count: int) -> bool:
    told = await loss(home)
    return told is not None and len(told.reasons) == count


async def test_an_event_at_once_needs_no_early_word(broker: EmbeddedBroker) -> None:
    """Its verdict says it, and a reconciler is called once."""
    script = (TWO, live(("300", '{"k":"c"}'), **QUIET))
    async with ScriptedSource(*script) as source, house(broker, orders(source.url)) as home:
        await home.init()
        async with home.bridge():
            await see(home, 3)
        assert [] == await early_records(home)


@pytest.mark.parametrize("quiet", [True, False], ids=["quiet", "old"])
async def test_a_resume_beside_a_connection_that_goes_on(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, quiet: bool
) -> None:
    """Behind a silence its word counts, and the next event on the old one takes it back. About a
    connection that has only grown old it is our own doubt, and nobody is told."""
    monkeypatch.setattr("fencepost.bridge.renewal.RENEWAL_S_MAX", 0.5)
    bridge = {"quiet_s": 0.2 if quiet else 0.0, "connection_age_s": 0.0 if quiet else 0.2}

    def answer(speaker: Speaker, asked: str | None) -> Reply | Sequence[tuple[str, str]]:
        return silent(gen="h", floor="1") if len(speaker.requests) > 2 else honest(speaker, asked)

    source = Speaker(list(FIRST), answer, headers=CLEAN)
    async with source, house(broker, orders(source.url), bridge=bridge) as home:
        await home.init("earliest")
        async with home.bridge():
            await see(home, 2)
        await source.emit(("3", '{"k":"c"}'))
        async with home.bridge():
            await see(home, 3)
            await source.asked_times(3 if quiet else 4)
            if quiet:
                await see_loss(home)
            await source.emit(("4", '{"k":"d"}'))
            await see(home, 4)
            assert await loss(home) is None
        assert int(quiet) == len(await early_records(home))
        assert ["genesis", "resumed"] == await home.verdicts()


class McpServer(ScriptedSource):
    """Gives a new session each time that it is asked for one, and knows the last one only."""

    sessions = 0

    async def _respond(self, number: int, request: Request, writer: asyncio.StreamWriter) -> None:
        session, known = request.headers.get("mcp-session-id"), f"s{self.sessions}"
        if request.head.startswith("POST") and session is None:
            self.sessions += 1
            made = {"content-type": "application/json", "mcp-session-id": f"s{self.sessions}"}
            result = b'{"jsonrpc":"2.0","id":"1","result":{"protocolVersion":"2025-11-25"}}'
            await self._send(Reply((result,), headers=made), writer)
        elif request.head.startswith("POST"):
            await self._send(Reply(status=202, headers={}), writer)
        elif session != known:
            await self._send(Reply(status=404, headers={}), writer)
        else:
            await self._send(self.script[min(self.sessions, len(self.script)) - 1], writer)


async def test_a_session_that_is_gone_is_told(broker: EmbeddedBroker) -> None:
    """MCP: 404 twice, and a new session in which nothing comes."""
    event = b'id: 1\ndata: {"jsonrpc":"2.0","method":"notifications/x","params":{"k":"a"}}\n\n'
    source = McpServer(
        stream(event, end=End.HANG, mcp_session_id="s1"), silent(mcp_session_id="s2")
    )
    async with source:
        sources = {
            "orders": {
                "url": source.url,
                "keys": "durable",
                "key": "/params/k",
                "dialect": "mcp",
            }
        }
        async with house(broker, sources) as home:
            await home.init()
            async with home.bridge():
                await see(home, 1)
            source.sessions += 1  # it has forgotten the session
            async with home.bridge():
                told = await see_loss(home)
            assert "session_changed" in told.reasons


async def test_the_next_event_brings_the_verdict_and_takes_the_note_back(
    broker: EmbeddedBroker,
) -> None:
    """The generation begins with an event, as always; its gap has an end."""
    script = (TWO, silent(**QUIET), live(("300", '{"k":"c"}'), **QUIET), silent(**QUIET))
    async with ScriptedSource(*script) as source, house(broker, orders(source.url)) as home:
        await home.init()
        async with home.bridge():
            await see(home, 2)
            await see_loss(home)
            source.cut()
            await see(home, 3)
        assert ["genesis", "reoriginated"] == await home.verdicts()
        assert await loss(home) is None
        _, second = await home.records()
        assert second.gap is not None and "300" == second.gap.before_position


async def test_a_replica_that_is_the_right_one_again_takes_the_note_back(
    broker: EmbeddedBroker,
) -> None:
    """It goes on behind what we have, so nothing was lost; the same note is not written again."""
    wrong = silent(gen="h", floor="1")
    right = live(("3", '{"k":"c"}'), gen="g", floor="1")
    script = (TWO, wrong, wrong, right, silent(gen="g", floor="1"))
    async with ScriptedSource(*script) as source, house(broker, orders(source.url)) as home:
        await home.init()
        async with home.bridge():
            await see(home, 2)
            await see_loss(home)
            source.cut()  # and each one that follows
            await see(home, 3)
        assert ["genesis", "resumed"] == await home.verdicts()
        assert await loss(home) is None
        assert 1 == len(await early_records(home))


async def test_the_note_survives_its_bridge(broker: EmbeddedBroker) -> None:
    """Another bridge takes the source over and finds it written down."""
    script = (TWO, silent(**QUIET), silent(**QUIET))
    async with ScriptedSource(*script) as source, house(broker, orders(source.url)) as home:
        await home.init()
        async with home.bridge():
            await see(home, 2)
            told = await see_loss(home)
        async with home.bridge():
            await source.asked_times(3)
            assert told == await loss(home)
        assert 1 == len(await early_records(home))


async def test_the_reconciler_is_called_at_once_and_again_when_the_end_is_known(
    broker: EmbeddedBroker,
) -> None:
    """What comes between the two calls is in the second one."""
    refills = Refills()
    app = reconciling(Fencepost("shop"), refills)
    script = (TWO, silent(**QUIET), live(("300", '{"k":"c"}'), **QUIET), silent(**QUIET))
    async with ScriptedSource(*script) as source, house(broker, orders(source.url)) as home:
        await home.init()
        async with home.worker(app):

            async def listening() -> bool:
                info = await home.connection.api(f"CONSUMER.INFO.{EVENTS}.fp-shop-gaps-orders")
                return "error" not in info

            await until(listening, "the reconciler's consumer")
            async with home.bridge():
                await see(home, 2)
                await refills.called.wait()
                assert [("2", "")] == [
                    (gap.after_position, gap.before_position) for gap in refills.gaps
                ]
                source.cut()
                await until(lambda: len(refills.gaps) == 2, "the second call")
    assert [("2", ""), ("2", "300")] == [
        (gap.after_position, gap.before_position) for gap in refills.gaps
    ]


async def test_sources_ls_ends_with_1(broker: EmbeddedBroker, tmp_path: Any) -> None:
    """Somebody who looks, or a script that does, hears of it before the next event."""
    async with (
        ScriptedSource(TWO, silent(**QUIET)) as source,
        house(broker, orders(source.url)) as home,
    ):
        await home.init()
        configure(tmp_path, broker.url, orders(source.url))
        async with home.bridge(shares=True):
            await see(home, 2)
            await see_loss(home)
            ran = await run_command("sources", "ls", folder=tmp_path)
            shown = await run_command("sources", "show", "orders", folder=tmp_path)
    assert (1, 1) == (ran.code, shown.code)
    for out in (ran.out, shown.out):
        assert "events are gone since the last one (window_exceeded), not judged yet" in out
    for told in ("a verdict needs the next event", "window contradicts completeness"):
        assert told in shown.out


async def test_a_source_that_stops_takes_no_word_with_it(broker: EmbeddedBroker) -> None:
    """It says that it has ended, in another generation: nobody will look at it again."""
    plain = {**TOKENS, "end_data": ["[DONE]"]}
    script = (TWO, stream(b"data: [DONE]\n\n", gen="h", floor="1"))
    async with (
        ScriptedSource(*script) as source,
        house(broker, orders(source.url, plain=plain)) as home,
    ):
        await home.init()
        with pytest.raises(SourceStopped, match="has ended"):
            async with home.bridge() as running:
                await running
        told = await loss(home)
        assert told is not None and (Reason.GENERATION_CHANGED,) == told.reasons


async def test_a_loss_that_was_none_is_not_called_for_later(broker: EmbeddedBroker) -> None:
    """No worker ran while it was told; a verdict has taken it back since."""
    refills = Refills()
    app = reconciling(Fencepost("shop"), refills)
    right = live(("3", '{"k":"c"}'), gen="g", floor="1")
    script = (TWO, silent(gen="h", floor="1"), right, silent(**CLEAN))
    async with ScriptedSource(*script) as source, house(broker, orders(source.url)) as home:
        await home.init()
        await register(home, app)
        async with home.bridge():
            await see(home, 2)
            await see_loss(home)
            source.cut()
            await see(home, 3)
        assert 1 == len(await early_records(home))
        async with home.worker(app):
            await filled(home)
    assert [] == refills.gaps


async def test_one_loss_is_called_for_once_before_its_end(broker: EmbeddedBroker) -> None:
    """Connections come and go, and each says it, in other words; a failing call is tried again."""
    refills = Refills()

    async def fail_once(gap: Gap, ctx: Context) -> None:
        if len(refills.gaps) == 1:
            raise ConnectionError("away")

    app = reconciling(Fencepost("shop"), refills, fail_once)
    turns = (stream(gen="h", floor="1"), stream(end=End.CLOSE, **QUIET)) * 4
    script = (TWO, silent(**QUIET), *turns, silent(**QUIET))
    async with ScriptedSource(*script) as source, house(broker, orders(source.url)) as home:
        await home.init()
        await register(home, app)
        async with home.worker(app), home.bridge():
            await see(home, 2)
            await until(lambda: len(refills.gaps) == 2, "the second attempt")
            source.cut()
            await source.asked_times(len(script))
            await until(lambda: _said(home, 2), "both reasons")
            await filled(home)
    assert [1, 2] == refills.attempts
    assert 1 == len(set(map(str, refills.gaps))) and not refills.gaps[0].has_end


async def test_a_person_who_begins_it_anew_leaves_the_note_until_the_verdict(
    broker: EmbeddedBroker,
) -> None:
    """Nothing new is told of a connection that is another stream because somebody wishes that."""
    script = (TWO, silent(**QUIET), live(("300", '{"k":"c"}'), **QUIET), silent(**QUIET))
    async with ScriptedSource(*script) as source, house(broker, orders(source.url)) as home:
        await home.init()
        async with home.bridge():
            await see(home, 2)
            told = await see_loss(home)
        desk = Intentions(home.connection, home.subjects, frozenset(["orders"]))
        await desk.rebaseline("orders", "now", "ada", "why not")
        assert told == await loss(home)
        async with home.bridge():
            await see(home, 3)
        assert await loss(home) is None
        assert 1 == len(await early_records(home))


def test_another_ledger_forgets_no_loss() -> None:
    """Who adopts a ledger opens a generation in doubt, and no event has come."""
    known = KnownLoss((Reason.WINDOW_EXCEEDED,), 1)
    cursor = Cursor("crm", "0001-aaaaaaaa", Standing.RESUMED, "l", "b", Position("7"), loss=known)
    assert known == doubted(cursor, "bbbbbbbb").loss
