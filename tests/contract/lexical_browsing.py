"""Checks the promises of LexicalEngine on listing documents."""

import math

import pytest

from services.chassis.errors import BadInput, UnknownCollection
from services.contracts.documents import Document, MetadataValue
from services.contracts.filters import Filter
from services.contracts.retrieval import BrowseRequest
from services.lexical.engine import LexicalEngine
from tests.support.filter_trees import FILTERED, drawn_filters, drawn_metadata, kept, passes
from tests.support.lexical_notes import WITH_FIELDS, documents, filled


async def browsed(engine: LexicalEngine, generation: str, **asked: object) -> list[str]:
    return [*await engine.browse(generation, BrowseRequest.model_validate(asked))]


def in_order(held: dict[str, dict[str, MetadataValue]], field: str, order: str) -> list[str]:
    """The ids as a sort has to have them, by the days or numbers of a field."""

    def place(one: str) -> tuple[float, str]:
        value = held[one].get(field, ())
        values = value if isinstance(value, tuple) else (value,)
        # Days of one form, read as numbers, are in their order.
        numbers = [kept(float(str(one).replace("-", "") if field == "day" else str(one))) for one in values]
        return min((-number if order == "desc" else number for number in numbers), default=math.inf), one

    return sorted(held, key=place)


class BrowsingSuite:
    """Runs on every engine, as a part of LexicalEngineSuite."""

    async def test_documents_are_listed_in_order_of_id(self, engine: LexicalEngine) -> None:
        ids = ["10", "2", "Z", "a", "é", "中", "😀"]
        generation = await filled(engine, documents(dict.fromkeys(["a", "中", "10", "😀", "Z", "é", "2"], "the")))
        assert await browsed(engine, generation) == ids
        assert await browsed(engine, generation, top=3, exclude_ids=["2", "absent"]) == ["10", "Z", "a"]

    async def test_documents_are_sorted_by_numbers_and_dates_and_then_by_id(self, engine: LexicalEngine) -> None:
        drawn = drawn_metadata(seed=5, count=60)
        generation = await filled(engine, [Document(id=one, metadata=it) for one, it in drawn.items()], FILTERED)
        for field in ("year", "day"):
            for order in ("asc", "desc"):
                expected = in_order(drawn, field, order)
                for top in (1, 7, 100):
                    sort = {"field": field, "order": order}
                    assert await browsed(engine, generation, sort=sort, top=top) == expected[:top], (sort, top)

    async def test_only_what_passes_the_filter_is_listed(self, engine: LexicalEngine) -> None:
        drawn = drawn_metadata(seed=6, count=40)
        generation = await filled(engine, [Document(id=one, metadata=it) for one, it in drawn.items()], FILTERED)
        for asked in drawn_filters(seed=6, count=30):
            passing = {one: it for one, it in drawn.items() if passes(asked, it)}
            assert await browsed(engine, generation, filter=asked, top=100) == sorted(passing), asked.model_dump_json()
            sort = {"field": "year", "order": "desc"}
            ordered = in_order(passing, "year", "desc")
            assert await browsed(engine, generation, filter=asked, sort=sort) == ordered[:10]
            for ids in ([], ["absent", *sorted(drawn)[::3]]):
                expected = [one for one in ordered if one in ids]
                assert await browsed(engine, generation, filter=asked, sort=sort, ids=ids, top=100) == expected

    async def test_a_thousand_of_more_documents_are_the_first(self, engine: LexicalEngine) -> None:
        await engine.begin("notes@1", WITH_FIELDS)
        held = [Document(id=f"d{number:04}", metadata={"year": number // 2}) for number in range(2_100)]
        for start in range(0, 2_100, 256):
            await engine.index("notes@1", held[start : start + 256])
        await engine.finish("notes@1")
        assert await browsed(engine, "notes@1", top=1_000) == [one.id for one in held[:1_000]]
        latest = await browsed(engine, "notes@1", top=3, sort={"field": "year", "order": "desc"})
        assert latest == ["d2098", "d2099", "d2096"]

    async def test_a_list_that_does_not_fit_is_refused(self, engine: LexicalEngine) -> None:
        generation = await filled(engine, documents({"a": "brake"}), WITH_FIELDS)
        for field, said in (("colour", "sort: .*colour.*declared are: seen, tag, year"), ("tag", "tag is a keyword")):
            with pytest.raises(BadInput, match=said):
                await browsed(engine, generation, sort={"field": field})
        wrong = Filter.model_validate({"all": [{"field": "colour", "op": "exists"}]})
        with pytest.raises(BadInput, match="colour"):
            await browsed(engine, generation, filter=wrong)
        with pytest.raises(UnknownCollection):
            await browsed(engine, "absent@1")
