"""One trace leads from the connection to the effect, and no span tells what it must not."""

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from fencepost import Context
from fencepost.broker.embedded import EmbeddedBroker
from fencepost_schemas.question import QuestionKind
from fencepost_schemas.subject import EVENTS
from kit.house import house
from kit.orders import orders, see
from kit.pool import Runs, app_with, see_questions, settle, working
from kit.source import End, ScriptedSource, sse, stream

SECRETS = {
    "url": "hunter2",
    "header": "bearer-77",
    "id": "4118",
    "key": "key-of-ada",
    "token": "gen-token-9",
    "payload": "of-the-payload",
    "error": "what-went-wrong",
}


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """The SDK with an exporter in memory, for one test."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    yield exporter
    provider.shutdown()


def named(spans: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in spans.get_finished_spans() if span.name == name]


def source_config(url: str) -> dict[str, Any]:
    return orders(f"{url}?password={SECRETS['url']}", headers={"authorization": SECRETS["header"]})


async def test_one_trace_leads_from_the_connection_to_the_effect(
    broker: EmbeddedBroker, spans: InMemorySpanExporter
) -> None:
    """connect is the parent of publish, publish of process; each event carries the thread."""
    data = f'{{"k":"{SECRETS["key"]}","text":"{SECRETS["payload"]}"}}'
    events = sse((SECRETS["id"], data), ("4119", '{"k":"b"}'))
    first = stream(events, gen=SECRETS["token"], floor="1")
    second = stream(sse(("4120", '{"k":"c"}')), gen=SECRETS["token"], floor="1", end=End.HANG)
    async with (
        ScriptedSource(first, second) as source,
        house(broker, source_config(source.url)) as home,
    ):
        await home.init()
        runs = Runs()
        async with home.bridge(), working(home, app_with(runs)):
            await see(home, 3)
            await settle(home)
        scan = home.connection.scan(EVENTS, home.subjects.events_of())
        headers = [stored.headers async for stored in scan]
    assert len(runs.done) == 3
    connects = named(spans, "connect orders")
    publishes = named(spans, "publish orders")
    processes = named(spans, "process charge")
    assert len(connects) == 2
    assert len(processes) == 3
    by_id = {span.context.span_id: span for span in spans.get_finished_spans() if span.context}
    for process in processes:
        assert process.parent is not None
        publish = by_id[process.parent.span_id]
        assert publish in publishes
        assert publish.parent is not None
        assert by_id[publish.parent.span_id] in connects
        assert process.context is not None
        trace_id = f"{process.context.trace_id:032x}"
        assert any(trace_id in one["traceparent"] for one in headers)
    assert all("traceparent" in one for one in headers)
    verdicts = {(span.attributes or {})["fencepost.verdict"] for span in connects}
    assert verdicts == {"genesis", "resumed"}
    _tells_no_secret(spans)


async def test_no_span_tells_an_id_a_key_a_token_a_url_or_a_payload(
    broker: EmbeddedBroker, spans: InMemorySpanExporter
) -> None:
    """Nor does one that ends in an error: neither its attributes nor its events nor its status."""

    async def fail(payload: bytes, ctx: Context) -> None:
        raise RuntimeError(SECRETS["error"])

    data = f'{{"k":"{SECRETS["key"]}","text":"{SECRETS["payload"]}"}}'
    async with (
        ScriptedSource(
            stream(sse((SECRETS["id"], data)), gen=SECRETS["token"], floor="1", end=End.BREAK),
            stream(b": \xff\n\n", end=End.BREAK),
            stream(sse((SECRETS["id"], data)), gen="other", floor="1", end=End.HANG),
        ) as source,
        house(broker, source_config(source.url)) as home,
    ):
        await home.init()
        async with home.bridge(), working(home, app_with(Runs(), fail)):
            await see_questions(home, 1, QuestionKind.DOUBT)
            await see(home, 2)
            await settle(home)
    assert named(spans, "process charge")
    assert len(named(spans, "connect orders")) >= 3
    _tells_no_secret(spans)


def _tells_no_secret(spans: InMemorySpanExporter) -> None:
    for span in spans.get_finished_spans():
        told = span.to_json()
        for what, secret in SECRETS.items():
            assert secret not in told, f"{span.name} tells the {what}"
