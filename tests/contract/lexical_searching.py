"""Checks the promises of LexicalEngine on ranking and filters."""

from collections.abc import Mapping, Sequence

import pytest

from services.chassis.errors import BadInput
from services.contracts.collections import Boosts, CollectionDeclaration, LexicalPreset
from services.contracts.documents import Document
from services.contracts.filters import Condition, Filter
from services.lexical.engine import LexicalEngine
from tests.support.filter_trees import FILTERED, TREES, close_numbers, compared, drawn_filters, drawn_metadata, passes
from tests.support.lexical_notes import ALL_PRESETS, NOTES, WITH_FIELDS, documents, filled, found, request_for, scores
from tests.support.textbook_bm25 import bm25

# (conditions, ids of the documents that meet them all)
FILTERS: Sequence[tuple[Sequence[tuple[str, str, object]], str]] = (
    ([("tag", "eq", "red")], "a c"),
    ([("tag", "eq", "Red")], ""),
    ([("tag", "in", ("blue", "none"))], "b c"),
    ([("tag", "eq", "two words")], "d"),
    ([("tag", "exists", None)], "a b c d"),
    ([("tag", "exists", False)], "e"),
    ([("year", "eq", 2019)], "a"),
    ([("year", "eq", 2019.0)], "a"),
    ([("year", "in", (2019, 2021.5))], "a c"),
    ([("year", "gte", 2020)], "b c"),
    ([("year", "lte", 2020)], "a b"),
    ([("year", "gte", 2020), ("year", "lte", 2020)], "b"),
    ([("year", "exists", True)], "a b c"),
    ([("year", "exists", False)], "d e"),
    ([("seen", "eq", "2024-05-31")], "a b"),
    ([("seen", "eq", "2024-05-31T12:00:00Z")], "b"),
    ([("seen", "eq", "2024-05-31T14:00:00+02:00")], "b"),
    ([("seen", "gte", "2024-05-31T00:00:00.001Z")], "b c"),
    ([("seen", "lte", "2024-05-31")], "a b d"),
    ([("seen", "in", ("1969-07-20", "2024-06-01"))], "c d"),
    ([("tag", "eq", "red"), ("year", "gte", 2020)], "c"),
)
# (condition, what the refusal names)
WRONG_FILTERS: Sequence[tuple[Mapping[str, object], str]] = (
    ({"field": "colour", "op": "eq", "value": "red"}, "colour.*seen, tag, year"),
    ({"field": "year", "op": "eq", "value": "2019"}, "year"),
    ({"field": "year", "op": "eq", "value": 10**400}, "year"),
    ({"field": "seen", "op": "gte", "value": "soon"}, "seen"),
    ({"field": "seen", "op": "eq", "value": 5}, "seen"),
    ({"field": "tag", "op": "gte", "value": "a"}, "tag.*keyword.*eq, in and exists"),
)


