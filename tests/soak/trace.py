"""One search of `hybrid-rerank` on real processes, traced: the tree of its spans as Jaeger gives it back.

Jaeger is built from its Go module, some minutes of CPU, and keeps the spans in memory. The everyday test reads them
from the receiver of tests/support instead.
"""

import asyncio
import random
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx
import pytest

from tests.soak import wire
from tests.soak.outcome import Bar, Outcome
from tests.soak.stack import COLLECTION, WORDS, documents, loaded_stack
from tests.support.go_programs import go_tool
from tests.support.otlp_receiver import ReceivedSpan, receiving, tree
from tests.support.processes import free_port

# Its ports that nothing here asks.
OTHER_PORTS = (
    "admin.http",
    "collector.grpc-server",
    "collector.http-server",
    "collector.otlp.grpc",
    "query.grpc-server",
)
JAEGER = "github.com/jaegertracing/jaeger/cmd/all-in-one@v1.76.0"
SEARCH = "POST /v1/collections/{collection}/search"
# What a tree must have: the process, the span, and how the span above it begins.
WANTED = (
    ("gateway", "wait", "POST"),
    ("gateway", "stage bm25", "POST"),
    ("gateway", "stage dense", "POST"),
    ("gateway", "stage fuse", "POST"),
    ("gateway", "stage rerank", "POST"),
    ("gateway", "stage include", "POST"),
    ("gateway", "call lexical", "stage bm25"),
    ("gateway", "call dense", "stage dense"),
    ("gateway", "call reranker", "stage rerank"),
    ("lexical", "POST /v1/collections/{generation}/search", "call lexical"),
    ("lexical", "wait", "POST"),
    ("lexical", "bm25", "POST"),
    ("dense", "POST /v1/collections/{generation}/search", "call dense"),
    ("dense", "encode", "POST"),
    ("dense", "ann", "POST"),
    ("reranker", "POST /v1/score", "call reranker"),
    ("reranker", "score", "POST"),
)
SHOWN = ("pipeline", "collection", "top", "hits", "candidates", "replica", "http.response.status_code", "degraded")
# Returns the spans of the last trace that has a span of this name, and all that is kept of it, as text.
Read = Callable[[], Awaitable[tuple[Sequence[ReceivedSpan], str]]]


async def run(seed: int, in_jaeger: bool = True) -> Outcome:
    """Searches once and reads the trace back. Without `in_jaeger` models are left out too."""
    rng = random.Random(seed)
    batch, query = documents(rng, 400), f"{' '.join(rng.sample(WORDS, 3))} asked"
    collector = jaeger() if in_jaeger else receiver()
    async with collector as (endpoint, read):
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("STACK_TRACE_ENDPOINT", endpoint)
            environment.setenv("STACK_TRACE_SAMPLED", "1")
            environment.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
            async with loaded_stack(seed, models=in_jaeger, corpus=batch) as stack:
                asked = {"query": query, "pipeline": "hybrid-rerank", "top": 10, "include": ["title", "text"]}
                path = f"/v1/collections/{COLLECTION}/search"
                answer = await wire.ask(stack.port("gateway"), "POST", path, asked, {"x-deadline-ms": "90000"})
                assert answer.status_code == 200, answer.text
                spans, kept = await until_whole(read)
    broken = missing(spans)
    secrets = [query, *(str(document["text"]) for document in batch)]
    told = [text for text in secrets if text in kept]
    traces = len({span.trace for span in spans})
    return Outcome(
        name="trace",
        says="One search of `hybrid-rerank`, ten hits with their texts, by four processes that trace every request. "
        + ("The spans are read back from Jaeger 1.76." if in_jaeger else "The spans are those of our receiver."),
        seed=seed,
        columns=("process and span", "begins after, ms", "took, ms", "attributes"),
        rows=tuple(rows(spans)),
        bars=(
            Bar("all spans are of one trace with one root", f"{traces} trace, {len(spans)} spans", traces == 1),
            Bar(
                "every stage, call, wait, encoding and scoring has its span in its place",
                f"{len(broken)} missing",
                not broken,
            ),
            Bar("no text of the query or of a document is kept", f"{len(told)} found", not told),
        ),
        broken=tuple(broken),
    )


