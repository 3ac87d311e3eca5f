"""Indices of others on the same Elasticsearch: whatever they are called, they are ignored, and never touched."""

import uuid
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from elasticsearch import AsyncElasticsearch

from services.chassis.errors import Conflict, UnknownCollection
from services.lexical.engine_elasticsearch import ElasticsearchEngine
from services.lexical.settings import LexicalSettings
from services.storage.elasticsearch.client import ElasticsearchClients
from tests.support.lexical_notes import ALL_PRESETS, NOTES, client_of, documents, filled, found

# The first test waits for the server to start.
pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

OURS = "notes@1"


def engine_of(url: str, prefix: str, most_generations: int = 128) -> ElasticsearchEngine:
    clients = ElasticsearchClients.connect(LexicalSettings(elasticsearch_url=url), 4)
    return ElasticsearchEngine(clients, prefix, most_generations=most_generations)


@pytest.fixture
async def client(elasticsearch_url: str) -> AsyncIterator[AsyncElasticsearch]:
    async with client_of(LexicalSettings(elasticsearch_url=elasticsearch_url)) as client:
        yield client


@pytest.fixture
async def prefix(client: AsyncElasticsearch) -> AsyncIterator[str]:
    """A part of the server's names that this test has for itself; what is left under it is removed."""
    prefix = f"test-{uuid.uuid4().hex[:12]}-"
    yield prefix
    left = (await client.indices.get(index=f"{prefix}*", expand_wildcards="all")).body
    if left:
        await client.indices.delete(index=list(left))
    await client.options(ignore_status=404).indices.delete_index_template(name=f"{prefix}*")


@pytest.fixture
def engine(elasticsearch_url: str, prefix: str) -> ElasticsearchEngine:
    return engine_of(elasticsearch_url, prefix)


async def make_foreign(client: AsyncElasticsearch, prefix: str) -> list[str]:
    """Of every kind of foreign index one, with a document where it can have one; the names of the indices."""
    for name, more in _PLAIN.items():
        await client.indices.create(index=f"{prefix}{name}", **more)
        await client.index(index=f"{prefix}{name}", id="theirs", document={"doc_id": "theirs", "text": "brake"})
    await client.indices.close(index=f"{prefix}closed@1")
    await client.indices.put_alias(index=f"{prefix}elsewhere", name=f"{prefix}alias@1")
    template = {"mappings": {"dynamic": True, "_meta": {"team": "theirs"}}}
    await client.indices.put_index_template(
        name=f"{prefix}auto", index_patterns=[f"{prefix}auto@*"], template=template, priority=500
    )
    await client.index(index=f"{prefix}auto@1", id="theirs", document={"text": "brake"})  # makes the index, too
    return sorted((await client.indices.get(index=f"{prefix}*", expand_wildcards="all")).body)


_FOREIGN_META = {"declaration": {"theirs": True}, "stamp": 7}
_PLAIN: Mapping[str, Mapping[str, Any]] = {
    "x@y": {},
    "x@01": {},
    "Ünï@1".lower(): {},
    "staging.c@1": {},
    "theirs@1": {},
    "meta@1": {"mappings": {"_meta": _FOREIGN_META}},
    "hidden@1": {"settings": {"index.hidden": True}},
    "closed@1": {},
    "elsewhere": {},
}
# Names that a caller of ours can ask for.
_TAKEN = ("theirs@1", "meta@1", "hidden@1", "closed@1", "alias@1", "auto@1")


async def test_foreign_indices_are_not_listed_and_the_listing_stands(
    client: AsyncElasticsearch, engine: ElasticsearchEngine, prefix: str
) -> None:
    await make_foreign(client, prefix)
    await filled(engine, documents(NOTES), generation=OURS)
    assert [(state.generation, state.documents) for state in await engine.states()] == [(OURS, len(NOTES))]


@pytest.mark.parametrize("taken", _TAKEN)
async def test_a_foreign_index_is_neither_read_nor_written_nor_removed(
    client: AsyncElasticsearch, engine: ElasticsearchEngine, prefix: str, taken: str
) -> None:
    before = await make_foreign(client, prefix)
    for call in (
        engine.state(taken),
        engine.drop(taken),
        engine.index(taken, documents(NOTES)),
        engine.delete(taken, ["theirs"]),
        engine.finish(taken),
        engine.publish(taken),
        found(engine, taken, "brake"),
    ):
        with pytest.raises(UnknownCollection, match=taken):
            await call
    with pytest.raises(Conflict, match="LEXICAL_INDEX_PREFIX"):
        await engine.begin(taken, ALL_PRESETS)
    assert sorted((await client.indices.get(index=f"{prefix}*", expand_wildcards="all")).body) == before
    if taken != "closed@1":
        assert (await client.count(index=f"{prefix}{taken}", expand_wildcards="all"))["count"] < len(NOTES)


