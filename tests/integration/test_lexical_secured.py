"""The adapter on an Elasticsearch with TLS and API keys: which key is sent with what, and what each needs."""

import json
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from elasticsearch import AsyncElasticsearch
from pydantic import SecretStr

from deploy.elasticsearch.endpoint import Endpoint
from deploy.elasticsearch.problem import SetupProblem
from services.chassis.errors import Unavailable
from services.dense.settings import DenseSettings
from services.lexical.app import open_engine
from services.lexical.engine import LexicalEngine
from services.lexical.settings import LexicalSettings
from services.vectorservice.collections import states
from services.vectorservice.compose import open_store
from tests.support.elasticsearch_server import temporary_server
from tests.support.lexical_notes import ALL_PRESETS, NOTES, documents, filled, found
from tests.support.vectors import SPEC, axis, point

# The first test waits for the server to start.
pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

README = Path(__file__).resolve().parents[2] / "services/lexical/README.md"
WRONG = "d3Jvbmc6d3Jvbmc="


@pytest.fixture(scope="module")
def secured() -> Iterator[Endpoint]:
    """A server of this module's own."""
    try:
        with temporary_server(secured=True) as endpoint:
            yield endpoint
    except SetupProblem as problem:
        pytest.skip(str(problem))


@pytest.fixture
async def administrator(secured: Endpoint) -> AsyncIterator[AsyncElasticsearch]:
    """A client that may do everything."""
    async with AsyncElasticsearch(secured.url, api_key=secured.api_key, ca_certs=str(secured.ca_file)) as client:
        await client.security.put_user(username="owner", password="not a secret", roles=["superuser"])
        yield client


def roles(prefix: str) -> dict[str, object]:
    """Returns the descriptors of services/lexical/README.md, by name."""
    (block,) = re.findall(r"```json\n(\{\n.*?\})\n```", README.read_text(), re.DOTALL)
    descriptors: dict[str, object] = json.loads(block.replace("<prefix>", prefix))
    return descriptors


async def new_key(administrator: AsyncElasticsearch, prefix: str, *names: str) -> str:
    """Makes a key with these descriptors of the README."""
    granted = await administrator.security.grant_api_key(
        grant_type="password",
        username="owner",
        password="not a secret",
        api_key={"name": "-".join(names), "role_descriptors": {name: roles(prefix)[name] for name in names}},
    )
    return str(granted["encoded"])


async def invalidate(administrator: AsyncElasticsearch, name: str) -> None:
    assert (await administrator.security.invalidate_api_key(name=name))["invalidated_api_keys"]


@asynccontextmanager
async def engine_at(
    secured: Endpoint, prefix: str, writing: str | None, reading: str | None = None, **more: object
) -> AsyncIterator[LexicalEngine]:
    settings = {
        "engine": "elasticsearch",
        "elasticsearch_url": secured.url,
        "elasticsearch_ca_file": secured.ca_file,
        "elasticsearch_api_key": writing,
        "elasticsearch_search_api_key": reading,
        "index_prefix": prefix,
    }
    engine = open_engine(LexicalSettings.model_validate(settings | more))
    try:
        yield engine
    finally:
        await engine.close()


async def assert_all_works(engine: LexicalEngine) -> None:
    """Checks every call of the port, and leaves notes@1 published."""
    assert (await engine.check()).ok
    await filled(engine, documents(NOTES))
    await engine.publish("notes@1")
    await filled(engine, documents({"n9": "a tyre"}), generation="notes@2")
    await engine.publish("notes@2")
    await engine.publish("notes@1")
    await engine.drop("notes@2")
    assert (await engine.delete("notes@1", ["n2"])).deleted == 1
    assert (await engine.index("notes@1", documents({"n2": NOTES["n2"]}))).indexed == 1
    assert (await engine.state("notes@1")).published
    assert [state.generation for state in await engine.states()] == ["notes@1"]
    await assert_reads(engine)


async def assert_reads(engine: LexicalEngine) -> None:
    assert (await engine.check()).ok
    assert await found(engine, "notes@1", "squeals") == ["n1"]
    assert [document.id for document in (await engine.get("notes@1", ["n1"])).documents] == ["n1"]
    assert (await engine.state("notes@1")).documents == len(NOTES)
    assert await engine.digest("notes@1")


