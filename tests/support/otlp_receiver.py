"""A collector of traces: takes OTLP over HTTP on a free port, and puts spans in the order of their tree."""

import gzip
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue


@dataclass(frozen=True, slots=True)
class ReceivedSpan:
    """A span as it arrived. Ids are hexadecimal; `above` is empty where there is none."""

    service: str
    name: str
    trace: str
    id: str
    above: str
    began_ms: float
    ms: float
    attributes: dict[str, object]


@dataclass
class Receiver:
    """What arrived so far, and where to send it."""

    endpoint: str = ""
    bodies: list[bytes] = field(default_factory=list)

    def spans(self) -> list[ReceivedSpan]:
        return [span for body in self.bodies for span in _spans(body)]

    def trace_of(self, name: str) -> list[ReceivedSpan]:
        """Returns the spans of the last trace that has a span of this name; none before it arrives."""
        spans = self.spans()
        traces = [span.trace for span in spans if span.name == name]
        return [span for span in spans if traces and span.trace == traces[-1]]


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Takes spans until the end of the block."""
    receiver = Receiver()

    class Taking(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.bodies.append(gzip.decompress(body) if self.headers["content-encoding"] == "gzip" else body)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Taking) as server:
        receiver.endpoint = f"http://127.0.0.1:{server.server_port}/v1/traces"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()


def _spans(body: bytes) -> Iterator[ReceivedSpan]:
    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        named = {one.key: _value(one.value) for one in resource.resource.attributes}
        for span in (span for scope in resource.scope_spans for span in scope.spans):
            began_ms, ended_ms = span.start_time_unix_nano / 1e6, span.end_time_unix_nano / 1e6
            yield ReceivedSpan(
                service=str(named["service.name"]),
                name=span.name,
                trace=span.trace_id.hex(),
                id=span.span_id.hex(),
                above=span.parent_span_id.hex(),
                began_ms=began_ms,
                ms=ended_ms - began_ms,
                attributes={one.key: _value(one.value) for one in span.attributes},
            )


def _value(value: AnyValue) -> object:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    return None if kind is None else getattr(value, kind)


def tree(spans: Sequence[ReceivedSpan], above: str = "", depth: int = 0) -> list[tuple[int, ReceivedSpan]]:
    """Returns the spans beneath the span `above`, each with its depth and before those beneath it, by their begins."""
    found = []
    for span in sorted((span for span in spans if span.above == above), key=lambda span: span.began_ms):
        found += [(depth, span), *tree(spans, span.id, depth + 1)]
    return found
