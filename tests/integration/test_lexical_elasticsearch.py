"""A real Elasticsearch keeps the promises of a lexical engine, and the adapter its own."""

import asyncio
import random
import time
import uuid
from collections.abc import AsyncIterator

import pytest
from elasticsearch import AsyncElasticsearch

from services.chassis.errors import BadInput, UnknownCollection
from services.contracts.content_digest import ContentDigest
from services.contracts.documents import Document
from services.lexical.app import build_app, open_engine
from services.lexical.elasticsearch_mapping import search_query
from services.lexical.engine import LexicalEngine
from services.lexical.presets import BUILT_IN
from services.lexical.settings import LexicalSettings
from services.storage.elasticsearch.searching import ORDER
from tests.contract.lexical_engine import LexicalEngineSuite
from tests.support.lexical_notes import (
    ALL_PRESETS,
    NOTES,
    TIED_QUERIES,
    EngineOpener,
    client_of,
    documents,
    filled,
    found,
    rankings_of,
    request_for,
    tied_documents,
)
from tests.support.opened_client import opened_client
from tests.support.two_writers import assert_the_newest_write_of_each_id_stays

# The first test waits for the server to start.
pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]


class ElasticsearchOpener(EngineOpener):
    def __init__(self, settings: LexicalSettings, client: AsyncElasticsearch) -> None:
        self.settings = settings
        self.client = client

    async def open(self) -> LexicalEngine:
        return open_engine(self.settings)

    async def change_stamp(self, engine: LexicalEngine, generation: str) -> LexicalEngine:
        await engine.close()
        index = f"{self.settings.index_prefix}{generation}"
        mapping = (await self.client.indices.get_mapping(index=index)).body[index]["mappings"]
        meta = mapping["_meta"]
        meta["stamp"]["analysis"] = "elasticsearch-english-0"
        await self.client.indices.put_mapping(index=index, meta=meta)
        return await self.open()


@pytest.fixture
async def opener(elasticsearch_url: str) -> AsyncIterator[ElasticsearchOpener]:
    prefix = f"test-{uuid.uuid4().hex[:12]}-"
    settings = LexicalSettings(engine="elasticsearch", elasticsearch_url=elasticsearch_url, index_prefix=prefix)
    async with client_of(settings) as client:
        yield ElasticsearchOpener(settings, client)
        left = (await client.indices.get(index=f"{prefix}*")).body
        if left:
            await client.indices.delete(index=list(left))


class TestElasticsearch(LexicalEngineSuite):
    """Every promise, on the server."""


class TestThreeShards(LexicalEngineSuite):
    """Every promise, also where an index has several shards."""

    @pytest.fixture
    def opener(self, opener: ElasticsearchOpener) -> ElasticsearchOpener:
        return in_shards(opener, 3)


def in_shards(opener: ElasticsearchOpener, shards: int) -> ElasticsearchOpener:
    """The same server and prefix, with another number of shards for new indices."""
    return ElasticsearchOpener(opener.settings.model_copy(update={"shards": shards}), opener.client)


@pytest.fixture
async def engine(opener: ElasticsearchOpener) -> AsyncIterator[LexicalEngine]:
    engine = await opener.open()
    yield engine
    await engine.close()


async def test_the_published_generation_goes_by_the_collections_name(
    engine: LexicalEngine, opener: ElasticsearchOpener
) -> None:
    prefix = opener.settings.index_prefix
    await filled(engine, documents(NOTES))
    await filled(engine, documents(NOTES), generation="notes@2")
    for generation in ("notes@1", "notes@2"):
        await engine.publish(generation)
        assert list((await opener.client.indices.get_alias(name=f"{prefix}notes")).body) == [f"{prefix}{generation}"]


async def test_finishing_merges_a_build_and_not_a_live_generation(
    engine: LexicalEngine, opener: ElasticsearchOpener
) -> None:
    for note in NOTES:
        await filled(engine, documents({note: NOTES[note]}))
    index = f"{opener.settings.index_prefix}notes@1"
    assert await segments_of(opener, index) == 1
    await engine.publish("notes@1")
    for number in range(3):
        await engine.index("notes@1", documents({f"more{number}": "brake"}))
    assert await segments_of(opener, index) > 1
    await engine.finish("notes@1")
    assert await segments_of(opener, index) > 1


