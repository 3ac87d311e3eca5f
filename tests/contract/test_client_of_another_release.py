"""The client package before a gateway of an earlier release, which lacks a field, a method and a route."""

import tomllib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from fastapi import APIRouter

from retrieval_client import RetrievalError
from retrieval_client.errors import VERSION as CLIENT_VERSION
from services.chassis.app import create_app, router
from services.chassis.instruments import Instruments
from services.chassis.probes import Readiness
from services.chassis.requests.handling import handled
from services.chassis.settings.service_settings import KeyedSettings
from services.contracts.base import QueryText, Wire
from services.contracts.pipelines import Pipeline
from services.contracts.version import VERSION, VERSION_HEADER
from tests.support.client_subjects import Subject, subject
from tests.support.keys import Keys, bearing


class EarlierSearch(Wire):
    query: QueryText
    pipeline: str | Pipeline = "hybrid"


@asynccontextmanager
async def opened() -> AsyncIterator[tuple[Sequence[APIRouter], Readiness]]:
    routes = router()

    @routes.post("/v1/collections/{collection}/search")
    @handled(scope="search")
    async def search(collection: str, asked: EarlierSearch) -> EarlierSearch:
        return asked

    @routes.get("/v1/collections/{collection}")
    @handled(scope="search")
    async def get_collection(collection: str) -> None:
        """There is no PUT of it yet."""

    @routes.get("/v1/collections/{collection}/documents")
    @handled(scope="search")
    async def list_documents(collection: str, most: int = 100) -> None:
        """Gives no vectors yet."""

    async def readiness() -> tuple[()]:
        return ()

    yield (routes,), readiness


@pytest.fixture
async def transport(keys: Keys) -> AsyncIterator[httpx.ASGITransport]:
    app = create_app("gateway", KeyedSettings(port=0, keys_file=keys.file), Instruments(), opened)
    async with app.router.lifespan_context(app):
        yield httpx.ASGITransport(app)


@pytest.fixture(params=["blocking", "awaiting"])
async def client(request: pytest.FixtureRequest, transport: httpx.ASGITransport, keys: Keys) -> AsyncIterator[Subject]:
    async with subject(request.param, transport, key=keys.secrets["all"]) as opened:
        yield opened


LACKING: tuple[tuple[str, dict[str, object], str, str], ...] = (
    ("search", {"top": 3, "explain": True}, "bad-input", "top, explain"),
    ("begin", {}, "method-not-allowed", "PUT /v1/collections/shop"),
    ("documents_page", {}, "bad-input", "vectors"),
    ("publish", {}, "not-found", "POST /v1/collections/shop/publish"),
)


@pytest.mark.parametrize(("call", "given", "kind", "unknown"), LACKING, ids=[one[0] for one in LACKING])
async def test_what_a_gateway_does_not_know_is_one_sentence_with_both_versions(
    client: Subject, call: str, given: dict[str, object], kind: str, unknown: str
) -> None:
    query = ("water",) if call == "search" else ()
    with pytest.raises(RetrievalError) as caught:
        await client.call(call, "shop", *query, **given)
    assert (caught.value.kind, caught.value.detail) == (
        kind,
        f"The gateway (version {VERSION}) does not know {unknown}, which this client (version {CLIENT_VERSION}) sends:"
        " upgrade the gateway, or do without.",
    )


async def test_a_fault_in_a_pipeline_of_the_caller_keeps_its_own_message(client: Subject) -> None:
    with pytest.raises(RetrievalError, match="there is no such field; there are: kind, "):
        await client.call("search", "shop", "water", pipeline={"name": "mine", "stages": [{"kind": "cut", "no": 1}]})


async def test_who_has_no_key_is_told_no_version(transport: httpx.ASGITransport, keys: Keys) -> None:
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as http:
        known = await http.get("/nothing", headers=bearing(keys.secrets["search"]))
        stranger = await http.get("/nothing")
    assert (known.status_code, known.headers.get(VERSION_HEADER)) == (404, VERSION)
    assert (stranger.status_code, stranger.headers.get(VERSION_HEADER)) == (401, None)


def test_the_version_is_that_of_the_package() -> None:
    project = Path(__file__).parents[2] / "clients" / "python" / "pyproject.toml"
    assert tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"] == CLIENT_VERSION
