"""What VectorStore promises about writes, their versions and deletions; VectorStoreSuite has the fixtures."""

from dataclasses import replace

import numpy as np
import pytest

from services.vectorstore.store import Point, VectorQuery, VectorStore
from tests.support.vectors import Sample, point, same


class VectorWritesSuite:
    """Every promise holds for every sample."""

    async def contents(self, store: VectorStore, *ids: str) -> dict[str, str]:
        return {one: held.content_hash for one, held in (await store.stored("notes@1", ids, vectors=False)).items()}

    async def test_adding_again_replaces(self, notes: VectorStore, sample: Sample) -> None:
        for vector in (sample.axis(1.0), sample.axis(0.5)):
            assert await notes.upsert("notes@1", [point("a", vector)]) == {}
        hits = await notes.search("notes@1", VectorQuery(sample.axis(1.0), top=10))
        assert [(hit.id, hit.score) for hit in hits] == [("a", pytest.approx(0.5, abs=sample.tolerance))]
        assert (await notes.counts("notes@1")).documents == 1

    async def test_deleting_counts_what_was_there(self, notes: VectorStore, sample: Sample) -> None:
        await notes.upsert("notes@1", [point("a", sample.axis(1.0)), point("b", sample.axis(1.0))])
        assert await notes.delete("notes@1", ["a", "never"]) == (1, {})
        assert await notes.delete("notes@1", ["a"]) == (0, {})
        hits = await notes.search("notes@1", VectorQuery(sample.axis(1.0), top=10))
        assert [hit.id for hit in hits] == ["b"]

    async def test_an_older_write_or_deletion_changes_nothing_and_is_returned(
        self, notes: VectorStore, sample: Sample
    ) -> None:
        def written(one: str, content: str) -> Point:
            return replace(point(one, sample.axis(1.0)), content_hash=content)

        assert await notes.upsert("notes@1", [written("a", "old"), written("b", "old")], 1_000) == {}
        assert await notes.upsert("notes@1", [written("a", "newest")], 3_000) == {}
        for version in (2_000, 3_000):
            late = [written("a", "late"), written("b", f"of {version}")]
            assert await notes.upsert("notes@1", late, version) == {"a": 3_000}
        assert await notes.delete("notes@1", ["a", "b", "never"], 3_000) == (0, {"a": 3_000, "b": 3_000})
        assert await self.contents(notes, "a", "b") == {"a": "newest", "b": "of 3000"}
        assert await notes.delete("notes@1", ["a", "b"], 1_790_000_000_000_000) == (2, {})
        assert (await notes.counts("notes@1")).documents == 0

    async def test_a_raised_version_keeps_older_writes_away_and_the_vector_in_place(
        self, notes: VectorStore, sample: Sample
    ) -> None:
        held = point("a", sample.axis(1.0))
        await notes.upsert("notes@1", [held, point("b", sample.axis(1.0))], 1_000)
        before = (await notes.stored("notes@1", ["a"], vectors=True))["a"], await notes.digest("notes@1")
        wanted = {"a": held.content_hash, "b": "another", "never": held.content_hash}
        for version in (3_000, 2_000):
            await notes.raise_versions("notes@1", wanted, version)
        late = [replace(point(one, sample.axis(0.5)), content_hash="late") for one in ("a", "b")]
        assert await notes.upsert("notes@1", late[:1], 2_500) == {"a": 3_000}
        assert await notes.delete("notes@1", ["a"], 2_500) == (0, {"a": 3_000})
        after = (await notes.stored("notes@1", ["a"], vectors=True))["a"]
        assert (after.content_hash, after.passage_hash) == (before[0].content_hash, before[0].passage_hash)
        assert before[0].vector is not None
        assert after.vector is not None
        assert same(before[0].vector, after.vector)
        assert await notes.digest("notes@1") == before[1]
        assert await notes.upsert("notes@1", late[1:], 2_500) == {}, "the other content was not raised"

    async def test_a_raised_version_leaves_the_indexed_vectors_indexed(
        self, notes: VectorStore, sample: Sample
    ) -> None:
        rng = np.random.default_rng(5)
        points = [point(f"d{number}", sample.random(rng)) for number in range(200)]
        await notes.upsert("notes@1", points, 1_000)
        await notes.finish("notes@1")
        indexed = (await notes.counts("notes@1")).indexed
        await notes.raise_versions("notes@1", {one.id: one.content_hash for one in points}, 3_000)
        assert (await notes.counts("notes@1")).indexed == indexed

    async def test_a_write_without_a_version_is_the_newest(self, notes: VectorStore, sample: Sample) -> None:
        await notes.upsert("notes@1", [point("a", sample.axis(1.0))], 1_790_000_000_000_000)
        newest = replace(point("a", sample.axis(1.0)), content_hash="newest")
        assert await notes.upsert("notes@1", [newest]) == {}
        assert await self.contents(notes, "a") == {"a": "newest"}
        assert await notes.delete("notes@1", ["a"]) == (1, {})