def digest_of(held: list[Document]) -> str:
    expected = ContentDigest()
    expected.add((document.id, document.content_hash) for document in held)
    return expected.hexdigest()


@pytest.mark.parametrize("shards", [1, 3])
async def test_elasticsearch_sums_the_digest_in_one_search(opener: ElasticsearchOpener, shards: int) -> None:
    engine = await in_shards(opener, shards).open()
    held = documents({f"d{number}": f"brake {number}" for number in range(1_500)})
    generation = await filled(engine, held)
    index = f"{opener.settings.index_prefix}{generation}"
    assert await engine.digest(generation) == digest_of(held)
    searches = (await opener.client.indices.stats(index=index, metric="search"))["_all"]["total"]["search"]
    assert searches["query_total"] == shards
    assert "digest" not in (await opener.client.get(index=index, id="d7"))["_source"]
    await engine.close()


async def test_a_live_write_can_be_acknowledged_before_searches_see_it(opener: ElasticsearchOpener) -> None:
    settings = opener.settings.model_copy(update={"elasticsearch_refresh": "interval"})
    engine = open_engine(settings)
    await filled(engine, documents(NOTES))
    await engine.publish("notes@1")
    client, index = opener.client, f"{settings.index_prefix}notes@1"
    await client.indices.put_settings(index=index, settings={"refresh_interval": "-1"})
    assert (await engine.index("notes@1", documents({"n9": "saddle"}))).indexed == 1
    assert await found(engine, "notes@1", "saddle") == []
    assert [document.id for document in (await engine.get("notes@1", ["n9"])).documents] == ["n9"]
    await client.indices.put_settings(index=index, settings={"refresh_interval": "1s"})
    deadline = time.monotonic() + 30
    while await found(engine, "notes@1", "saddle") != ["n9"]:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)
    await engine.delete("notes@1", ["n9"])
    await engine.finish("notes@1")
    assert await found(engine, "notes@1", "saddle") == []
    await engine.close()


async def segments_of(opener: ElasticsearchOpener, index: str) -> int:
    segments = await opener.client.indices.segments(index=index)
    return int(segments.body["indices"][index]["shards"]["0"][0]["num_search_segments"])


async def test_three_shards_rank_and_score_as_one_does(opener: ElasticsearchOpener) -> None:
    rankings = {}
    for shards in (1, 3):
        engine = await in_shards(opener, shards).open()
        generation = await filled(engine, tied_documents(), generation=f"notes@{shards}")
        rankings[shards] = await rankings_of(engine, generation)
        await engine.close()
    assert rankings[3] == rankings[1]
    assert any(len(ranking) > 100 for ranking in rankings[1])
    # By the term statistics of each shard alone, the same index ranks otherwise.
    alone = await opener.client.search(
        index=f"{opener.settings.index_prefix}notes@3",
        query=search_query(BUILT_IN["beir"], TIED_QUERIES[0], (), ()),
        sort=list(ORDER),
        size=7,
    )
    assert [tuple(hit["sort"][::-1]) for hit in alone["hits"]["hits"]] != rankings[1][0]


async def test_an_index_keeps_its_shards_under_another_setting(opener: ElasticsearchOpener) -> None:
    three_shards, single_shard = await in_shards(opener, 3).open(), await opener.open()
    generation = await filled(three_shards, documents(NOTES))
    assert (await filled(single_shard, documents(NOTES))) == generation
    assert await found(single_shard, generation, "wobbles") == ["n3"]
    assert [state.stamp.get("shards") for state in await single_shard.states()] == ["3"]
    assert "shards" not in (await single_shard.begin("notes@2", ALL_PRESETS)).stamp
    for engine in (three_shards, single_shard):
        await engine.close()


