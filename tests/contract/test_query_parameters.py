"""A parameter in the URL that a route of our own API does not have is refused; vendors' clients may send theirs."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.support.real_stack import RealStack, numbered, real_stack

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RealStack]:
    """A loaded stack. No test changes it."""
    async with real_stack(tmp_path_factory.mktemp("stack")) as opened:
        await opened.load()
        yield opened


@pytest.mark.parametrize(
    ("process", "method", "path", "body", "words"),
    [
        ("client", "POST", "/v1/collections/c/search?pipeline=dense", {"query": "a"}, "query.pipeline: this belongs"),
        (
            "client",
            "POST",
            "/v1/collections/c/documents?build=b",
            {"documents": numbered(1)},
            "query.build: this belongs",
        ),
        ("client", "PUT", "/v1/collections/c?new_generation=true", {}, "query.new_generation: this belongs"),
        ("client", "GET", "/v1/collections?limit=5", None, "query.limit: this route has no such parameter"),
        ("client", "DELETE", "/v1/collections/c?build=b", None, "query.build: this route has no such parameter"),
        ("lexical", "POST", "/v1/collections/c@1/search?top=5", {"query": "a", "top": 1}, "query.top: this belongs"),
        ("lexical", "DELETE", "/v1/collections/c@1?keep=1", None, "(those are: build, keep_published)"),
        ("dense", "POST", "/v1/collections/c@1/documents?versoin=5", {"documents": numbered(1)}, "build, version"),
    ],
)
async def test_an_unknown_parameter_is_refused_with_the_place_where_it_belongs(
    stack: RealStack, process: str, method: str, path: str, body: object, words: str
) -> None:
    before = await stack.live()
    answer = await getattr(stack, process).request(method, path, json=body)
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:problem:bad-input")
    assert words in answer.json()["detail"]
    assert await stack.live() == before


@pytest.mark.parametrize(
    "path", ["/livez?verbose", "/readyz?a=1", "/metrics?name[]=a", "/openapi.json?x=1", "/?utm=mail"]
)
async def test_probes_scrapes_and_pages_are_answered_with_any_parameter(stack: RealStack, path: str) -> None:
    assert (await stack.client.get(path, headers={"accept": "*/*"})).status_code == 200


@pytest.mark.parametrize(
    ("path", "body"), [("/v1/embeddings", {"input": "tea"}), ("/embed", {"inputs": "tea"})], ids=["openai", "tei"]
)
async def test_a_vendors_client_may_send_parameters_of_its_own(
    stack: RealStack, path: str, body: dict[str, str]
) -> None:
    assert (await stack.dense.post(f"{path}?api-version=2024-10-21", json=body)).status_code == 200