def missing(spans: Sequence[ReceivedSpan]) -> list[str]:
    """Returns what of WANTED is not there, and the spans whose parent is not."""
    by_id = {span.id: span for span in spans}
    found = [(span.service, span.name, by_id[span.above].name if span.above in by_id else "") for span in spans]
    absent = [
        f"{service}: {name} beneath {above}"
        for service, name, above in WANTED
        if not any(one[:2] == (service, name) and one[2].startswith(above) for one in found)
    ]
    return absent + [
        f"{service}: {name} has no parent" for service, name, above in found if not above and name != SEARCH
    ]


def rows(spans: Sequence[ReceivedSpan]) -> list[tuple[str, str, str, str]]:
    """Returns a row a span, in the order of the tree."""
    began = min((span.began_ms for span in spans), default=0.0)
    shown = []
    for depth, span in tree(spans):
        attributes = ", ".join(f"{name} {span.attributes[name]}" for name in SHOWN if span.attributes.get(name))
        name = "· " * depth + f"{span.service}: {span.name}"
        shown.append((name, f"{span.began_ms - began:.1f}", f"{span.ms:.1f}", attributes))
    return shown


async def until_whole(read: Read, within_s: float = 20.0) -> tuple[Sequence[ReceivedSpan], str]:
    """Returns the trace when nothing of WANTED lacks, or what is there after `within_s`."""
    ends_at = time.monotonic() + within_s
    while True:
        spans, kept = await read()
        if (spans and not missing(spans)) or time.monotonic() > ends_at:
            return spans, kept
        await asyncio.sleep(0.1)


@asynccontextmanager
async def receiver() -> AsyncIterator[tuple[str, Read]]:
    """Yields the endpoint of our receiver, and how to read from it."""
    with receiving() as received:

        async def read() -> tuple[Sequence[ReceivedSpan], str]:
            return received.trace_of(SEARCH), b"".join(received.bodies).decode("utf-8", "replace")

        yield received.endpoint, read


@asynccontextmanager
async def jaeger() -> AsyncIterator[tuple[str, Read]]:
    """Yields the endpoint of a Jaeger that is started for the block, and how to read from it."""
    program, (otlp, query) = go_tool("jaeger", JAEGER), (free_port(), free_port())
    own = {"collector.otlp.http": otlp, "query.http-server": query} | dict.fromkeys(OTHER_PORTS, 0)
    options = [f"--{name}.host-port=127.0.0.1:{port}" for name, port in own.items()]
    with tempfile.TemporaryFile() as log:
        running = await asyncio.create_subprocess_exec(program, *options, stdout=log, stderr=log)
        try:
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{query}", trust_env=False) as client:

                async def read() -> tuple[Sequence[ReceivedSpan], str]:
                    asked = {"service": "gateway", "operation": SEARCH, "limit": "1"}
                    answer = await client.get("/api/traces", params=asked)
                    return [span for trace in answer.json()["data"] or () for span in _spans(trace)], answer.text

                await _answering(client, running)
                yield f"http://127.0.0.1:{otlp}/v1/traces", read
        finally:
            running.terminate()
            await running.wait()


async def _answering(client: httpx.AsyncClient, running: asyncio.subprocess.Process) -> None:
    while True:
        with suppress(httpx.TransportError):
            await client.get("/api/services")
            return
        assert running.returncode is None, "Jaeger ended before it was ready"
        await asyncio.sleep(0.1)


def _spans(trace: dict[str, Any]) -> Iterator[ReceivedSpan]:
    for span in trace["spans"]:
        yield ReceivedSpan(
            service=trace["processes"][span["processID"]]["serviceName"],
            name=span["operationName"],
            trace=span["traceID"],
            id=span["spanID"],
            above=span["references"][0]["spanID"] if span["references"] else "",
            began_ms=span["startTime"] / 1000,
            ms=span["duration"] / 1000,
            attributes={tag["key"]: tag["value"] for tag in span["tags"]},
        )
