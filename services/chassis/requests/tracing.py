"""Samples the requests of a process and sends their spans by OTLP over HTTP. Imported only where traces are on."""

import asyncio
import logging
import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import DEFAULT_ON
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, SpanKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from services.chassis.requests.spans import Traced, current

logger = logging.getLogger(__name__)

# Seconds that the end of a process may take to send the spans that wait.
CLOSING_S = 2.0
# They log each failed attempt (ReportedOnce logs one), headers that callers choose, and keys in headers of a setting.
for _chatty in ("opentelemetry.exporter", "opentelemetry.trace", "opentelemetry.util"):
    logging.getLogger(_chatty).setLevel(logging.CRITICAL)


class ReportedOnce(SpanExporter):
    """An exporter whose failures are logged once, with the spans lost when it works again. Runs on a thread."""

    def __init__(self, exporter: SpanExporter, endpoint: str) -> None:
        self._exporter = exporter
        self._endpoint = endpoint
        self._lost = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Sends spans; what cannot be sent is lost."""
        result = self._exporter.export(spans)
        if result is SpanExportResult.FAILURE:
            if not self._lost:
                logger.warning("spans are lost: no collector takes them", extra={"endpoint": self._endpoint})
            self._lost += len(spans)
        elif self._lost:
            logger.info("the collector takes spans again", extra={"endpoint": self._endpoint, "lost": self._lost})
            self._lost = 0
        return result

    def shutdown(self) -> None:
        """Closes the connection."""
        self._exporter.shutdown()


def otlp_exporter(endpoint: str) -> SpanExporter:
    """Returns an exporter to a collector's URL. OpenTelemetry's own variables add headers and a certificate."""
    session = requests.Session()
    session.trust_env = False  # no proxy and no password of the environment
    return ReportedOnce(OTLPSpanExporter(endpoint, session=session), endpoint)


class Tracing:
    """Owns the spans of a process: which requests are sampled, and the thread that sends what they recorded."""

    def __init__(self, service: str, exporter: SpanExporter, sampled: float) -> None:
        """`sampled`: the share of the requests without a trace of their caller's, which decides for its own."""
        self._sampled = sampled
        resource = Resource.create({"service.name": service})
        self._provider = TracerProvider(DEFAULT_ON, resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("retrieval-stack")
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def request(self, name: str, headers: Mapping[str, str]) -> Iterator[None]:
        """Records the block as a request: in its caller's trace, where the headers have a valid one, else in a new one.

        `headers` are by their names in lower case.
        """
        with current(Traced(self._tracer, self._begun(name, headers))):
            yield

    def _begun(self, name: str, headers: Mapping[str, str]) -> Span:
        above = self._propagator.extract(headers) if "traceparent" in headers else None
        if above or random.random() < self._sampled:
            return self._tracer.start_span(name, above, SpanKind.SERVER)
        # Nearly every request: OpenTelemetry's own sampler takes several times as long to say no.
        return NonRecordingSpan(SpanContext(random.getrandbits(128), random.getrandbits(64), is_remote=False))

    async def aclose(self) -> None:
        """Sends the spans that wait. Those that a slow collector has not taken within CLOSING_S are lost."""
        closing = threading.Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        await asyncio.to_thread(closing.join, CLOSING_S)
