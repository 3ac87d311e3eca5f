"""Checks what VectorStore promises of filters."""

import pytest

from services.contracts.filters import Filter
from services.storage.fields import requirements_of
from services.vectorstore.store import VectorQuery, VectorStore
from tests.support.filter_trees import TREES, close_numbers, compared, drawn_filters, drawn_metadata, passes
from tests.support.vectors import DECLARED, DENSE, FILED, FILTERS, Sample, point


class FilterSuite:
    """Runs on every store, as a part of VectorStoreSuite."""

    @pytest.fixture
    async def notes(self, store: VectorStore, sample: Sample) -> VectorStore:
        await store.create(sample.spec)
        return store

    @pytest.fixture
    async def filed(self, notes: VectorStore, sample: Sample) -> VectorStore:
        await notes.upsert("notes@1", [point(one, sample.axis(1.0), metadata) for one, metadata in FILED.items()])
        return notes

    async def found(self, store: VectorStore, query: VectorQuery) -> list[str]:
        return [hit.id for hit in await store.search("notes@1", query)]

    async def test_excluded_ids_leave_room_for_others(self, notes: VectorStore, sample: Sample) -> None:
        await notes.upsert("notes@1", [point(one, sample.axis(1.0)) for one in "abcde"])
        query = VectorQuery(sample.axis(1.0), top=3, exclude_ids=("a", "c", "never"))
        assert await self.found(notes, query) == ["b", "d", "e"]

    async def test_filters_mean_the_same_everywhere(self, filed: VectorStore, sample: Sample) -> None:
        found = {}
        for name, conditions, _ in FILTERS:
            where = requirements_of(Filter(all=tuple(conditions)), DECLARED.metadata)
            found[name] = "".join(await self.found(filed, VectorQuery(sample.axis(1.0), top=10, where=where)))
        assert found == {name: expected for name, _, expected in FILTERS}

    async def test_trees_of_filters_find_what_brute_force_finds(self, store: VectorStore) -> None:
        await store.create(DENSE.spec)
        held = drawn_metadata(seed=39, count=40)
        await store.upsert("notes@1", [point(one, DENSE.axis(1.0), metadata) for one, metadata in held.items()])
        for asked in drawn_filters(seed=39, count=TREES):
            query = VectorQuery(DENSE.axis(1.0), top=100, where=requirements_of(asked, DECLARED.metadata))
            expected = [one for one, metadata in held.items() if passes(asked, metadata)]
            assert await self.found(store, query) == expected, asked.model_dump_json()

    async def test_numbers_are_told_apart_by_fifteen_digits_also_after_merges(self, store: VectorStore) -> None:
        await store.create(DENSE.spec)
        held = {f"d{place:02}": number for place, number in enumerate(close_numbers())}
        await store.upsert("notes@1", [point(one, DENSE.axis(1.0), {"year": number}) for one, number in held.items()])
        for _ in range(2):
            for asked, passing in compared([*held.values()]):
                where = requirements_of(Filter(all=(asked,)), DECLARED.metadata)
                found = await self.found(store, VectorQuery(DENSE.axis(1.0), top=100, where=where))
                assert [held[one] for one in found] == passing, asked
            others = [f"other{number:03}" for number in range(200)]
            await store.upsert("notes@1", [point(one, DENSE.axis(1.0)) for one in others])
            await store.delete("notes@1", others)
            await store.finish("notes@1")
