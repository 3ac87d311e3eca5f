"""Spans of requests, kept in memory by OpenTelemetry's own exporter; exporters that fail."""

import asyncio
import logging
import subprocess
import sys
from collections.abc import Callable, Mapping

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from services.chassis.requests.spans import annotate, is_recorded, span, trace_headers
from services.chassis.requests.telemetry import begin_stages, timed
from services.chassis.requests.tracing import ReportedOnce, Tracing, otlp_exporter
from tests.support.processes import ROOT

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED = {"traceparent": f"00-{TRACE}-{CALLER}-01"}


def spans_of(work: Callable[[], None], headers: Mapping[str, str], sampled: float) -> dict[str, ReadableSpan]:
    """Does work within a request, and returns its spans by name."""
    exporter = InMemorySpanExporter()
    tracing = Tracing("small", exporter, sampled)
    with tracing.request("POST /search", headers):
        work()
    asyncio.run(tracing.aclose())
    return {one.name: one for one in exporter.get_finished_spans()}


def nested() -> None:
    begin_stages()
    with span("stage rerank"), span("call reranker", {"replica": "127.0.0.1"}, calls=True):
        annotate({"http.response.status_code": 200})
    with timed("encode"):
        pass


def test_spans_are_a_tree_of_one_trace() -> None:
    spans = spans_of(nested, {}, 1.0)
    above = {name: one.parent.span_id if one.parent else None for name, one in spans.items()}
    ids = {name: one.context.span_id for name, one in spans.items()}
    root = ids["POST /search"]
    assert above == {
        "POST /search": None,
        "stage rerank": root,
        "call reranker": ids["stage rerank"],
        "encode": root,
    }
    assert len({one.context.trace_id for one in spans.values()}) == 1
    assert dict(spans["call reranker"].attributes or {}) == {"replica": "127.0.0.1", "http.response.status_code": 200}
    assert [spans[name].kind.name for name in ("POST /search", "call reranker", "encode")] == [
        "SERVER",
        "CLIENT",
        "INTERNAL",
    ]
    assert {one.resource.attributes["service.name"] for one in spans.values()} == {"small"}


def test_a_valid_trace_of_the_caller_goes_on_whatever_is_sampled_here() -> None:
    sent: dict[str, str] = {}
    root = spans_of(lambda: sent.update(trace_headers()), SAMPLED | {"tracestate": "v=1"}, 0.0)["POST /search"]
    assert root.parent is not None
    assert (f"{root.context.trace_id:032x}", f"{root.parent.span_id:016x}") == (TRACE, CALLER)
    assert sent == {"traceparent": f"00-{TRACE}-{root.context.span_id:016x}-01", "tracestate": "v=1"}


@pytest.mark.parametrize("headers", [{}, {"traceparent": f"00-{TRACE}-{CALLER}-00"}], ids=["none", "not sampled"])
def test_a_request_outside_the_sample_has_no_spans_and_says_so_to_those_it_calls(headers: Mapping[str, str]) -> None:
    sent: dict[str, str] = {}
    recorded: list[bool] = []

    def work() -> None:
        nested()
        sent.update(trace_headers())
        recorded.append(is_recorded())

    assert spans_of(work, headers, 0.0) == {}
    assert recorded == [False]
    assert int(sent["traceparent"][-2:], 16) & 1 == 0
    assert (TRACE in sent["traceparent"]) is bool(headers)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "00",
        f"00-{TRACE.upper()}-{CALLER}-01",
        f"00-{'0' * 32}-{CALLER}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{CALLER}-01-more",
        f"ff-{TRACE}-{CALLER}-01",
        f"00-{TRACE}-{CALLER}-01" + " " * 9_000,
    ],
)
def test_an_invalid_trace_of_the_caller_is_ignored(header: str) -> None:
    root = spans_of(lambda: None, {"traceparent": header}, 1.0)["POST /search"]
    assert root.parent is None
    assert f"{root.context.trace_id:032x}" != TRACE


def test_an_error_marks_its_spans_by_its_type_and_never_by_its_words() -> None:
    def fails() -> None:
        with pytest.raises(ValueError, match="private"), span("stage bm25"):
            raise ValueError("private words")

    failed = spans_of(fails, {}, 1.0)["stage bm25"]
    assert not failed.status.is_ok
    assert "private" not in failed.to_json()
    assert dict(failed.attributes or {}) == {"error.type": "ValueError"}


def test_without_a_trace_there_are_no_spans_and_no_headers() -> None:
    with span("stage bm25"):
        annotate({"top": 10}, failed=True)
    assert (trace_headers(), is_recorded()) == ({}, False)


class Collector(SpanExporter):
    """Takes spans while it is up."""

    def __init__(self) -> None:
        self.up = False

    def export(self, spans: object) -> SpanExportResult:
        return SpanExportResult.SUCCESS if self.up else SpanExportResult.FAILURE


def test_a_collector_that_is_down_is_logged_once_and_with_what_was_lost_when_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    collector = Collector()
    exporter = ReportedOnce(collector, "http://127.0.0.1:4318/v1/traces")
    spans = list(spans_of(nested, {}, 1.0).values())
    with caplog.at_level(logging.INFO):
        exporter.export(spans)
        exporter.export(spans)
        collector.up = True
        exporter.export(spans)
        exporter.export(spans)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert vars(caplog.records[1])["lost"] == 2 * len(spans)


@pytest.mark.parametrize("state", ["secret", ",".join(f"v{number}=1" for number in range(33))])
def test_an_invalid_state_of_the_callers_trace_is_neither_passed_on_nor_logged(
    caplog: pytest.LogCaptureFixture, state: str
) -> None:
    sent: dict[str, str] = {}
    spans_of(lambda: sent.update(trace_headers()), SAMPLED | {"tracestate": state}, 0.0)
    assert (list(sent), caplog.text) == (["traceparent"], "")


def test_a_key_for_the_collector_that_is_written_wrongly_is_not_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization: Bearer private")
    otlp_exporter("http://127.0.0.1:4318/v1/traces").shutdown()
    assert "private" not in caplog.text


def test_where_traces_are_off_nothing_is_imported_but_what_fastapi_imports() -> None:
    program = (
        "import sys; from gateway.app import build_app; from gateway.settings import GatewaySettings;"
        "build_app(GatewaySettings());"
        "sys.exit([name for name in sys.modules if name.startswith(('opentelemetry.sdk', 'opentelemetry.exp'))] or 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
