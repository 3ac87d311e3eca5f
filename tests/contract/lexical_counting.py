"""Checks the promises of LexicalEngine on counts: totals and facets."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from services.chassis.errors import BadInput, UnknownCollection
from services.contracts.collections import CollectionDeclaration
from services.contracts.documents import Document
from services.contracts.matches import CountRequest
from services.lexical.engine import LexicalEngine
from tests.support.counted_matches import COUNTED, counted, drawn_counts, drawn_documents
from tests.support.lexical_notes import WITH_FIELDS, documents, filled

DRAWN = 60
# (facet, what the refusal names)
WRONG_FACETS: Sequence[tuple[Mapping[str, object], str]] = (
    ({"field": "colour"}, "colour.*declared are: seen, tag, year"),
    ({"field": "tag", "ranges": [{"from": 1}]}, "tag is a keyword, which takes top"),
    ({"field": "year"}, "year is a number, which takes ranges"),
    ({"field": "seen", "top": 3}, "seen is a date, which takes ranges"),
    ({"field": "year", "ranges": [{"from": "2019"}]}, "year is declared as a number"),
    ({"field": "seen", "ranges": [{"to": 5}]}, "seen is a date; send it in ISO 8601"),
    ({"field": "year", "ranges": [{"from": 3, "to": 3}]}, "year.*begin below its end"),
)


async def counts(engine: LexicalEngine, generation: str, **asked: object) -> dict[str, Any]:
    return (await engine.count(generation, CountRequest.model_validate(asked))).model_dump(
        mode="json", exclude_none=True, exclude={"relation"}
    )


class CountingSuite:
    """Runs on every engine, as a part of LexicalEngineSuite."""

    async def test_counts_are_those_of_brute_force_also_after_changes(self, engine: LexicalEngine) -> None:
        held = drawn_documents(seed=7, count=40)
        generation = await filled(engine, list(held.values()), COUNTED)
        for changes in (2, 1, 0):
            for asked in drawn_counts(seed=changes, count=DRAWN):
                expected = counted(asked, held.values())
                assert await engine.count(generation, asked) == expected, asked.model_dump_json()
            # Others in place of some, some removed; the last time after the index was made compact.
            others = {
                one: document for one, document in drawn_documents(seed=changes, count=60).items() if one[-1] > "5"
            }
            await engine.index(generation, list(others.values()))
            held |= others
            gone = [one for one in held if one[-1] == str(changes)]
            await engine.delete(generation, gone)
            held = {one: document for one, document in held.items() if one not in gone}
            await engine.finish(generation)

    async def test_values_are_counted_exactly_wherever_the_documents_lie(self, engine: LexicalEngine) -> None:
        # Many rare values, so that the first of each shard are other ones.
        values = {f"d{number:03}": (f"rare{number % 70:02}", "all") for number in range(250)}
        held = [Document(id=one, text="brake", metadata={"tag": tags}) for one, tags in values.items()]
        generation = await filled(engine, held, WITH_FIELDS)
        [*found] = (await counts(engine, generation, facets=[{"field": "tag", "top": 3}]))["facets"]["tag"]["values"]
        assert found == [
            {"value": "all", "count": 250},
            {"value": "rare00", "count": 4},
            {"value": "rare01", "count": 4},
        ]

    @pytest.mark.parametrize("preset", ["beir", "anserini-flat"])
    async def test_what_shares_a_word_in_any_of_its_forms_is_counted(self, engine: LexicalEngine, preset: str) -> None:
        held = [
            Document(id="a", title="Brakes", text="the"),
            Document(id="b", text="Braking the 中"),
            *documents({"c": "wheel"}),
        ]
        generation = await filled(engine, held, CollectionDeclaration(presets=("beir", "anserini-flat")))
        rare = " ".join(f"rareword{number:04}" for number in range(1_200))
        for query, expected in (
            ("brake", 2),
            ("The brake's WHEELS", 3),
            ("中文", 1),
            ("the of", 0),
            ("zebra", 0),
            ("!?…", 0),
            ("", 3),
            (f"wheel {rare}"[:16_384], 1),
        ):
            assert await counts(engine, generation, query=query, preset=preset, total=True) == {"total": expected}, (
                query
            )

    async def test_a_count_that_does_not_fit_is_refused(self, engine: LexicalEngine) -> None:
        generation = await filled(engine, documents({"a": "brake"}), WITH_FIELDS)
        for facet, said in WRONG_FACETS:
            with pytest.raises(BadInput, match=said):
                await counts(engine, generation, query="brake", facets=[facet])
        with pytest.raises(BadInput, match=r"preset: own .*beir"):
            await counts(engine, generation, query="brake", total=True, preset="own")
        with pytest.raises(UnknownCollection):
            await counts(engine, "absent@1", total=True)
