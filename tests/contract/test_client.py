"""What the client package promises, of both its clients, over a gateway with real services."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import BaseModel

from retrieval_client import AsyncClient, Client, RetrievalError, calls, loading
from retrieval_client.answers import PublishJob
from retrieval_client.loading import BackendLoad, LoadReport
from services.chassis.deadlines import SEARCH_MS
from tests.support.client_subjects import AtOnce, ClientKind, Subject, subject
from tests.support.real_stack import RealStack, real_stack

BUSY = {"type": "urn:problem:overloaded", "title": "Overloaded", "status": 429, "detail": "Wait.", "request_id": "r"}


class Disturbed(httpx.AsyncBaseTransport):
    """Answers the first requests with these statuses, and keeps every request; what follows goes to the gateway."""

    def __init__(self, inner: httpx.AsyncBaseTransport | None, *statuses: int, retry_after: str = "0") -> None:
        self.inner, self.statuses, self.retry_after = inner, list(statuses), retry_after
        self.requests: list[httpx.Request] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if self.statuses:
            status = self.statuses.pop(0)
            if status == 0:
                raise httpx.ReadError("lost", request=request)
            return httpx.Response(status, json={**BUSY, "status": status}, headers={"retry-after": self.retry_after})
        assert self.inner is not None
        return await self.inner.handle_async_request(request)


@pytest.fixture(params=["blocking", "awaiting"])
def kind(request: pytest.FixtureRequest) -> ClientKind:
    chosen: ClientKind = request.param
    return chosen


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[RealStack]:
    async with real_stack(tmp_path) as opened:
        yield opened


@pytest.fixture
async def shop(stack: RealStack, kind: ClientKind) -> AsyncIterator[Subject]:
    """A client of a gateway with 300 documents in the collection `shop`."""
    async with subject(kind, stack.into_gateway) as opened:
        begun = await opened.call("begin", "shop", metadata={"number": "number"}, build="first")
        await opened.call("load", "shop", numbered(300), build=begun.build)
        await opened.call("publish", "shop", build=begun.build, expected_documents=300)
        yield opened


def numbered(count: int) -> Iterator[dict[str, Any]]:
    return ({"id": f"d/{n:03}?#%.", "text": f"word {n}", "metadata": {"number": n}} for n in range(count))


async def failure(subject: Subject, name: str, *args: Any, **kwargs: Any) -> RetrievalError:
    with pytest.raises(RetrievalError) as caught:
        await subject.call(name, *args, **kwargs)
    return caught.value


async def test_a_search_has_the_hits_that_pass_the_filter_and_the_parts_that_were_asked_for(shop: Subject) -> None:
    answer = await shop.call(
        "search",
        "shop",
        "word",
        pipeline="bm25",
        top=400,
        include=["metadata"],
        filter={
            "all": [
                {"field": "number", "op": "gte", "value": 280},
                {"not": {"field": "number", "op": "eq", "value": 285}},
            ]
        },
    )
    assert {hit.metadata["number"] for hit in answer.hits} == {*range(280, 300)} - {285}
    assert (answer.collection, answer.pipeline.name, answer.degraded) == ("shop@1", "bm25", ())


async def test_pages_are_the_ranking_in_parts_and_say_whether_more_follow(shop: Subject) -> None:
    whole = await shop.call("search", "shop", "word", pipeline="bm25", top=300)
    pages = [await shop.call("search", "shop", "word", pipeline="bm25", top=100, offset=n) for n in (0, 100, 200)]
    assert [hit.id for page in pages for hit in page.hits] == [hit.id for hit in whole.hits]
    assert [page.page.more for page in pages] == [len(whole.hits) > 100, len(whole.hits) > 200, False]


async def test_matches_are_counted_and_documents_listed_without_a_query(shop: Subject) -> None:
    facets = [{"field": "number", "ranges": [{"from": 10, "to": 30}, {"from": 290}]}]
    counted = (await shop.call("search", "shop", "word", pipeline="bm25", total=True, facets=facets)).matches
    assert counted.total == 300
    ranges = counted.facets["number"].ranges
    assert [(part.from_, part.to, part.count) for part in ranges] == [(10, 30, 20), (290, None, 10)]
    last = await shop.call("search", "shop", sort={"field": "number", "order": "desc"}, top=2, include=["metadata"])
    assert [hit.metadata["number"] for hit in last.hits] == [299, 298]


async def test_all_documents_are_read_sent_again_and_deleted_by_a_filter(shop: Subject) -> None:
    read = await shop.documents("shop")
    assert {document.id for document in read} == {document["id"] for document in numbered(300)}
    assert (await shop.call("load", "shop", read)).documents == 300
    older = {"any": [{"field": "number", "op": "lt", "value": 290}]}
    report = await shop.call("delete_documents", "shop", filter=older)
    assert (report.complete, report.documents, report.more) == (True, 290, False)
    assert len(await shop.documents("shop")) == 10


async def test_one_document_is_read_changed_and_deleted_whatever_its_id_holds(shop: Subject) -> None:
    identity = next(numbered(1))["id"]
    assert (await shop.call("get_document", "shop", identity)).text == "word 0"
    changed = await shop.call("update_metadata", "shop", {identity: {"number": None}})
    assert (changed.complete, (await shop.call("get_document", "shop", identity)).metadata) == (True, {})
    assert (await shop.call("delete_documents", "shop", [identity])).complete
    answer = await shop.call("get_documents", "shop", [identity, "d/001?#%."])
    assert (answer.missing, [document.text for document in answer.documents]) == ((identity,), ["word 1"])
    assert (await failure(shop, "get_document", "shop", "..")).kind == "not-found"


async def test_an_error_has_the_kind_the_detail_and_the_faulty_fields_of_its_problem(shop: Subject) -> None:
    unknown = await failure(shop, "search", "absent", "word", pipeline="bm25")
    assert (unknown.kind, unknown.status) == ("unknown-collection", 404)
    assert "absent" in str(unknown)
    faulty = await failure(shop, "search", "shop", "word", top=0)
    assert (faulty.kind, [fault.field for fault in faulty.errors]) == ("bad-input", ["top"])
    assert "top: " in str(faulty)


async def test_a_deadline_ends_a_search_that_takes_longer(shop: Subject, stack: RealStack) -> None:
    stack.ways["lexical"].hold = (b"/search", asyncio.Event())
    ended = await failure(shop.within(200), "search", "shop", "word", pipeline="bm25")
    assert ended.kind in {"deadline-exceeded", "unavailable"}


async def test_a_load_sees_no_document_lost_where_the_gateway_is_full_or_away(
    stack: RealStack, kind: ClientKind
) -> None:
    async with subject(kind, stack.into_gateway) as calm:
        await calm.call("begin", "shop", build="b")
    seen: list[int] = []

    def progress(report: LoadReport) -> None:
        seen.append(report.documents)

    told: list[int] = []
    disturbed = Disturbed(stack.into_gateway, 429, 503, 0, 429)
    async with subject(kind, disturbed, repeating=lambda error, _: told.append(error.status)) as loader:
        report = await loader.call("load", "shop", numbered(700), build="b", progress=progress)
        published = await loader.call("publish", "shop", build="b")
    assert (report.documents, report.repetitions, published.documents) == (700, 4, 700)
    assert told == [429, 503, 0, 429]
    assert report.backends == {"lexical": BackendLoad(700, 0, 0), "dense": BackendLoad(700, 0, 700)}
    assert seen == sorted(seen)
    assert seen[-1] == 700


async def test_a_gateway_with_room_for_one_write_refuses_batches_of_two_loads_and_loses_none(
    tmp_path: Path, kind: ClientKind
) -> None:
    async with (
        real_stack(tmp_path, max_in_flight=1, max_waiting=0) as stack,
        subject(kind, AtOnce(stack.into_gateway), deadline_ms=60_000) as client,
    ):
        await client.call("begin", "shop", build="b")
        halves = [[*numbered(1_000)][start::2] for start in (0, 1)]
        reports = await asyncio.gather(*(client.call("load", "shop", half, build="b") for half in halves))
        await client.call("publish", "shop", build="b", expected_documents=1_000)
        assert {document.id for document in await client.documents("shop")} == {f"d/{n:03}?#%." for n in range(1_000)}
    assert sum(report.repetitions for report in reports) > 0
    assert sum(report.backends["dense"].indexed for report in reports) == 1_000


async def test_a_batch_that_takes_too_long_is_sent_again_in_smaller_calls(
    stack: RealStack, kind: ClientKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "SLOW_S", 1e-9)

    async def slow(request: httpx.Request) -> httpx.Response:
        if len(json.loads(request.content).get("documents", ())) > 10:
            return httpx.Response(504)
        return await stack.into_gateway.handle_async_request(request)

    async with subject(kind, stack.into_gateway) as calm:
        await calm.call("begin", "shop", build="b")
    async with subject(kind, httpx.MockTransport(slow)) as loader:
        report = await loader.call("load", "shop", numbered(20), build="b")
    assert (report.documents, report.repetitions) == (20, 1)


async def test_a_generation_is_begun_after_a_lost_answer_where_its_build_is_named(
    stack: RealStack, kind: ClientKind
) -> None:
    async with subject(kind, Disturbed(stack.into_gateway, 0)) as client:
        assert (await client.call("begin", "shop", build="b")).generation == "shop@1"
    async with subject(kind, Disturbed(stack.into_gateway, 0)) as client:
        assert (await failure(client, "begin", "other")).kind == "unreachable"


async def test_models_of_the_caller_are_sent_as_documents(stack: RealStack, kind: ClientKind) -> None:
    class Note(BaseModel):
        id: str
        text: str
        title: str | None = None

    async with subject(kind, stack.into_gateway) as client:
        await client.call("begin", "shop", build="b")
        await client.call("load", "shop", [Note(id="a", text="of a model")], build="b")
        await client.call("publish", "shop", build="b")
        assert (await client.call("get_document", "shop", "a")).text == "of a model"


async def test_a_batch_that_one_backend_did_not_take_is_sent_again(stack: RealStack, kind: ClientKind) -> None:
    way = stack.ways["dense"]
    dense = way.inner
    async with subject(kind, stack.into_gateway) as loader:
        await loader.call("begin", "shop", build="b")
        refusals = 0

        async def refuse_once(request: httpx.Request) -> httpx.Response:
            nonlocal refusals
            if b"/documents" in request.url.raw_path and not refusals:
                refusals += 1
                return httpx.Response(500)
            return await dense.handle_async_request(request)

        way.inner = httpx.MockTransport(refuse_once)
        report = await loader.call("load", "shop", numbered(10), build="b")
        assert (refusals, report.repetitions) == (1, 1)
        assert (await loader.call("publish", "shop", build="b")).documents == 10


async def test_documents_that_a_service_refuses_end_the_load_with_their_ids(stack: RealStack, kind: ClientKind) -> None:
    async with subject(kind, stack.into_gateway) as loader:
        await loader.call("begin", "shop", build="b", metadata={"number": "number"})
        wrong = {"id": "wrong", "text": "word", "metadata": {"number": "many"}}
        refused = await failure(loader, "load", "shop", [*numbered(5), wrong], build="b")
    assert (refused.kind, refused.status) == ("documents-refused", 422)
    assert "wrong" in str(refused)


async def test_the_source_of_documents_may_fail_and_be_read_again(stack: RealStack, kind: ClientKind) -> None:
    def source(fails: bool) -> Iterator[dict[str, Any]]:
        yield from numbered(200)
        if fails:
            raise LookupError("the cursor is gone")

    async with subject(kind, stack.into_gateway) as loader:
        await loader.call("begin", "shop", build="b")
        with pytest.raises(LookupError):
            await loader.call("load", "shop", source(True), build="b")
        report = await loader.call("load", "shop", source(False), build="b")
        assert (report.documents, (await loader.call("publish", "shop", build="b")).documents) == (200, 200)


async def test_a_publication_that_takes_longer_is_waited_for(
    stack: RealStack, kind: ClientKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "PUBLISH_CALL_S", 0.3)
    jobs: list[PublishJob] = []
    async with subject(kind, stack.into_gateway) as loader:
        await loader.call("begin", "shop", build="b")
        await loader.call("load", "shop", numbered(3), build="b")
        held = asyncio.Event()
        stack.ways["dense"].hold = (b"/finish", held)
        loop = asyncio.get_running_loop()

        def progress(job: PublishJob) -> None:
            jobs.append(job)
            loop.call_soon_threadsafe(held.set)

        published = await loader.call("publish", "shop", build="b", progress=progress)
    assert (published.generation, published.documents, jobs[0].state) == ("shop@1", 3, "running")
    assert "dense" in jobs[0].waiting_for


@pytest.mark.parametrize("status", [429, 503])
async def test_a_call_is_repeated_after_the_wait_that_the_gateway_names(
    stack: RealStack, kind: ClientKind, status: int
) -> None:
    disturbed = Disturbed(stack.into_gateway, status)
    async with subject(kind, disturbed) as client:
        assert (await client.call("collections")).collections == ()
    first, second = [int(request.headers["x-deadline-ms"]) for request in disturbed.requests]
    assert second < first <= 10_000


async def test_a_search_without_a_deadline_has_that_of_the_gateway_and_other_calls_a_longer_one(
    kind: ClientKind,
) -> None:
    refusing = Disturbed(None, 404, 404)
    async with subject(kind, refusing) as client:
        await failure(client, "search", "shop", "tea")
        await failure(client, "collections")
    searched, listed = [int(request.headers["x-deadline-ms"]) for request in refusing.requests]
    assert 0 < searched <= SEARCH_MS < listed


async def test_a_call_fails_at_once_where_its_wait_is_too_long_or_a_repetition_is_no_use(kind: ClientKind) -> None:
    for status, retry_after in ((429, "60"), (504, "0")):
        disturbed = Disturbed(None, status, retry_after=retry_after)
        async with subject(kind, disturbed) as client:
            assert (await failure(client, "collections")).status == status
        assert len(disturbed.requests) == 1


async def test_a_call_is_repeated_until_its_deadline(kind: ClientKind) -> None:
    disturbed = Disturbed(None, *[503] * 50)
    async with subject(kind, disturbed, deadline_ms=1_000) as client:
        assert (await failure(client, "collections")).status == 503
    assert 1 < len(disturbed.requests) < 10


async def test_an_answer_of_another_server_is_an_error_that_names_its_address(kind: ClientKind) -> None:
    foreign = httpx.MockTransport(lambda request: httpx.Response(200 if "pipelines" in request.url.path else 502))
    async with subject(kind, foreign) as client:
        assert (await failure(client, "pipelines")).kind == "bad-answer"
        assert (await failure(client, "collections")).kind == "http-502"


async def test_a_gateway_that_is_away_is_unreachable_and_one_that_is_silent_a_timeout(kind: ClientKind) -> None:
    async with subject(kind, Disturbed(None, 0)) as client:
        assert (await failure(client, "collections")).kind == "unreachable"

    async def silent(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("", request=request)

    async with subject(kind, httpx.MockTransport(silent)) as client:
        assert (await failure(client, "collections")).kind == "timeout"


async def test_a_generation_is_rolled_back_discarded_and_deleted(shop: Subject) -> None:
    build = (await shop.call("begin", "shop", new_generation=True)).build
    await shop.call("load", "shop", numbered(1), build=build)
    assert (await shop.call("publish", "shop", build=build)).generation == "shop@2"
    assert (await shop.call("roll_back", "shop")).generation == "shop@1"
    assert (await shop.call("collection", "shop")).live == "shop@1"
    begun = await shop.call("begin", "shop", new_generation=True, build="given-up")
    await shop.call("discard", "shop", build="given-up")
    assert (begun.generation, (await shop.call("collection", "shop")).building) == ("shop@3", None)
    await shop.call("delete_collection", "shop")
    assert (await shop.call("collections")).collections == ()


async def test_pipelines_are_listed_and_can_be_sent_changed(shop: Subject) -> None:
    [listed] = (await shop.call("pipelines")).pipelines
    changed = {**listed.pipeline, "stages": [*listed.pipeline["stages"], {"kind": "cut", "top": 3}]}
    assert len((await shop.call("search", "shop", "word", pipeline=changed)).hits) == 3


@pytest.mark.parametrize("key", ["", "rsk_secret\n", "rsk_sécret"])
def test_what_is_no_key_is_refused_and_not_shown(key: str) -> None:
    for client in (Client, AsyncClient):
        with pytest.raises(ValueError, match="the key is empty") as refused:
            client("https://search.example", key=key)
        assert "rsk" not in str(refused.value)


def test_a_key_does_not_travel_unencrypted_to_another_machine() -> None:
    for client in (Client, AsyncClient):
        with pytest.raises(ValueError, match="unencrypted"):
            client("http://search.example", key="rsk_x")
        client("https://search.example", key="rsk_x")
        client("http://[::1]:8000", key="rsk_x")
        client("http://search.example", key="rsk_x", trust_plain=True)