class SearchingSuite:
    """Runs on every engine, as a part of LexicalEngineSuite."""

    # Ranking

    async def test_equal_scores_are_ordered_by_id_also_at_the_cut(self, engine: LexicalEngine) -> None:
        ids = [f"d{number:03}" for number in range(120)]
        generation = await filled(engine, documents(dict.fromkeys(reversed(ids), "brake pad")))
        for preset in ("beir", "anserini-flat", "anserini-multifield"):
            assert await found(engine, generation, "brake", preset=preset, top=7) == ids[:7]
            assert await found(engine, generation, "brake", preset=preset, top=1000) == ids

    async def test_ids_are_ordered_as_text_by_code_point(self, engine: LexicalEngine) -> None:
        ids = ["10", "2", "Z", "a", "é", "中", "😀"]
        generation = await filled(engine, documents(dict.fromkeys(["a", "中", "10", "😀", "Z", "é", "2"], "brake")))
        assert await found(engine, generation, "brake") == ids

    async def test_a_thousand_hits_can_be_asked_for(self, engine: LexicalEngine) -> None:
        await engine.begin("notes@1", ALL_PRESETS)
        ids = [f"d{number:04}" for number in range(1_100)]
        for start in range(0, 1_100, 256):
            await engine.index("notes@1", documents(dict.fromkeys(ids[start : start + 256], "brake")))
        await engine.finish("notes@1")
        assert await found(engine, "notes@1", "brake", top=1_000) == ids[:1_000]

    @pytest.mark.parametrize(("k1", "b"), [(1.2, 0.75), (0.9, 0.4), (0.0, 0.0), (2.0, 1.0)])
    async def test_scores_are_those_of_the_textbook(self, engine: LexicalEngine, k1: float, b: float) -> None:
        own = LexicalPreset(name="own", match="flat", k1=k1, b=b)
        generation = await filled(engine, documents(NOTES), CollectionDeclaration(presets=("beir", own)))
        for query in ("brake", "cable wheel", "pad brake lever spoke"):
            expected = bm25(NOTES, query, k1, b)
            assert await scores(engine, generation, query, preset="own") == pytest.approx(expected, rel=1e-5)

    async def test_a_word_that_stands_twice_in_the_query_counts_twice(self, engine: LexicalEngine) -> None:
        generation = await filled(engine, documents(NOTES))
        expected = bm25(NOTES, "brake wheel wheel cable cable cable", 0.9, 0.4)
        asked = "Brake wheels, wheel: cable & cables; the cable's"
        actual = await scores(engine, generation, asked, preset="anserini-flat")
        assert actual == pytest.approx(expected, rel=1e-5)

    async def test_presets_differ_in_how_fields_are_put_together(self, engine: LexicalEngine) -> None:
        held = [
            Document(id="a", title="brake pad", text="squeals loud"),
            Document(id="b", title="wheel", text="brake pad wobbles"),
            Document(id="c", title="brake", text="brake"),
        ]
        half = LexicalPreset(name="half", match="best_fields", k1=1.2, b=0.75, tie_breaker=0.5)
        best = LexicalPreset(name="best", match="best_fields", k1=1.2, b=0.75)
        total = LexicalPreset(name="sum", match="most_fields", k1=1.2, b=0.75)
        titled = LexicalPreset(
            name="titled", match="best_fields", k1=1.2, b=0.75, tie_breaker=0.5, boosts=Boosts(title=3)
        )
        both = LexicalPreset(name="both", match="most_fields", k1=1.2, b=0.75, boosts=Boosts(title=0.25, text=1.5))
        generation = await filled(engine, held, CollectionDeclaration(presets=(half, best, total, titled, both)))
        rankings = set()
        for name, tie, of_title, of_text in (
            ("half", 0.5, 1.0, 1.0),
            ("best", 0.0, 1.0, 1.0),
            ("sum", 1.0, 1.0, 1.0),
            ("titled", 0.5, 3.0, 1.0),
            ("both", 1.0, 0.25, 1.5),
        ):
            # "brake" twice: the factor counts once for each time.
            title = bm25({one.id: one.title for one in held}, "brake pad brake", 1.2, 0.75)
            text = bm25({one.id: one.text for one in held}, "brake pad brake", 1.2, 0.75)
            pairs = {one: (of_title * title.get(one, 0), of_text * text.get(one, 0)) for one in "abc"}
            expected = {one: max(pair) + tie * min(pair) for one, pair in pairs.items()}
            actual = await scores(engine, generation, "brake pad brake", preset=name)
            assert actual == pytest.approx(expected, rel=1e-5)
            assert list(actual) == sorted(expected, key=lambda one: (-expected[one], one))
            rankings.add(tuple(actual))
        assert len(rankings) > 1

    async def test_a_flat_preset_reads_title_and_text_as_one(self, engine: LexicalEngine) -> None:
        held = {"a": "brake pad squeals", "b": "wheel wobbles"}
        split = [Document(id="a", title="brake pad", text="squeals"), Document(id="b", title="wheel", text="wobbles")]
        generation = await filled(engine, split)
        expected = bm25(held, "brake squeals", 0.9, 0.4)
        assert await scores(engine, generation, "brake squeals", preset="anserini-flat") == pytest.approx(expected)

    async def test_an_undeclared_preset_is_refused_naming_the_declared_ones(self, engine: LexicalEngine) -> None:
        generation = await filled(engine, documents(NOTES), CollectionDeclaration(presets=("beir", "anserini-flat")))
        with pytest.raises(BadInput, match=r"anserini-multifield.*beir, anserini-flat"):
            await engine.search(generation, request_for("brake", preset="anserini-multifield"))

    async def test_a_query_that_shares_no_word_has_no_hits(self, engine: LexicalEngine) -> None:
        generation = await filled(engine, documents(NOTES))
        for query in ("the of and", "zebra", "!?…", "\U0001f600"):
            for preset in ("beir", "anserini-flat"):
                assert await found(engine, generation, query, preset=preset) == [], query

    async def test_words_are_found_in_their_other_forms(self, engine: LexicalEngine) -> None:
        texts = {
            "children": "The child’s WHEEL was children's",
            "RUNNING": "it runs",
            "u.s.a": "from the U.S.A. today",
            "1,000": "some 1,000 spokes",
            "中文": "中 and 文",
            "Café": "a CAFÉ",
            "who": "who came",
            "state": "state-of-the-art",
        }
        generation = await filled(engine, documents({**texts, "other": "nothing here"}))
        assert {query: await found(engine, generation, query) for query in texts} == {one: [one] for one in texts}

    @pytest.mark.parametrize("preset", ["anserini-flat", "beir"])
    async def test_the_longest_query_is_answered_like_any_other(self, engine: LexicalEngine, preset: str) -> None:
        generation = await filled(engine, documents(NOTES))
        # As many different words as English text of this length has.
        rare = " ".join(f"rareword{number:04}" for number in range(1_200))
        query = f"brake {rare}"[:16_384]
        assert await scores(engine, generation, query, preset=preset) == pytest.approx(
            await scores(engine, generation, "brake", preset=preset), rel=1e-5
        )
        repeated = "brake " * 2_730
        assert await found(engine, generation, repeated.strip(), preset=preset) == await found(
            engine, generation, "brake", preset=preset
        )

    # Filters

    async def test_filters_keep_what_meets_all_conditions(self, engine: LexicalEngine) -> None:
        held = [
            Document(id="a", text="brake", metadata={"tag": "red", "year": 2019, "seen": "2024-05-31"}),
            Document(id="b", text="brake", metadata={"tag": "blue", "year": 2020, "seen": "2024-05-31T12:00:00Z"}),
            Document(id="c", text="brake", metadata={"tag": ("red", "blue"), "year": 2021.5, "seen": "2024-06-01"}),
            Document(id="d", text="brake", metadata={"tag": "two words", "seen": "1969-07-20", "other": 1}),
            Document(id="e", text="brake", metadata={"tag": ()}),
        ]
        generation = await filled(engine, held, WITH_FIELDS)
        for conditions, expected in FILTERS:
            every = [{"field": field, "op": op, "value": value} for field, op, value in conditions]
            where = Filter.model_validate({"all": every})
            assert await found(engine, generation, "brake", filter=where) == expected.split(), conditions

    async def test_trees_of_filters_find_what_brute_force_finds(self, engine: LexicalEngine) -> None:
        drawn = drawn_metadata(seed=39, count=40)
        held = [Document(id=one, text="brake", metadata=metadata) for one, metadata in drawn.items()]
        generation = await filled(engine, held, FILTERED)
        for asked in drawn_filters(seed=39, count=TREES):
            expected = [one for one, metadata in drawn.items() if passes(asked, metadata)]
            assert await found(engine, generation, "brake", filter=asked, top=100) == expected, asked.model_dump_json()

    async def test_numbers_are_told_apart_by_fifteen_digits_also_after_merges(self, engine: LexicalEngine) -> None:
        held = {f"d{place:02}": number for place, number in enumerate(close_numbers())}
        documents = [Document(id=one, text="brake", metadata={"year": number}) for one, number in held.items()]
        generation = await filled(engine, documents, WITH_FIELDS)
        for _ in range(2):
            for asked, passing in compared([*held.values()]):
                ids = await found(engine, generation, "brake", filter=Filter(all=(asked,)), top=100)
                assert [held[one] for one in ids] == passing, asked
            others = [f"other{number:03}" for number in range(200)]
            await engine.index(generation, [Document(id=one, text="brake") for one in others])
            await engine.delete(generation, others)
            await engine.finish(generation)

    async def test_a_filter_does_not_change_scores_and_applies_before_the_cut(self, engine: LexicalEngine) -> None:
        held = [
            Document(id=f"d{number:02}", text="brake" if number else "brake pad", metadata={"year": number % 2})
            for number in range(40)
        ]
        declaration = CollectionDeclaration(presets=("anserini-flat", "beir"), metadata={"year": "number"})
        generation = await filled(engine, held, declaration)
        where = Filter(all=(Condition(field="year", op="eq", value=1),))
        for preset in ("anserini-flat", "beir"):
            everything = await scores(engine, generation, "brake pad", preset=preset, top=100)
            kept = await scores(engine, generation, "brake pad", preset=preset, filter=where, top=12)
            assert list(kept) == [f"d{number:02}" for number in range(1, 24, 2)]
            assert kept == pytest.approx({one: everything[one] for one in kept})

    async def test_excluded_ids_leave_room_for_others(self, engine: LexicalEngine) -> None:
        ids = [f"d{number}" for number in range(8)]
        generation = await filled(engine, documents(dict.fromkeys(ids, "brake")))
        for preset in ("anserini-flat", "beir"):
            hits = await found(
                engine, generation, "brake", preset=preset, top=3, exclude_ids=["d0", "d2", "not there", "d3"]
            )
            assert hits == ["d1", "d4", "d5"]

    async def test_a_filter_that_does_not_fit_is_refused(self, engine: LexicalEngine) -> None:
        generation = await filled(engine, documents(NOTES), WITH_FIELDS)
        for condition, said in WRONG_FILTERS:
            for tree in ({"all": [condition]}, {"not": {"any": [condition]}}):
                with pytest.raises(BadInput, match=said):
                    await engine.search(generation, request_for("brake", filter=tree))
