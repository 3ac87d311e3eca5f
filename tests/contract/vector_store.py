"""What VectorStore promises, one test a promise; every store runs it (a subclass gives the `store` fixture)."""

import time
from dataclasses import replace

import numpy as np
import pytest

from services.chassis.errors import BadInput, BuildConflict, StampMismatch, UnknownCollection
from services.contracts.collections import CollectionDeclaration
from services.contracts.content_digest import ContentDigest
from services.contracts.filters import Condition, Filter
from services.storage.fields import requirements_of
from services.storage.representation import MultiVector, SparseVector
from services.vectorstore.store import VectorQuery, VectorStore
from tests.contract.vector_filters import FilterSuite
from tests.contract.vector_writes import VectorWritesSuite
from tests.support.approximate_search import assert_depth_changes_no_first_hit, found_share
from tests.support.vectors import (
    COSINE,
    DECLARED,
    DENSE,
    FP16,
    MULTI_VECTOR,
    SAMPLES,
    SPARSE,
    Sample,
    axis,
    drawn,
    passages_of,
    point,
    same,
    sparse,
    unit_rows,
)

# What is the same for every vector is tried where points differ: one vector without a name, one with, and two.
SHAPES = ("dense", "sparse", "fp16")
SCORED = {**{name: sample for name, sample in SAMPLES.items() if sample is not FP16}, "cosine": COSINE}


