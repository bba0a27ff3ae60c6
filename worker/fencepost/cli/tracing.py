"""The OpenTelemetry SDK is set up here and nowhere else, by its own environment variables."""

import importlib
import logging
import os
import sys

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter

from fencepost.errors import UsageError

log = logging.getLogger("fencepost.cli")

VARIABLE = "OTEL_TRACES_EXPORTER"


def set_up_tracing(role: str) -> None:
    """Export spans as OTEL_TRACES_EXPORTER says: none (the default), console or otlp."""
    choice = os.environ.get(VARIABLE, "none").strip() or "none"
    if choice == "none":
        return
    if choice == "console":
        exporter: SpanExporter = ConsoleSpanExporter(out=sys.stderr)
    elif choice == "otlp":
        exporter = _otlp_exporter()
    else:
        raise UsageError(f"{VARIABLE}={choice}: use none, console or otlp")
    service = os.environ.get("OTEL_SERVICE_NAME", f"fencepost-{role}")
    provider = TracerProvider(resource=Resource.create({"service.name": service}))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)


def _otlp_exporter() -> SpanExporter:
    try:
        module = importlib.import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    except ImportError:
        raise UsageError(
            f"{VARIABLE}=otlp needs one more package: "
            "pip install opentelemetry-exporter-otlp-proto-http"
        ) from None
    exporter: SpanExporter = module.OTLPSpanExporter()
    return exporter


def flush_tracing() -> None:
    """Send the spans that wait, whoever set the provider up; this may take as long as it likes."""
    flush = getattr(trace.get_tracer_provider(), "force_flush", None)
    if flush is None:
        return
    try:
        flush()
    except Exception as error:  # whoever made the provider: it must not hold up the end
        log.warning("the last spans could not be sent: %s", type(error).__name__)