async def assert_no_write(engine: LexicalEngine, named: str) -> None:
    """Checks that every write is refused and names the setting."""
    for write in (
        engine.begin("notes@3", ALL_PRESETS),
        engine.index("notes@1", documents({"n9": "new"})),
        engine.delete("notes@1", ["n1"]),
        engine.finish("notes@1"),
        engine.publish("notes@1"),
        engine.drop("notes@1"),
    ):
        with pytest.raises(Unavailable, match=rf"\b{named}\b") as refused:
            await write
        assert "ELASTICSEARCH_SEARCH" not in refused.value.detail


async def test_a_secured_server_is_used_with_key_and_ca_and_each_one_missing_is_named(secured: Endpoint) -> None:
    async with engine_at(secured, "first-", secured.api_key) as engine:
        await assert_all_works(engine)
    async with engine_at(secured, "first-", WRONG) as engine:
        assert "ELASTICSEARCH_API_KEY" in (await engine.check()).detail
    async with engine_at(secured, "first-", secured.api_key, elasticsearch_ca_file=None) as engine:
        assert "ELASTICSEARCH_CA_FILE" in (await engine.check()).detail


async def test_one_key_of_both_roles_does_everything_under_its_prefix_alone(
    secured: Endpoint, administrator: AsyncElasticsearch
) -> None:
    key = await new_key(administrator, "both-", "reads", "writes")
    async with engine_at(secured, "both-", key) as engine:
        await assert_all_works(engine)
    async with engine_at(secured, "other-", key) as engine:
        with pytest.raises(Unavailable, match="is unauthorized"):
            await engine.begin("notes@1", ALL_PRESETS)


async def test_a_key_that_reads_and_one_that_writes_do_everything_and_each_its_own_alone(
    secured: Endpoint, administrator: AsyncElasticsearch
) -> None:
    reading, writing = [await new_key(administrator, "two-", role) for role in ("reads", "writes")]
    async with engine_at(secured, "two-", writing, reading) as engine:
        await assert_all_works(engine)
    for alone in (engine_at(secured, "two-", None, reading), engine_at(secured, "two-", reading)):
        async with alone as engine:
            await assert_reads(engine)
            await assert_no_write(engine, "ELASTICSEARCH_API_KEY")
    async with engine_at(secured, "two-", writing) as engine:
        with pytest.raises(Unavailable, match="is unauthorized"):
            await found(engine, "notes@1", "squeals")


async def test_searches_go_on_when_the_key_that_writes_is_invalid_and_end_with_their_own(
    secured: Endpoint, administrator: AsyncElasticsearch
) -> None:
    reading, writing = [await new_key(administrator, "ends-", role) for role in ("reads", "writes")]
    async with engine_at(secured, "ends-", writing, reading) as engine:
        await assert_all_works(engine)
        await invalidate(administrator, "writes")
        await assert_reads(engine)
        await assert_no_write(engine, "ELASTICSEARCH_API_KEY")
        await invalidate(administrator, "reads")
        assert not (await engine.check()).ok
        with pytest.raises(Unavailable, match="ELASTICSEARCH_SEARCH_API_KEY"):
            await engine.states()


async def test_a_vector_service_that_only_reads_lists_builds_with_what_was_refreshed_last(
    secured: Endpoint, administrator: AsyncElasticsearch
) -> None:
    reading, writing = [await new_key(administrator, "vectors-", role) for role in ("reads", "writes")]
    both, reader = [
        open_store(
            DenseSettings(
                store="elasticsearch",
                prefix="vectors-",
                elasticsearch_url=secured.url,
                elasticsearch_ca_file=secured.ca_file,
                elasticsearch_api_key=key,
                elasticsearch_search_api_key=SecretStr(reading),
            )
        )
        for key in (SecretStr(writing), None)
    ]
    await both.create(SPEC)
    await both.upsert("notes@1", [point("a", axis(1.0))])
    assert [state.documents for state in (await states(reader, time.time)).collections] == [0]
    assert [state.documents for state in (await states(both, time.time)).collections] == [1]
    assert [state.documents for state in (await states(reader, time.time)).collections] == [1]
    for store in (both, reader):
        await store.close()