class VectorStoreSuite(FilterSuite, VectorWritesSuite):
    """Subclass it with a `store` fixture that gives an empty, open store. Every promise holds for every sample."""

    engine = "qdrant"

    @pytest.fixture(params=SHAPES)
    def sample(self, request: pytest.FixtureRequest) -> Sample:
        return SAMPLES[request.param]

    @pytest.fixture(params=SAMPLES)
    def any_sample(self, request: pytest.FixtureRequest) -> Sample:
        return SAMPLES[request.param]

    async def test_it_is_ready_and_says_what_it_is(self, store: VectorStore) -> None:
        assert (await store.ready()).ok
        assert self.engine in store.engine

    async def test_the_best_come_first_with_their_score(self, store: VectorStore, any_sample: Sample) -> None:
        await store.create(any_sample.spec)
        await store.upsert(
            "notes@1", [point("far", any_sample.axis(0.5, 1.0)), point("near", any_sample.axis(0.6, 0.8))]
        )
        hits = await store.search("notes@1", VectorQuery(any_sample.axis(1.0), top=10))
        assert [hit.id for hit in hits] == ["near", "far"]
        assert [hit.score for hit in hits] == pytest.approx([0.6, 0.5], abs=any_sample.tolerance)

    async def test_ids_are_the_callers(self, notes: VectorStore, sample: Sample) -> None:
        ids = ["1", "01", "a/b c", "ü", "x" * 512, "6f1b0a36-3c0d-4f6e-9f0c-6f1a9a1f6c53"]
        await notes.upsert("notes@1", [point(one, sample.axis(1.0)) for one in ids])
        assert await self.found(notes, VectorQuery(sample.axis(1.0), top=10)) == sorted(ids)
        assert set(await notes.stored("notes@1", ids, vectors=False)) == set(ids)

    async def test_fields_are_replaced_with_the_rest(self, filed: VectorStore, sample: Sample) -> None:
        await filed.upsert("notes@1", [point("a", sample.axis(1.0), {"topic": "wheels"})])
        with_year = requirements_of(Filter(all=(Condition(field="year", op="eq", value=2019),)), DECLARED.metadata)
        assert await self.found(filed, VectorQuery(sample.axis(1.0), top=10, where=with_year)) == []

    async def test_equal_scores_are_in_ascending_order_of_id(self, notes: VectorStore, sample: Sample) -> None:
        ids = [f"{number:02d}" for number in range(20)]
        await notes.upsert("notes@1", [point(one, sample.axis(1.0)) for one in reversed(ids)])
        assert await self.found(notes, VectorQuery(sample.axis(1.0), top=20)) == ids

    @pytest.mark.parametrize("exact", [True, False])
    async def test_equal_scores_are_in_order_at_the_cut_too(
        self, notes: VectorStore, sample: Sample, exact: bool
    ) -> None:
        ids = [f"{number:03d}" for number in range(150)]
        await notes.upsert(
            "notes@1", [point("first", sample.axis(1.0, 1.0)), *(point(one, sample.axis(1.0)) for one in ids[::-1])]
        )
        query = VectorQuery(sample.axis(1.0, 1.0), top=4, exact=exact)
        assert await self.found(notes, query) == ["first", "000", "001", "002"]

    @pytest.mark.parametrize("sample", SCORED.values(), ids=SCORED)
    async def test_exact_search_agrees_with_numpy(self, notes: VectorStore, sample: Sample) -> None:
        points = drawn(sample, 500)
        await notes.upsert("notes@1", points)
        for _ in range(2):
            for seed in range(3):
                wanted = sample.random(np.random.default_rng(seed))
                scored = {one.id: sample.score(wanted, one.vector) for one in points}
                scores = {one: score for one, score in scored.items() if score is not None}
                hits = await notes.search("notes@1", VectorQuery(wanted, top=50, exact=True))
                assert [hit.id for hit in hits] == sorted(scores, key=lambda one: (-scores[one], one))[:50]
                assert [hit.score for hit in hits] == pytest.approx([scores[hit.id] for hit in hits], abs=1e-5)
            await notes.finish("notes@1")

    @pytest.mark.parametrize("sample", SCORED.values(), ids=SCORED)
    async def test_scores_of_named_documents_are_exact_and_those_of_absent_ones_are_left_out(
        self, notes: VectorStore, sample: Sample
    ) -> None:
        points = drawn(sample, 500)
        await notes.upsert("notes@1", points)
        wanted = sample.random(np.random.default_rng(4))
        named = points[3:400:7]
        expected = {one.id: sample.score(wanted, one.vector) or 0.0 for one in named}
        ids = [*expected, "never", named[0].id]
        for _ in range(2):
            assert await notes.scores("notes@1", ids, wanted) == pytest.approx(expected, abs=1e-5)
            await notes.finish("notes@1")
        assert await notes.scores("notes@1", ["never"], wanted) == {}
        assert await notes.scores("notes@1", [], wanted) == {}

    async def test_a_query_of_one_vector_scores_documents_by_their_best_vector(self, store: VectorStore) -> None:
        points = passages_of(800, 192)
        await store.create(replace(MULTI_VECTOR.spec, representation=MultiVector(192, "fp32")))
        await store.upsert("notes@1", points)
        queries = list(unit_rows(np.random.default_rng(3), 20, 192)[:, np.newaxis])
        for _ in range(2):
            for query in queries:
                best = {one.id: MULTI_VECTOR.score(query, one.vector) or 0.0 for one in points}
                hits = await store.search("notes@1", VectorQuery(query, top=50, exact=True))
                assert [hit.id for hit in hits] == sorted(best, key=lambda one: (-best[one], one))[:50]
                assert [hit.score for hit in hits] == pytest.approx([best[hit.id] for hit in hits], abs=1e-5)
            assert await found_share(store, "notes@1", queries, beam=40) > 0.87  # 0.80 with the links of single vectors
            await assert_depth_changes_no_first_hit(store, "notes@1", queries)
            await store.finish("notes@1")

    @pytest.mark.parametrize("sample", [SPARSE], ids=["sparse"])
    async def test_a_sparse_search_finds_those_that_share_a_term_and_no_others(
        self, notes: VectorStore, sample: Sample
    ) -> None:
        held = {"shares": sparse((3, 2.0), (9, 1.0)), "less": sparse((3, -1.0)), "other": sparse((8, 5.0)),
                "empty": sparse(), "last": sparse((2**32 - 1, 1.5))}  # fmt: skip
        await notes.upsert("notes@1", [point(one, vector) for one, vector in held.items()])
        query = VectorQuery(sparse((3, 0.5), (7, 1.0), (2**32 - 1, 1.0)), top=10)
        hits = await notes.search("notes@1", query)
        assert [(hit.id, hit.score) for hit in hits] == [("last", 1.5), ("shares", 1.0), ("less", -0.5)]
        assert await self.found(notes, VectorQuery(sparse(), top=10)) == []
        assert (await notes.counts("notes@1")).documents == 5
        vector = (await notes.stored("notes@1", ["empty"], vectors=True))["empty"].vector
        assert vector is not None
        assert same(SparseVector(np.empty(0, np.uint32), np.empty(0, np.float32)), vector)

    @pytest.mark.parametrize("sample", [COSINE], ids=["cosine"])
    async def test_by_cosine_length_counts_for_nothing_and_copies_drift_by_nothing(
        self, notes: VectorStore, sample: Sample
    ) -> None:
        await notes.upsert("notes@1", [point("long", axis(6.0, 8.0)), point("zero", axis()), *drawn(sample, 20)])
        hits = await notes.search("notes@1", VectorQuery(axis(0.3, 0.4), top=1))
        assert [(hit.id, round(hit.score, 6)) for hit in hits] == [("long", 1.0)]
        ids = ["long", "zero", *(one.id for one in drawn(sample, 20))]
        await notes.create(replace(sample.spec, generation="notes@2"))
        first = await notes.stored("notes@1", ids, vectors=True)
        copies = [point(one, held.vector) for one, held in first.items() if held.vector is not None]
        await notes.upsert("notes@2", copies)
        second = await notes.stored("notes@2", ids, vectors=True)
        assert len(copies) == 22
        for copy in copies:
            vector = second[copy.id].vector
            assert vector is not None
            assert same(copy.vector, vector)

    async def test_vectors_come_back_bit_by_bit(self, store: VectorStore, any_sample: Sample) -> None:
        await store.create(any_sample.spec)
        given = drawn(any_sample, 20)
        await store.upsert("notes@1", given)
        held = await store.stored("notes@1", [one.id for one in given], vectors=True)
        for one in given:
            vector = held[one.id].vector
            assert vector is not None
            assert same(one.vector, vector)

    async def test_hashes_are_kept_and_absent_ids_are_absent(self, notes: VectorStore, sample: Sample) -> None:
        await notes.upsert("notes@1", [point("a", sample.axis(1.0))])
        held = await notes.stored("notes@1", ["a", "b"], vectors=False)
        assert {one: (held[one].content_hash, held[one].passage_hash) for one in held} == {
            "a": ("content of a", "passage of a")
        }

    async def test_what_is_no_vector_of_the_representation_is_refused(
        self, store: VectorStore, any_sample: Sample
    ) -> None:
        await store.create(any_sample.spec)
        for wrong, said in any_sample.wrong:
            with pytest.raises(BadInput, match=said):
                await store.search("notes@1", VectorQuery(wrong, top=10))
            with pytest.raises(BadInput, match=said):
                await store.scores("notes@1", ["a"], wrong)
            with pytest.raises(BadInput, match=said):
                await store.upsert("notes@1", [point("a", wrong)])
        assert (await store.counts("notes@1")).documents == 0

    async def test_creating_again_keeps_documents_and_backends(self, notes: VectorStore, sample: Sample) -> None:
        await notes.upsert("notes@1", [point("a", sample.axis(1.0))])
        declaration = sample.spec.declaration.model_copy(update={"backends": ("b",)})
        await notes.create(replace(sample.spec, declaration=declaration))
        assert (await notes.counts("notes@1")).documents == 1
        assert await notes.spec("notes@1") == sample.spec

    @pytest.mark.parametrize("sample", [DENSE], ids=["dense"])
    async def test_another_stamp_is_refused_and_both_are_named(self, notes: VectorStore, sample: Sample) -> None:
        with pytest.raises(StampMismatch, match=r"model=unit.*model=other"):
            await notes.create(replace(sample.spec, stamp={**sample.spec.stamp, "model": "other"}))

    async def test_another_representation_is_refused_and_both_are_named(
        self, notes: VectorStore, sample: Sample
    ) -> None:
        with pytest.raises(StampMismatch, match="multi-vector, 16 dimensions"):
            await notes.create(replace(sample.spec, representation=MultiVector(16, "fp32")))

    @pytest.mark.parametrize("sample", [DENSE], ids=["dense"])
    async def test_another_declaration_is_refused_and_both_are_named(self, notes: VectorStore, sample: Sample) -> None:
        with pytest.raises(StampMismatch, match=r'"topic":"keyword".*"metadata":\{\}'):
            await notes.create(replace(sample.spec, declaration=CollectionDeclaration()))

    @pytest.mark.parametrize("sample", [DENSE], ids=["dense"])
    async def test_another_build_is_refused_and_the_same_goes_on(self, store: VectorStore, sample: Sample) -> None:
        mine = replace(sample.spec, build="0123456789abcdef")
        await store.create(mine)
        await store.create(mine)
        await store.create(sample.spec)
        assert (await store.spec("notes@1")).build == "0123456789abcdef"
        with pytest.raises(BuildConflict, match="notes@1"):
            await store.create(replace(sample.spec, build="fedcba9876543210"))

    @pytest.mark.parametrize("sample", [DENSE], ids=["dense"])
    async def test_the_owner_of_a_generation_is_kept(self, store: VectorStore, sample: Sample) -> None:
        await store.create(replace(sample.spec, owner="0123456789ab"))
        await store.create(replace(sample.spec, owner="ba9876543210"))
        await store.create(replace(sample.spec, generation="notes@2"))
        owners = [(await store.spec(generation)).owner for generation in ("notes@1", "notes@2")]
        assert owners == ["0123456789ab", None]

    @pytest.mark.parametrize("sample", [DENSE], ids=["dense"])
    async def test_the_time_of_publishing_is_kept_when_another_takes_the_place(
        self, notes: VectorStore, sample: Sample
    ) -> None:
        await notes.create(replace(sample.spec, generation="notes@2"))
        assert await notes.publication("notes@1") is None
        before = time.time()
        await notes.publish("notes@1")
        first = await notes.publication("notes@1")
        assert first is not None
        assert before <= first.at <= time.time()
        await notes.publish("notes@1")
        assert await notes.publication("notes@1") == first
        await notes.publish("notes@2")
        assert await notes.publication("notes@1") == first
        await notes.publish("notes@1")
        again = await notes.publication("notes@1")
        assert again is not None
        assert again.at > first.at

    @pytest.mark.parametrize("sample", [DENSE], ids=["dense"])
    async def test_publications_are_numbered_whatever_the_clock_and_keep_their_number(
        self, notes: VectorStore, sample: Sample
    ) -> None:
        async def number(generation: str) -> int | None:
            found = await notes.publication(generation)
            return None if found is None else found.number

        await notes.create(replace(sample.spec, generation="notes@2"))
        await notes.create(replace(sample.spec, generation="letters@1"))
        for generation, asked, expected in (
            ("notes@1", None, 1),
            ("notes@2", 7, 7),
            ("notes@2", 9, 7),  # it is the published one already
            ("letters@1", None, 1),
            ("notes@1", 3, 8),  # above the others, whatever is asked for
        ):
            await notes.publish(generation, asked)
            assert await number(generation) == expected
        assert await number("notes@2") == 7

    async def test_equal_documents_have_equal_digests_in_whatever_order_they_came(
        self, notes: VectorStore, sample: Sample
    ) -> None:
        await notes.create(replace(sample.spec, generation="notes@2"))
        points = drawn(sample, 1_200 if sample is DENSE else 60)  # once more than a page, which is of no vectors
        await notes.upsert("notes@1", points)
        await notes.upsert("notes@2", points[::-1])
        expected = ContentDigest()
        expected.add((one.id, one.content_hash) for one in points)
        assert await notes.digest("notes@1") == await notes.digest("notes@2") == expected.hexdigest()
        await notes.upsert("notes@2", [replace(points[7], content_hash="another content")])
        assert await notes.digest("notes@2") != expected.hexdigest()
        await notes.delete("notes@1", [points[7].id])
        assert await notes.digest("notes@1") != expected.hexdigest()

    @pytest.mark.parametrize("sample", [DENSE], ids=["dense"])
    async def test_what_is_not_there_is_unknown(self, store: VectorStore, sample: Sample) -> None:
        query = VectorQuery(sample.axis(1.0), top=1)
        for call in (
            store.spec("none@1"), store.counts("none@1"), store.stored("none@1", ["a"], vectors=False),
            store.upsert("none@1", [point("a", sample.axis(1.0))]), store.delete("none@1", ["a"]),
            store.search("none@1", query), store.scores("none@1", ["a"], query.vector), store.finish("none@1"),
            store.publish("none@1"), store.drop("none@1"), store.publication("none@1"), store.digest("none@1"),
        ):  # fmt: skip
            with pytest.raises(UnknownCollection, match="none@1"):
                await call

    @pytest.mark.parametrize("sample", [DENSE], ids=["dense"])
    async def test_generations_are_apart_and_listed_in_order(self, notes: VectorStore, sample: Sample) -> None:
        for generation in ("notes@10", "notes@2", "alone@1"):
            await notes.create(replace(sample.spec, generation=generation))
        await notes.upsert("notes@2", [point("a", sample.axis(1.0))])
        assert await self.found(notes, VectorQuery(sample.axis(1.0), top=10)) == []
        assert await notes.generations() == ("alone@1", "notes@1", "notes@2", "notes@10")

    @pytest.mark.parametrize("sample", [DENSE], ids=["dense"])
    async def test_one_generation_of_a_name_is_published(self, notes: VectorStore, sample: Sample) -> None:
        for generation in ("notes@2", "other@1"):
            await notes.create(replace(sample.spec, generation=generation))
        assert await notes.published() == {}
        for generation in ("notes@1", "other@1", "notes@2", "notes@2"):
            await notes.publish(generation)
        assert await notes.published() == {"notes": "notes@2", "other": "other@1"}

    async def test_a_dropped_generation_is_gone_and_may_come_again(self, notes: VectorStore, sample: Sample) -> None:
        await notes.upsert("notes@1", [point("a", sample.axis(1.0))])
        await notes.publish("notes@1")
        await notes.drop("notes@1")
        assert await notes.generations() == ()
        assert await notes.published() == {}
        with pytest.raises(UnknownCollection):
            await notes.search("notes@1", VectorQuery(sample.axis(1.0), top=10))
        other = CollectionDeclaration(metadata={"other": "number"})
        await notes.create(replace(sample.spec, declaration=other))
        assert (await notes.counts("notes@1")).documents == 0
        assert (await notes.spec("notes@1")).declaration == other

    async def test_finish_can_be_called_at_any_time_and_twice(self, notes: VectorStore, sample: Sample) -> None:
        await notes.finish("notes@1")
        await notes.upsert("notes@1", [point("a", sample.axis(1.0))])
        await notes.finish("notes@1")
        await notes.finish("notes@1")
        assert await self.found(notes, VectorQuery(sample.axis(1.0), top=10)) == ["a"]
