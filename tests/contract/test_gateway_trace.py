"""What the trace of a search holds, and what it never does; the gateway over real services, to a real receiver."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.otlp_receiver import ReceivedSpan, Receiver, receiving
from tests.support.real_stack import RealStack, numbered, real_stack

SEARCH = "POST /v1/collections/{collection}/search"
PIPELINE = {
    "name": "both",
    "stages": [
        {
            "kind": "fuse",
            "id": "fuse",
            "inputs": [
                {"kind": "retrieve", "id": "bm25", "backend": "lexical", "on_failure": "skip"},
                {"kind": "retrieve", "id": "near", "backend": "dense", "on_failure": "skip"},
            ],
        }
    ],
}
TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


def refuse(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused", request=request)


async def searched(stack: RealStack, headers: dict[str, str], **asked: Any) -> None:
    answer = await stack.client.post("/v1/collections/c/search", json={"query": "word 7", **asked}, headers=headers)
    assert answer.status_code == 200, answer.text


async def traced(directory: Path, receiver: Receiver, **settings: Any) -> list[ReceivedSpan]:
    """Loads documents, searches once with dense refusing, and returns the spans of the search."""
    sent_to = receiver.endpoint
    async with real_stack(directory, STACK_TRACE_ENDPOINT=sent_to, STACK_TRACE_SAMPLED=1.0, **settings) as stack:
        await stack.load(numbered(40, "secretive"))
        stack.ways["dense"].inner = httpx.MockTransport(refuse)
        await searched(stack, {}, pipeline=PIPELINE, top=5, include=["text"])
    return receiver.trace_of(SEARCH)


async def test_the_trace_of_a_search_has_its_stages_and_its_calls_and_why_it_is_degraded(
    tmp_path: Path, receiver: Receiver
) -> None:
    spans = await traced(tmp_path, receiver)
    by_id = {span.id: span for span in spans}
    root = next(span for span in spans if span.name == SEARCH)
    assert (root.attributes["http.response.status_code"], root.attributes["collection"]) == (200, "c")
    counted = {name: root.attributes[name] for name in ("top", "hits", "degraded")}
    assert counted == {"top": 5, "hits": 1, "degraded": "retrieve: unreachable"}
    calls = {span.name: (by_id[span.above].name, span.attributes) for span in spans if span.name == "call dense"}
    assert calls["call dense"][0] == "stage near"
    assert calls["call dense"][1] | {"replica": ""} == {
        "replica": "",
        "path": "/v1/collections/c@1/search",
        "reason": "unreachable",
        "error.type": "BackendFailed",
    }
    stages = {span.name: span for span in spans if span.above == root.id}
    assert {"wait", "stage bm25", "stage near", "stage fuse", "stage include"} <= set(stages)
    assert stages["stage bm25"].attributes["candidates"] == 1


@pytest.mark.parametrize("asked", [False, True])
async def test_the_text_of_a_query_is_traced_only_where_a_setting_says_so_and_that_of_a_document_never(
    tmp_path: Path, receiver: Receiver, asked: bool
) -> None:
    spans = await traced(tmp_path, receiver, trace_query_text=asked)
    assert [span.attributes.get("query") for span in spans if span.name == SEARCH] == ["word 7" if asked else None]
    sent = b"".join(receiver.bodies)
    assert (b"word 7" in sent, b"secretive" in sent) == (asked, False)


async def test_a_sampled_search_of_a_caller_is_traced_where_no_other_is(tmp_path: Path, receiver: Receiver) -> None:
    headers: list[httpx.Headers] = []
    async with real_stack(tmp_path, STACK_TRACE_ENDPOINT=receiver.endpoint, STACK_TRACE_SAMPLED=0.0) as stack:
        await stack.load()
        inner = stack.ways["lexical"].inner

        async def noted(request: httpx.Request) -> httpx.Response:
            headers.append(request.headers)
            return await inner.handle_async_request(request)

        stack.ways["lexical"].inner = httpx.MockTransport(noted)
        await searched(stack, {}, pipeline="bm25")
        await searched(stack, {"traceparent": f"00-{TRACE}-{CALLER}-01"}, pipeline="bm25")
    sent = [one["traceparent"] for one in headers if "traceparent" in one]
    assert [int(one[-2:], 16) & 1 for one in sent] == [0, 1]
    assert {span.trace for span in receiver.spans()} == {TRACE}
    calls = [span.id for span in receiver.spans() if span.name == "call lexical"]
    assert sent[1] == f"00-{TRACE}-{calls[0]}-01"


async def test_searches_are_answered_and_the_process_ends_in_time_where_the_collector_hangs(tmp_path: Path) -> None:
    async def hang(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    hung = await asyncio.start_server(hang, "127.0.0.1", 0)
    endpoint = f"http://127.0.0.1:{hung.sockets[0].getsockname()[1]}/v1/traces"
    async with asyncio.timeout(30):
        async with real_stack(tmp_path, STACK_TRACE_ENDPOINT=endpoint, STACK_TRACE_SAMPLED=1.0) as stack:
            await stack.load()
            await searched(stack, {}, pipeline="bm25")
    hung.close()
