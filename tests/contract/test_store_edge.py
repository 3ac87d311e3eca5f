"""The Edge store keeps the promises of VectorStore, and those of a directory on disk."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio

from services.contracts.collections import CollectionDeclaration
from services.storage.representation import Dense, MultiVector, SparseVector, Storage
from services.vectorstore.store import VectorQuery
from services.vectorstore.store_edge import EdgeStore
from tests.contract.token_vector_store import TokenVectorStoreSuite
from tests.contract.vector_store import VectorStoreSuite
from tests.support.approximate_search import assert_depth_changes_no_first_hit, found_share
from tests.support.vectors import COSINE, SAMPLES, SPEC, Sample, drawn, point, random_points, same, unit_rows

WIDE = replace(SPEC, generation="wide@1", representation=Dense(384), declaration=CollectionDeclaration())


@asynccontextmanager
async def opened(directory: Path) -> AsyncIterator[EdgeStore]:
    store = EdgeStore(directory)
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[EdgeStore]:
    async with opened(tmp_path / "vectors") as store:
        yield store


class TestEdge(VectorStoreSuite):
    """Every promise, on Qdrant Edge."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EdgeStore]:
    async with opened(tmp_path_factory.mktemp("tokens")) as store:
        yield store


class TestTokensOnEdge(TokenVectorStoreSuite):
    """Every promise about token vectors, on Qdrant Edge."""

    @pytest.fixture
    def store(self, shared: EdgeStore) -> EdgeStore:
        return shared


@pytest.mark.parametrize("sample", [*SAMPLES.values(), COSINE], ids=[*SAMPLES, "cosine"])
async def test_every_representation_survives_finishing_and_opening_again(tmp_path: Path, sample: Sample) -> None:
    points, query = drawn(sample, 1_200), drawn(sample, 9)[8].vector
    async with opened(tmp_path) as store:
        await store.create(sample.spec)
        await store.upsert("notes@1", points)
        before = await store.search("notes@1", VectorQuery(query, top=30, exact=True))
        held = await store.stored("notes@1", [one.id for one in points], vectors=True)
        await store.delete("notes@1", [one.id for one in points[600:]])
        await store.upsert("notes@1", points[600:])
        await store.finish("notes@1")
    async with opened(tmp_path) as store:
        assert await store.spec("notes@1") == sample.spec
        after = await store.search("notes@1", VectorQuery(query, top=30, exact=True))
        # Edge adds the terms of sparse vectors in the order of its segments.
        assert [(hit.id, hit.score) for hit in after] == [(hit.id, pytest.approx(hit.score)) for hit in before]
        again = await store.stored("notes@1", [one.id for one in points], vectors=True)
        for one, kept in held.items():
            copy = again[one].vector
            assert kept.vector is not None
            assert copy is not None
            assert same(kept.vector, copy)