async def test_writing_to_an_index_that_was_just_removed_does_not_bring_it_back(
    engine: LexicalEngine, opener: ElasticsearchOpener
) -> None:
    await filled(engine, documents(NOTES))
    await engine.build("notes@1")  # remembered
    await opener.client.indices.delete(index=f"{opener.settings.index_prefix}notes@1")  # as another replica would
    for call in (
        engine.index("notes@1", documents({"n9": "new"})),
        engine.delete("notes@1", ["n1"], 1_000),
        engine.get("notes@1", ["n1"]),
        engine.search("notes@1", request_for("brake")),
    ):
        with pytest.raises(UnknownCollection):
            await call
    assert (await opener.client.indices.get(index=f"{opener.settings.index_prefix}*")).body == {}
    assert await engine.states() == ()
    assert await filled(engine, documents(NOTES)) == "notes@1"


async def test_of_two_services_writes_the_newest_of_each_id_stays(opener: ElasticsearchOpener) -> None:
    apps = [build_app(opener.settings), build_app(opener.settings)]
    await assert_the_newest_write_of_each_id_stays(apps, 2_000, deletions=0.1)


async def test_a_keyword_beyond_a_term_of_lucene_is_reported_by_document(engine: LexicalEngine) -> None:
    declaration = ALL_PRESETS.model_copy(update={"metadata": {"tag": "keyword"}})
    await engine.begin("notes@1", declaration)
    huge = Document(id="huge", text="brake", metadata={"tag": "x" * 40_000})
    report = await engine.index("notes@1", [huge, Document(id="good", text="brake")])
    assert report.indexed == 1
    assert [error.id for error in report.errors] == ["huge"]
    assert "32,766 bytes" in report.errors[0].reason
    await engine.finish("notes@1")
    assert await found(engine, "notes@1", "brake") == ["good"]


async def test_a_query_of_nothing_but_different_words_is_answered_or_refused_with_a_reason(
    engine: LexicalEngine,
) -> None:
    generation = await filled(engine, documents(NOTES))
    every_word_another = "".join(chr(0x4E00 + number) for number in range(16_384))
    # How many words a server takes depends on its heap and cores: at 1 GiB and two cores, these on one field alone.
    for preset in ("anserini-flat", "beir"):
        try:
            outcome = str(await found(engine, generation, every_word_another, preset=preset))
        except BadInput as refused:
            outcome = refused.detail
        assert outcome == "[]" or "more distinct words" in outcome


async def test_a_deadline_that_has_passed_in_elasticsearch_is_a_504_and_the_next_search_is_fine(
    opener: ElasticsearchOpener,
) -> None:
    async with opened_client(build_app(opener.settings)) as client:
        await client.put("/v1/collections/notes@1", json={})
        path = "/v1/collections/notes@1/search"
        # An empty index may answer within the millisecond; of twenty searches one does not.
        deadline = {"x-deadline-ms": "1"}
        late = [await client.post(path, json={"query": f"brake {at}"}, headers=deadline) for at in range(20)]
        assert 504 in {answer.status_code for answer in late} <= {200, 504}
        assert (await client.post(path, json={"query": "brake"})).status_code == 200
        assert (await client.get("/readyz")).status_code == 200


async def test_a_short_deadline_is_not_called_passed_before_it_is(opener: ElasticsearchOpener) -> None:
    draw = random.Random(3)
    words = [f"word{number}" for number in range(400)]
    texts = [Document(id=str(number), text=" ".join(draw.choices(words, k=80))) for number in range(4000)]
    query = {"query": " ".join(words[:200]), "top": 100}
    async with opened_client(build_app(opener.settings), timeout=60) as client:
        path = "/v1/collections/notes@1"
        await client.put(path, json={})
        for start in range(0, len(texts), 200):
            batch = [document.model_dump() for document in texts[start : start + 200]]
            (await client.post(f"{path}/documents", json={"documents": batch})).raise_for_status()
        (await client.post(f"{path}/finish", json={})).raise_for_status()
        early = []
        for _ in range(300):
            started = time.monotonic()
            answer = await client.post(f"{path}/search", json=query, headers={"x-deadline-ms": "150"})
            took_s = time.monotonic() - started
            if answer.status_code != 200 and took_s < 0.1:
                early.append(took_s)
        assert not early
