"""A call whose answer is lost has done its work; the client repeats it, and gets the answer of the first."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from retrieval_client import RetrievalError
from retrieval_client.answers import CollectionBegun, Published
from tests.support.client_subjects import AtOnce, ClientKind, Subject, subject
from tests.support.real_stack import RealStack, numbered, real_stack


class LostAnswers(httpx.AsyncBaseTransport):
    """Sends every request on. Where `lose` is set, the answer to the next one is lost."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self.inner, self.lose, self.lost = inner, False, list[httpx.Response]()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = await self.inner.handle_async_request(request)
        if self.lose:
            self.lose = False
            await answer.aread()
            self.lost.append(answer)
            raise httpx.ReadError("lost", request=request)
        return answer


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[RealStack]:
    async with real_stack(tmp_path, others={"sparse": "sparse"}, refresh_s=0.05) as opened:
        await opened.load()
        yield opened


@pytest.fixture
def way(stack: RealStack) -> LostAnswers:
    return LostAnswers(AtOnce(stack.into_gateway))


@pytest.fixture(params=["blocking", "awaiting"])
async def client(request: pytest.FixtureRequest, way: LostAnswers) -> AsyncIterator[Subject]:
    kind: ClientKind = request.param
    async with subject(kind, way) as opened:
        yield opened


async def test_a_publish_with_fill(client: Subject, way: LostAnswers) -> None:
    await client.call("begin", "c", new_generation=True, build="b")
    way.lose = True
    published = await client.call("publish", "c", build="b", fill=True, expected_documents=40)
    assert published == Published.model_validate_json(way.lost[0].content)


async def test_a_publish(client: Subject, way: LostAnswers) -> None:
    await client.call("begin", "c", new_generation=True, build="b")
    await client.call("load", "c", numbered(3), build="b")
    way.lose = True
    published = await client.call("publish", "c", build="b", expected_documents=3)
    assert published == Published.model_validate_json(way.lost[0].content)


@pytest.mark.parametrize("more", [{}, {"build": "b"}, {"owner": "1a2b3c4d5e6f"}])
async def test_beginning_a_generation(client: Subject, way: LostAnswers, more: dict[str, str]) -> None:
    way.lose = True
    begun = await client.call("begin", "c", new_generation=True, **more)
    first = CollectionBegun.model_validate_json(way.lost[0].content)
    # It is there already when it is asked for again.
    assert begun.model_copy(update={"created": True}) == first


async def test_beginning_a_generation_on_a_further_backend(client: Subject, way: LostAnswers) -> None:
    way.lose = True
    begun = await client.call("begin", "c", backends=["lexical", "dense", "sparse"], build="first")
    assert (begun.generation, begun.created) == ("c@2", False)


async def test_a_load(client: Subject, way: LostAnswers, stack: RealStack) -> None:
    way.lose = True
    report = await client.call("load", "c", numbered(3, "other"))
    assert (report.documents, report.overtaken) == (3, set())
    assert await stack.texts(["d02"]) == {"d02": "other 2"}


def lose_one_removal(stack: RealStack, service: str) -> None:
    """Has the connection to a service break off after its next removal."""
    inner, lost = stack.ways[service].inner, list[httpx.Request]()

    async def lose(request: httpx.Request) -> httpx.Response:
        answer = await inner.handle_async_request(request)
        if request.method == "DELETE" and not lost:
            lost.append(request)
            raise httpx.WriteError("lost", request=request)
        return answer

    stack.ways[service].inner = httpx.MockTransport(lose)


@pytest.mark.parametrize("service", ["lexical", "dense"])
async def test_removing_a_collection(client: Subject, stack: RealStack, service: str) -> None:
    lose_one_removal(stack, service)
    await client.call("delete_collection", "c")
    assert (await client.call("collections")).collections == ()
    with pytest.raises(RetrievalError, match="There is no collection 'c'"):
        await client.call("delete_collection", "c")


@pytest.mark.parametrize("service", ["lexical", "dense"])
async def test_discarding_a_build(client: Subject, stack: RealStack, service: str) -> None:
    await client.call("begin", "c", new_generation=True, build="b")
    lose_one_removal(stack, service)
    await client.call("discard", "c", build="b")
    assert "c@2" not in {**await stack.states("lexical"), **await stack.states("dense")}
