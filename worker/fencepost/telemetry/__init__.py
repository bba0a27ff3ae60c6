"""Spans through the OpenTelemetry API; the command line alone sets up the SDK.

| span              | made by             | kind     | attributes                                 |
|-------------------|---------------------|----------|--------------------------------------------|
| `connect SOURCE`  | bridge, connection  | client   | source, verdict, reasons, generation       |
| `publish SOURCE`  | bridge, batch       | producer | source, generation, message count          |
| `process HANDLER` | pool, attempt       | consumer | handler, source, generation, attempt       |

The context of `publish` travels in each event's `traceparent` header, so that a trace leads from
the effect back to the connection that brought the event. No id, key, token or url is an attribute.
"""

from collections.abc import Mapping

from opentelemetry import context, trace
from opentelemetry.trace import SpanKind, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_propagator = TraceContextTextMapPropagator()

CONNECT, PUBLISH, PROCESS = SpanKind.CLIENT, SpanKind.PRODUCER, SpanKind.CONSUMER


def traced() -> bool:
    """Return True where somebody takes spans; making them costs something for every event."""
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


def tracer() -> Tracer:
    return trace.get_tracer("fencepost")


def trace_headers() -> dict[str, str]:
    """Return the headers that carry the current span; empty where nothing is traced."""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier)
    return carrier


def remote_context(headers: Mapping[str, str]) -> context.Context:
    """Return the context that these headers carry."""
    return _propagator.extract(dict(headers))
