"""What VectorStore promises about token vectors in each storage; every store runs it (a subclass gives `store`)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from services.storage.representation import MultiVector, SparseVector, Storage, TokenVectors, pooled_vector
from services.vectorstore.store import Point, VectorQuery, VectorStore
from tests.support.approximate_search import assert_depth_changes_no_first_hit
from tests.support.vectors import MULTI_VECTOR, halved, point, same, unit_rows

DIMENSION = 128
# How far a score may be from the MaxSim of the given vectors, in lengths of the query's tokens (documents': 1). The
# first holds for exact scores, the second for those of an approximate search.
BOUNDS: Mapping[Storage, tuple[float, float]] = {
    "fp32": (1e-5, 1e-5), "fp16": (1e-3, 1e-3), "turbo4": (0.03, 0.03),
}  # fmt: skip
POOLED: Sequence[Storage] = [storage for storage in BOUNDS if storage != "fp32"]


def weighted_queries() -> list[TokenVectors]:
    """Queries whose tokens have lengths from 0.1 to 10."""
    random = np.random.default_rng(3)
    lengths = np.logspace(-1, 1, 8, dtype=np.float32)[:, None]
    return [unit_rows(random, 8, DIMENSION) * lengths for _ in range(5)]


def max_sims(query: TokenVectors, points: Sequence[Point]) -> dict[str, float]:
    """NumPy's MaxSim of each document."""
    return {one.id: float((query @ tokens_of(one).T).max(axis=1).sum()) for one in points}


def tokens_of(given: Point) -> TokenVectors:
    assert not isinstance(given.vector, SparseVector)
    return given.vector


async def kept(store: VectorStore, storage: Storage, points: Sequence[Point]) -> list[Point]:
    """Stores points in a generation of their own; returns them with the vectors that are read."""
    generation = f"copies@{len(await store.generations()) + 10}"
    await store.create(
        replace(MULTI_VECTOR.spec, generation=generation, representation=MultiVector(DIMENSION, storage))
    )
    await store.upsert(generation, points)
    held = await store.stored(generation, [one.id for one in points], vectors=True)
    return [replace(one, vector=vector) for one in points if (vector := held[one.id].vector) is not None]


def lengths(query: TokenVectors) -> float:
    """The sum of the lengths of the query's tokens."""
    return float(np.linalg.norm(query, axis=1).sum())


_RANDOM = np.random.default_rng(5)
# Enough for the engines to make codes of them, and few enough that they compare every pooled vector.
DOCUMENTS = [point(f"d{place:03d}", unit_rows(_RANDOM, 16, DIMENSION)) for place in range(400)]


class TokenVectorStoreSuite:
    """Subclass it with a `store` fixture that gives an open store, which the tests of the class may share."""

    @pytest.fixture(params=BOUNDS)
    def storage(self, request: pytest.FixtureRequest) -> Storage:
        storage: Storage = request.param
        return storage

    @pytest.fixture
    def generation(self, storage: Storage) -> str:
        return f"{storage}@1"

    @pytest.fixture
    async def finished(self, store: VectorStore, storage: Storage, generation: str) -> VectorStore:
        """A store with the finished generation of a storage. The tests only read it: an index takes up to 1.5 s."""
        if generation not in await store.generations():
            representation = MultiVector(DIMENSION, storage)
            await store.create(replace(MULTI_VECTOR.spec, generation=generation, representation=representation))
            await store.upsert(generation, DOCUMENTS)
            await store.finish(generation)
        return store

    async def test_scores_are_as_near_to_max_sim_as_the_storage_allows(
        self, finished: VectorStore, storage: Storage, generation: str
    ) -> None:
        for query in weighted_queries():
            expected = max_sims(query, DOCUMENTS)
            for exact, bound in zip((True, False), BOUNDS[storage], strict=True):
                hits = await finished.search(generation, VectorQuery(query, top=384, exact=exact, beam=400))
                assert len(hits) == 384
                assert [hit.score for hit in hits] == pytest.approx(
                    [expected[hit.id] for hit in hits], rel=0, abs=bound * lengths(query)
                )

    async def test_scores_of_named_documents_are_those_of_an_exact_search(
        self, finished: VectorStore, generation: str
    ) -> None:
        query = weighted_queries()[0]
        hits = await finished.search(generation, VectorQuery(query, top=400, exact=True))
        named = await finished.scores(generation, [one.id for one in DOCUMENTS[::3]], query)
        assert named == {hit.id: hit.score for hit in hits if hit.id in named}
        assert len(named) == 134

    async def test_token_vectors_come_back_in_half_precision(self, store: VectorStore) -> None:
        for given, held in zip(DOCUMENTS, await kept(store, "fp16", DOCUMENTS), strict=True):
            assert same(halved(tokens_of(given)), tokens_of(held))

    async def test_copies_of_copies_of_codes_are_as_near_as_the_first(self, store: VectorStore) -> None:
        copies = DOCUMENTS[:50]
        for _ in range(4):
            copies = await kept(store, "turbo4", copies)
        for given, held in zip(DOCUMENTS, copies, strict=False):
            cosines = (tokens_of(given) * tokens_of(held)).sum(axis=1)
            assert np.linalg.norm(tokens_of(held), axis=1) == pytest.approx(1.0, abs=1e-5)
            assert cosines.min() > 0.98

    @pytest.fixture
    def shards(self) -> int:
        """Of how many shards a generation is: each gives its own candidates."""
        return 1

    @pytest.mark.parametrize("storage", POOLED)
    async def test_candidates_are_the_nearest_by_the_pooled_vector(
        self, finished: VectorStore, storage: Storage, generation: str, shards: int
    ) -> None:
        for query in weighted_queries():
            near = {one.id: float(pooled_vector(tokens_of(one)) @ pooled_vector(query)) for one in DOCUMENTS}
            candidates = sorted(DOCUMENTS, key=lambda one: -near[one.id])[:40]
            found = await finished.search(generation, VectorQuery(query, top=24, beam=40))
            best = sorted(max_sims(query, candidates).values(), reverse=True)[:24]
            scores, bound = [hit.score for hit in found], BOUNDS[storage][1] * lengths(query)
            assert len(scores) == 24
            # Several shards give the nearest of all, and others, which may be better.
            assert all(score > least - bound for score, least in zip(scores, best, strict=True))
            if shards == 1:
                assert len({hit.id for hit in found} - {one.id for one in candidates}) <= 1  # two may be equally near
                assert scores == pytest.approx(best, rel=0, abs=bound)

    async def test_the_depth_of_an_approximate_search_changes_no_first_hit(
        self, finished: VectorStore, generation: str
    ) -> None:
        await assert_depth_changes_no_first_hit(finished, generation, weighted_queries())
