"""Owns the span of the current request and begins spans beneath it. Does not sample or send them: tracing.py does.

Imports nothing of OpenTelemetry unless a request is traced.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

# Counts, configured names and outcomes. Never a key, nor the text of a document.
Attributes = Mapping[str, str | int | Sequence[str]]

_NO_SPAN = nullcontext()


@dataclass(frozen=True, slots=True)
class Traced:
    """The span of what runs now, and what begins those beneath it."""

    tracer: "Tracer"
    span: "Span"


_traced: ContextVar[Traced | None] = ContextVar("traced", default=None)


def is_recorded() -> bool:
    """Returns whether spans of the current request are kept: it is traced, and in the sample."""
    traced = _traced.get()
    return traced is not None and traced.span.is_recording()


def span(name: str, attributes: Attributes | None = None, *, calls: bool = False) -> AbstractContextManager[None]:
    """Records the block as a span beneath the current one. `calls`: it is a call of another process."""
    traced = _traced.get()
    if traced is None or not traced.span.is_recording():
        return _NO_SPAN
    return _recorded(traced, name, attributes, calls=calls)


@contextmanager
def _recorded(above: Traced, name: str, attributes: Attributes | None, *, calls: bool) -> Iterator[None]:
    from opentelemetry.trace import SpanKind, set_span_in_context

    kind = SpanKind.CLIENT if calls else SpanKind.INTERNAL
    below = above.tracer.start_span(name, set_span_in_context(above.span), kind, attributes)
    with current(Traced(above.tracer, below)):
        yield


@contextmanager
def current(traced: Traced) -> Iterator[None]:
    """Makes a span the current one within the block, and ends it. An error marks it by its type.

    The message of an error may repeat what the caller has sent.
    """
    token = _traced.set(traced)
    try:
        yield
    except BaseException as error:
        annotate({"error.type": type(error).__name__}, failed=True)
        raise
    finally:
        _traced.reset(token)
        traced.span.end()


def annotate(attributes: Attributes, *, failed: bool = False) -> None:
    """Adds attributes to the current span, if it is recorded."""
    traced = _traced.get()
    if traced is None or not traced.span.is_recording():
        return
    traced.span.set_attributes(attributes)
    if failed:
        from opentelemetry.trace import StatusCode

        traced.span.set_status(StatusCode.ERROR)


def trace_headers() -> dict[str, str]:
    """Returns the headers that carry the current trace to another process (W3C Trace Context); none without a trace."""
    traced = _traced.get()
    if traced is None:
        return {}
    context = traced.span.get_span_context()
    headers = {"traceparent": f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"}
    return headers | ({"tracestate": context.trace_state.to_header()} if context.trace_state else {})