async def test_a_representation_of_a_later_release_is_set_aside_and_the_others_serve(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.create(SAMPLES["sparse"].spec)
        await store.create(replace(SPEC, generation="notes@2"))
    record = tmp_path / "notes@1" / "collection.json"
    record.write_text(record.read_text().replace('"sparse"', '"tensor"'))
    async with opened(tmp_path) as store:
        assert await store.generations() == ("notes@2",)
        unusable = await store.unusable()
        assert [one.generation for one in unusable] == ["notes@1"]
        assert "does not know its representation {'kind': 'tensor'}" in unusable[0].reason


@pytest.fixture
async def wide(store: EdgeStore) -> EdgeStore:
    """800 vectors of 384 dimensions: above the threshold from which a graph is built."""
    await store.create(WIDE)
    await store.upsert("wide@1", random_points(800, 384))
    return store


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def indexed(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EdgeStore]:
    """The same vectors, finished. Tests only read them."""
    async with opened(tmp_path_factory.mktemp("indexed")) as store:
        await store.create(WIDE)
        await store.upsert("wide@1", random_points(800, 384))
        await store.finish("wide@1")
        yield store


async def test_finish_indexes_what_is_large_enough(wide: EdgeStore) -> None:
    query = VectorQuery(random_points(3, 384)[2].vector, top=100, exact=True)
    before, ranking = await wide.counts("wide@1"), await wide.search("wide@1", query)
    await wide.finish("wide@1")
    after = await wide.counts("wide@1")
    assert (before.documents, before.indexed, after.documents, after.indexed) == (800, 0, 800, 800)
    assert await wide.search("wide@1", query) == ranking  # exact


async def test_few_changes_build_no_published_index_again_and_repeated_ones_add_nothing(wide: EdgeStore) -> None:
    await wide.finish("wide@1")
    await wide.publish("wide@1")
    drawn = random_points(1_500, 384)
    await wide.upsert("wide@1", drawn[800:801])
    await wide.finish("wide@1")
    few = await wide.counts("wide@1")
    (best,) = await wide.search("wide@1", VectorQuery(drawn[800].vector, top=1))
    await wide.upsert("wide@1", drawn[801:])
    await wide.finish("wide@1")
    many = await wide.counts("wide@1")
    assert (few.documents, few.indexed, best.id) == (801, 800, drawn[800].id)
    assert (many.documents, many.indexed) == (1_500, 1_500)
    await wide.raise_versions("wide@1", {one.id: one.content_hash for one in drawn}, 2)
    await wide.finish("wide@1")
    assert ((await wide.counts("wide@1")).bytes or 0) < 1.2 * (many.bytes or 0)


async def test_searches_and_the_event_loop_go_on_while_the_index_is_built(wide: EdgeStore) -> None:
    finishing = asyncio.create_task(wide.finish("wide@1"))
    longest, answers = 0.0, 0
    clock = asyncio.get_running_loop().time
    while not finishing.done():
        start = clock()
        assert len(await wide.search("wide@1", VectorQuery(random_points(1, 384)[0].vector, top=10))) == 10
        longest, answers = max(longest, clock() - start), answers + 1
    assert answers > 5
    assert longest < 0.5


async def test_finish_gives_multi_vectors_an_approximate_index(store: EdgeStore) -> None:
    spec = SAMPLES["multi-vector"].spec
    random = np.random.default_rng(5)
    await store.create(replace(spec, representation=MultiVector(128, "fp32")))
    await store.upsert("notes@1", [point(str(one), unit_rows(random, 16, 128)) for one in range(160)])
    before = await store.counts("notes@1")
    await store.finish("notes@1")
    after = await store.counts("notes@1")
    assert (before.indexed, after.documents, after.indexed) == (0, 160, 160)
    assert (after.bytes or 0) > 160 * 16 * 128 * 4  # the vectors alone
    wanted = unit_rows(random, 8, 128)
    exact, near = [await store.search("notes@1", VectorQuery(wanted, 10, exact=exact)) for exact in (True, False)]
    assert len({hit.id for hit in exact} & {hit.id for hit in near}) >= 8  # a graph differs from build to build


@pytest.mark.parametrize("storage", ["fp16", "turbo4"])
async def test_finish_indexes_pooled_vectors(store: EdgeStore, storage: Storage) -> None:
    random = np.random.default_rng(5)
    await store.create(replace(SPEC, representation=MultiVector(128, storage)))
    await store.upsert("notes@1", [point(str(one), unit_rows(random, 16, 128)) for one in range(1_000)])
    before = await store.counts("notes@1")
    await store.finish("notes@1")
    after = await store.counts("notes@1")
    await store.upsert("notes@1", [point("later", unit_rows(random, 16, 128))])
    later = await store.counts("notes@1")
    assert (before.indexed, after.indexed, later.indexed, later.documents) == (0, 1_000, 1_000, 1_001)


async def test_a_finish_cut_off_by_its_deadline_goes_on(wide: EdgeStore) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await wide.finish("wide@1")
    await wide.finish("wide@1")
    assert (await wide.counts("wide@1")).indexed == 800


async def test_the_depth_of_an_approximate_search_changes_no_first_hit(indexed: EdgeStore) -> None:
    await assert_depth_changes_no_first_hit(indexed, "wide@1", list(unit_rows(np.random.default_rng(3), 20, 384)))


async def test_a_wider_beam_finds_more_of_the_best(indexed: EdgeStore) -> None:
    queries = list(unit_rows(np.random.default_rng(3), 20, 384))
    narrow, broad = [await found_share(indexed, "wide@1", queries, beam) for beam in (26, 800)]
    assert narrow < 0.95 < broad


async def test_what_is_written_after_finish_is_found(wide: EdgeStore) -> None:
    await wide.finish("wide@1")
    vector = random_points(1, 384)[0].vector
    assert not isinstance(vector, SparseVector)
    await wide.upsert("wide@1", [replace(point("new", vector * np.float32(2)), fields={})])
    assert (await wide.search("wide@1", VectorQuery(vector, top=1)))[0].id == "new"
    await wide.finish("wide@1")
    assert (await wide.search("wide@1", VectorQuery(vector, top=1)))[0].id == "new"


async def test_a_generation_dropped_during_searches_leaves_no_files(wide: EdgeStore, tmp_path: Path) -> None:
    vector = random_points(1, 384)[0].vector
    searches = [asyncio.create_task(wide.search("wide@1", VectorQuery(vector, top=100))) for _ in range(20)]
    await asyncio.sleep(0)
    await wide.drop("wide@1")
    await asyncio.gather(*searches, return_exceptions=True)
    assert sorted(entry.name for entry in (tmp_path / "vectors").iterdir()) == [".lock", ".reserve"]


async def test_a_generation_can_be_dropped_while_its_index_is_built(wide: EdgeStore, tmp_path: Path) -> None:
    finishing = asyncio.create_task(wide.finish("wide@1"))
    await asyncio.sleep(0.05)
    await wide.drop("wide@1")
    await asyncio.gather(finishing, return_exceptions=True)
    assert sorted(entry.name for entry in (tmp_path / "vectors").iterdir()) == [".lock", ".reserve"]


async def test_an_indexing_that_broke_off_is_cleaned_up_and_done_again(wide: EdgeStore, tmp_path: Path) -> None:
    folder = tmp_path / "vectors" / "wide@1"
    shutil.copytree(folder / "shard-1", folder / "shard-2")
    await wide.finish("wide@1")
    assert (await wide.counts("wide@1")).indexed == 800
    await wide.close()
    (folder / "shard-3").mkdir()
    async with opened(tmp_path / "vectors") as again:
        assert (await again.counts("wide@1")).indexed == 800
        assert sorted(entry.name for entry in folder.iterdir()) == ["collection.json", "shard-2"]