async def test_publishing_takes_no_alias_away_from_a_foreign_index(
    client: AsyncElasticsearch, engine: ElasticsearchEngine, prefix: str
) -> None:
    await client.indices.create(index=f"{prefix}notes@old", aliases={f"{prefix}notes": {}})
    await filled(engine, documents(NOTES), generation=OURS)
    with pytest.raises(Conflict, match=f"{prefix}notes.*{prefix}notes@old"):
        await engine.publish(OURS)
    assert list((await client.indices.get_alias(name=f"{prefix}notes")).body) == [f"{prefix}notes@old"]
    await client.indices.delete_alias(index=f"{prefix}notes@old", name=f"{prefix}notes")
    assert (await engine.publish(OURS)).published


async def test_a_stack_whose_prefix_begins_with_ours_keeps_its_collections_to_itself(
    elasticsearch_url: str, engine: ElasticsearchEngine, prefix: str
) -> None:
    demo = engine_of(elasticsearch_url, f"{prefix}demo-")
    await filled(demo, documents(NOTES), generation="c@1")
    await demo.publish("c@1")
    await engine.begin(OURS, ALL_PRESETS)
    assert [state.generation for state in await engine.states()] == [OURS]
    with pytest.raises(UnknownCollection):
        await engine.drop("demo-c@1")
    with pytest.raises(Conflict, match="LEXICAL_INDEX_PREFIX"):
        await engine.begin("demo-c@1", ALL_PRESETS)
    assert await found(demo, "c@1", "squeals") == ["n1"]


async def test_generations_of_ours_have_a_quota_and_foreign_ones_do_not_count(
    client: AsyncElasticsearch, elasticsearch_url: str, prefix: str
) -> None:
    await make_foreign(client, prefix)
    engine = engine_of(elasticsearch_url, prefix, most_generations=2)
    for generation in (OURS, "notes@2", OURS):
        await engine.begin(generation, ALL_PRESETS)
    await engine.publish(OURS)
    with pytest.raises(Conflict, match="MOST_GENERATIONS"):
        await engine.begin("notes@3", ALL_PRESETS)
    await engine.drop("notes@2")
    await engine.begin("notes@3", ALL_PRESETS)


async def test_a_newer_release_beside_this_one_is_listed_and_another_layout_is_not(
    client: AsyncElasticsearch, engine: ElasticsearchEngine, prefix: str
) -> None:
    for generation in (OURS, "later@1", "earlier@1"):
        await engine.begin(generation, ALL_PRESETS)
    kept = (await client.indices.get_mapping(index=f"{prefix}{OURS}")).body[f"{prefix}{OURS}"]["mappings"]["_meta"]
    newer = {**kept, "colour": "blue", "declaration": {**kept["declaration"], "languages": ["en"]}}
    await client.indices.put_mapping(index=f"{prefix}{OURS}", meta=newer)
    await client.indices.put_mapping(index=f"{prefix}later@1", meta={**kept, "layout": 3})
    earlier = {key: value for key, value in kept.items() if key != "layout"}
    await client.indices.put_mapping(index=f"{prefix}earlier@1", meta=earlier)
    assert [state.generation for state in await engine.states()] == [OURS]
    assert (await engine.index(OURS, documents(NOTES))).indexed == len(NOTES)
    assert (await engine.publish(OURS)).published
    left = (await client.indices.get_mapping(index=f"{prefix}{OURS}")).body[f"{prefix}{OURS}"]["mappings"]["_meta"]
    assert left == {**newer, "published_at": left["published_at"], "publication": 1}
    for generation in ("later@1", "earlier@1"):
        with pytest.raises(Conflict, match="another release"):
            await engine.begin(generation, ALL_PRESETS)


async def test_a_template_of_others_that_matches_our_index_leaves_it_ours(
    client: AsyncElasticsearch, engine: ElasticsearchEngine, prefix: str
) -> None:
    template = {"mappings": {"dynamic": True, "_meta": {"team": "theirs"}}, "settings": {"number_of_replicas": 3}}
    await client.indices.put_index_template(
        name=f"{prefix}all", index_patterns=[f"{prefix}*"], template=template, priority=500
    )
    await filled(engine, documents(NOTES), generation=OURS)
    assert await found(engine, OURS, "squeals") == ["n1"]
    assert (await engine.publish(OURS)).published
