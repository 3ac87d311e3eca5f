"""The promises of LexicalEngine as tests. A subclass gives the fixture `opener`: what opens the engine, again and again
on the same storage, and makes a generation look as if another version had made it."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from services.chassis.errors import BadInput, NotFound, StampMismatch, UnknownCollection
from services.contracts.collections import CollectionDeclaration, LexicalPreset
from services.contracts.documents import Document
from services.contracts.filters import Condition, Filter
from services.contracts.retrieval import RetrievalRequest
from services.lexical.engine import LexicalEngine
from tests.contract.textbook_bm25 import bm25

ALL_PRESETS = CollectionDeclaration(presets=("beir", "anserini-flat", "anserini-multifield"))
WITH_FIELDS = CollectionDeclaration(metadata={"tag": "keyword", "year": "number", "seen": "date"})
NOTES = {
    "n1": "brake pad squeals",
    "n2": "brake lever loose brake cable frayed brake",
    "n3": "wheel wobbles",
    "n4": "pad worn cable fine wheel true spoke tight rim clean tyre new tube old valve bent",
    "n5": "cable",
}


class Opener(ABC):
    """Opens engines on one storage."""

    @abstractmethod
    async def open(self) -> LexicalEngine:
        """The engine, on what was stored before."""

    @abstractmethod
    async def disown(self, engine: LexicalEngine, generation: str) -> LexicalEngine:
        """Changes what the storage says of the analysis that made a generation; the engine, opened again."""


def documents(texts: dict[str, str], title: str = "") -> list[Document]:
    return [Document(id=one, title=title, text=text) for one, text in texts.items()]


def asking(query: str, **parts: object) -> RetrievalRequest:
    return RetrievalRequest.model_validate({"query": query, **parts})


async def filled(
    engine: LexicalEngine,
    held: list[Document],
    declaration: CollectionDeclaration = ALL_PRESETS,
    generation: str = "notes@1",
) -> str:
    await engine.begin(generation, declaration)
    report = await engine.index(generation, held)
    assert report.errors == ()
    await engine.finish(generation)
    return generation


async def found(engine: LexicalEngine, generation: str, query: str, **parts: object) -> list[str]:
    return [hit.id for hit in await engine.search(generation, asking(query, **parts))]


async def scores(engine: LexicalEngine, generation: str, query: str, **parts: object) -> dict[str, float]:
    return {hit.id: hit.score for hit in await engine.search(generation, asking(query, **parts))}


class LexicalEngineSuite:
    """Runs on every engine."""

    @pytest.fixture
    async def engine(self, opener: Opener) -> AsyncIterator[LexicalEngine]:
        engine = await opener.open()
        yield engine
        await engine.close()

    async def test_an_engine_that_is_open_is_ready(self, engine: LexicalEngine) -> None:
        assert (await engine.check()).ok

    # Generations

    async def test_a_begun_generation_is_empty_and_unpublished_and_says_what_made_it(
        self, engine: LexicalEngine
    ) -> None:
        state = await engine.begin("notes@1", ALL_PRESETS)
        assert (state.generation, state.documents, state.published) == ("notes@1", 0, False)
        assert state.declaration == ALL_PRESETS
        assert state.stamp["preset.beir"] == "best_fields k1=1.2 b=0.75 tie_breaker=0.5"
        assert await engine.state("notes@1") == state

    async def test_beginning_again_keeps_what_is_there(self, engine: LexicalEngine) -> None:
        generation = await filled(engine, documents(NOTES))
        assert (await engine.begin(generation, ALL_PRESETS)).documents == len(NOTES)

    @pytest.mark.parametrize(
        "other",
        [
            CollectionDeclaration(presets=("beir",)),
            CollectionDeclaration(presets=("anserini-flat", "beir", "anserini-multifield")),
            CollectionDeclaration(presets=ALL_PRESETS.presets, metadata={"year": "number"}),
        ],
    )
    async def test_another_declaration_is_refused_by_a_name_for_both(
        self, engine: LexicalEngine, other: CollectionDeclaration
    ) -> None:
        await engine.begin("notes@1", ALL_PRESETS)
        with pytest.raises(StampMismatch, match=r"was made with .* asked for is"):
            await engine.begin("notes@1", other)

    async def test_what_another_version_made_is_not_opened(self, engine: LexicalEngine, opener: Opener) -> None:
        generation = await filled(engine, documents(NOTES))
        engine = await opener.disown(engine, generation)
        with pytest.raises(StampMismatch, match=r"was made with analysis: .* asked for is analysis: "):
            await engine.search(generation, asking("brake"))
        with pytest.raises(StampMismatch):
            await engine.index(generation, documents(NOTES))
        assert [state.generation for state in await engine.states()] == [generation]
        await engine.drop(generation)
        await engine.close()

    async def test_two_presets_of_one_name_are_refused(self, engine: LexicalEngine) -> None:
        own = LexicalPreset(name="beir", match="flat", k1=1, b=1)
        with pytest.raises(BadInput, match="another name"):
            await engine.begin("notes@1", CollectionDeclaration(presets=("beir", own)))

    async def test_an_unknown_generation_is_said_to_be_unknown(self, engine: LexicalEngine) -> None:
        for call in (
            engine.state("notes@9"),
            engine.drop("notes@9"),
            engine.index("notes@9", documents(NOTES)),
            engine.delete("notes@9", ["n1"]),
            engine.get("notes@9", ["n1"]),
            engine.finish("notes@9"),
            engine.publish("notes@9"),
            engine.search("notes@9", asking("brake")),
        ):
            with pytest.raises(UnknownCollection, match="notes@9"):
                await call

    async def test_generations_are_listed_by_name_and_number(self, engine: LexicalEngine) -> None:
        for generation in ("notes@10", "notes@2", "letters@1"):
            await engine.begin(generation, ALL_PRESETS)
        assert [state.generation for state in await engine.states()] == ["letters@1", "notes@2", "notes@10"]

    async def test_one_generation_of_a_name_is_published(self, engine: LexicalEngine) -> None:
        for generation in ("notes@1", "notes@2", "letters@1"):
            await engine.begin(generation, ALL_PRESETS)
        assert (await engine.publish("letters@1")).published
        assert (await engine.publish("notes@1")).published
        assert (await engine.publish("notes@2")).published
        assert (await engine.publish("notes@2")).published
        published = [state.generation for state in await engine.states() if state.published]
        assert published == ["letters@1", "notes@2"]

    async def test_a_dropped_generation_is_gone_and_its_number_begins_anew(self, engine: LexicalEngine) -> None:
        generation = await filled(engine, documents(NOTES))
        await engine.publish(generation)
        await engine.drop(generation)
        with pytest.raises(NotFound):
            await engine.state(generation)
        other = CollectionDeclaration(presets=("anserini-flat",))
        state = await engine.begin(generation, other)
        assert (state.documents, state.published, state.declaration) == (0, False, other)

    async def test_generations_do_not_see_each_others_documents(self, engine: LexicalEngine) -> None:
        await filled(engine, documents({"a": "brake"}))
        await filled(engine, documents({"b": "brake"}), generation="notes@2")
        assert await found(engine, "notes@1", "brake") == ["a"]
        assert await found(engine, "notes@2", "brake") == ["b"]

    async def test_a_restart_keeps_everything(self, engine: LexicalEngine, opener: Opener) -> None:
        declaration = CollectionDeclaration(presets=("anserini-flat", "beir"), metadata={"year": "number"})
        held = [Document(id="a", title="brake", text="pad", metadata={"year": 2019}), Document(id="b", text="brake")]
        generation = await filled(engine, held, declaration)
        state = await engine.publish(generation)
        before = await engine.search(generation, asking("brake pad"))
        await engine.close()
        again = await opener.open()
        assert await again.state(generation) == state
        assert await again.search(generation, asking("brake pad")) == before
        assert (await again.get(generation, ["b", "a"])).documents == (held[1], held[0])
        assert (await again.index(generation, held)).unchanged == 2
        with suppress(NotFound):
            await again.drop(generation)
        await again.close()

    # Documents in and out

    async def test_indexing_twice_keeps_one_and_indexes_nothing(self, engine: LexicalEngine) -> None:
        await engine.begin("notes@1", ALL_PRESETS)
        first = await engine.index("notes@1", documents(NOTES))
        second = await engine.index("notes@1", documents(NOTES))
        assert (first.indexed, first.unchanged) == (5, 0)
        assert (second.indexed, second.unchanged) == (0, 5)
        assert (await engine.finish("notes@1")).documents == 5

    async def test_a_changed_document_takes_the_place_of_the_old_one(self, engine: LexicalEngine) -> None:
        generation = await filled(engine, documents(NOTES))
        report = await engine.index(generation, documents({"n1": "saddle creaks", "n2": NOTES["n2"]}))
        assert (report.indexed, report.unchanged) == (1, 1)
        assert (await engine.finish(generation)).documents == 5
        assert await found(engine, generation, "saddle") == ["n1"]
        assert await found(engine, generation, "squeals") == []
        assert (await engine.get(generation, ["n1"])).documents[0].text == "saddle creaks"

    async def test_documents_come_back_as_they_were_given(self, engine: LexicalEngine) -> None:
        held = Document(
            id="Ünïcode ☃ / id?#%",
            title="Titel",
            text="Zeile eins\nZeile zwei\twith a tab “quoted”",
            metadata={"tag": ("a", "b"), "year": 2019, "ratio": 0.1, "big": 2**70, "open": True, "note": ""},
        )
        await engine.begin("notes@1", CollectionDeclaration(metadata={"tag": "keyword", "year": "number"}))
        await engine.index("notes@1", [held])
        answer = await engine.get("notes@1", [held.id])
        assert answer.documents == (held,)
        assert answer.documents[0].content_hash == held.content_hash

    async def test_get_keeps_the_order_asked_for_and_names_what_is_missing(self, engine: LexicalEngine) -> None:
        generation = await filled(engine, documents(NOTES))
        answer = await engine.get(generation, ["n3", "x", "n1", "n3", "y"])
        assert [document.id for document in answer.documents] == ["n3", "n1"]
        assert answer.missing == ("x", "y")

    async def test_get_and_delete_see_what_was_just_acknowledged(self, engine: LexicalEngine) -> None:
        await engine.begin("notes@1", ALL_PRESETS)
        await engine.index("notes@1", documents(NOTES))
        assert await engine.delete("notes@1", ["n1", "x", "n1"]) == 1
        assert (await engine.get("notes@1", ["n1", "n2"])).missing == ("n1",)
        assert (await engine.finish("notes@1")).documents == 4

    async def test_a_deleted_document_is_found_no_more_and_can_come_back(self, engine: LexicalEngine) -> None:
        generation = await filled(engine, documents(NOTES))
        assert await engine.delete(generation, ["n3", "n5"]) == 2
        assert await engine.delete(generation, ["n3"]) == 0
        await engine.finish(generation)
        assert await found(engine, generation, "wheel") == ["n4"]
        assert (await engine.index(generation, documents({"n3": NOTES["n3"]}))).indexed == 1
        await engine.finish(generation)
        assert await found(engine, generation, "wheel wobbles") == ["n3", "n4"]

    async def test_what_a_published_generation_acknowledges_is_searchable_at_once(self, engine: LexicalEngine) -> None:
        generation = await filled(engine, documents(NOTES))
        await engine.publish(generation)
        await engine.index(generation, documents({"n6": "wheel wobbles badly"}))
        await engine.delete(generation, ["n3"])
        assert await found(engine, generation, "wobbles") == ["n6"]
        assert (await engine.state(generation)).documents == 5

    async def test_an_empty_text_is_kept_and_never_a_hit(self, engine: LexicalEngine) -> None:
        generation = await filled(engine, [Document(id="empty"), *documents(NOTES)])
        assert (await engine.state(generation)).documents == 6
        assert (await engine.get(generation, ["empty"])).documents == (Document(id="empty"),)
        for preset in ("beir", "anserini-flat", "anserini-multifield"):
            assert "empty" not in await found(engine, generation, "brake cable wheel", preset=preset)

    async def test_ids_of_512_bytes_are_told_apart(self, engine: LexicalEngine) -> None:
        one, two = "é" * 256, "é" * 255 + "ö"
        generation = await filled(engine, documents({one: "brake pad", two: "brake"}))
        assert await found(engine, generation, "pad") == [one]
        assert len((await engine.get(generation, [one, two])).documents) == 2

    async def test_a_document_that_does_not_fit_is_reported_and_the_others_are_taken(
        self, engine: LexicalEngine
    ) -> None:
        await engine.begin("notes@1", WITH_FIELDS)
        batch = [
            Document(id="good", text="brake", metadata={"year": 2019, "tag": "a", "seen": "2024-05-31"}),
            Document(id="bad", text="brake", metadata={"year": "long ago"}),
            Document(id="worse", text="brake", metadata={"seen": "yesterday"}),
        ]
        report = await engine.index("notes@1", batch)
        assert (report.indexed, report.unchanged) == (1, 0)
        assert {error.id: error.reason.split()[0] for error in report.errors} == {"bad": "year", "worse": "seen"}
        await engine.finish("notes@1")
        assert await found(engine, "notes@1", "brake") == ["good"]

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
        generation = await filled(engine, held, CollectionDeclaration(presets=(half, best, total)))
        title = bm25({one.id: one.title for one in held}, "brake pad", 1.2, 0.75)
        text = bm25({one.id: one.text for one in held}, "brake pad", 1.2, 0.75)
        for name, tie in (("half", 0.5), ("best", 0.0), ("sum", 1.0)):
            expected = {
                one: max(title.get(one, 0), text.get(one, 0)) + tie * min(title.get(one, 0), text.get(one, 0))
                for one in "abc"
            }
            actual = await scores(engine, generation, "brake pad", preset=name)
            assert actual == pytest.approx(expected, rel=1e-5)
            assert list(actual) == sorted(expected, key=lambda one: (-expected[one], one))

    async def test_the_first_preset_is_the_default(self, engine: LexicalEngine) -> None:
        declaration = CollectionDeclaration(presets=("anserini-flat", "beir"))
        generation = await filled(engine, documents(NOTES), declaration)
        default = await scores(engine, generation, "brake cable")
        assert default == await scores(engine, generation, "brake cable", preset="anserini-flat")
        assert default != await scores(engine, generation, "brake cable", preset="beir")

    async def test_a_flat_preset_reads_title_and_text_as_one(self, engine: LexicalEngine) -> None:
        held = {"a": "brake pad squeals", "b": "wheel wobbles"}
        split = [Document(id="a", title="brake pad", text="squeals"), Document(id="b", title="wheel", text="wobbles")]
        generation = await filled(engine, split)
        expected = bm25(held, "brake squeals", 0.9, 0.4)
        assert await scores(engine, generation, "brake squeals", preset="anserini-flat") == pytest.approx(expected)

    async def test_an_undeclared_preset_is_refused_naming_the_declared_ones(self, engine: LexicalEngine) -> None:
        generation = await filled(engine, documents(NOTES), CollectionDeclaration(presets=("beir", "anserini-flat")))
        with pytest.raises(BadInput, match=r"anserini-multifield is not declared.*beir, anserini-flat"):
            await engine.search(generation, asking("brake", preset="anserini-multifield"))

    @pytest.mark.parametrize("query", ["the of and", "zebra", "!?…", "\U0001f600"])
    async def test_a_query_that_shares_no_word_has_no_hits(self, engine: LexicalEngine, query: str) -> None:
        generation = await filled(engine, documents(NOTES))
        for preset in ("beir", "anserini-flat"):
            assert await found(engine, generation, query, preset=preset) == []

    async def test_an_empty_generation_has_no_hits(self, engine: LexicalEngine) -> None:
        await engine.begin("notes@1", ALL_PRESETS)
        await engine.finish("notes@1")
        for preset in ("beir", "anserini-flat"):
            assert await found(engine, "notes@1", "brake", preset=preset) == []

    @pytest.mark.parametrize(
        ("query", "text"),
        [
            ("children", "The child’s WHEEL was children's"),
            ("RUNNING", "it runs"),
            ("u.s.a", "from the U.S.A. today"),
            ("1,000", "some 1,000 spokes"),
            ("中文", "中 and 文"),
            ("Café", "a CAFÉ"),
            ("who", "who came"),
            ("state", "state-of-the-art"),
        ],
    )
    async def test_words_are_found_in_their_other_forms(self, engine: LexicalEngine, query: str, text: str) -> None:
        generation = await filled(engine, documents({"a": text, "b": "nothing here"}))
        assert await found(engine, generation, query) == ["a"]

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

    @pytest.mark.parametrize(
        ("conditions", "expected"),
        [
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
        ],
    )
    async def test_filters_keep_what_meets_all_conditions(
        self, engine: LexicalEngine, conditions: list[tuple[str, str, object]], expected: str
    ) -> None:
        held = [
            Document(id="a", text="brake", metadata={"tag": "red", "year": 2019, "seen": "2024-05-31"}),
            Document(id="b", text="brake", metadata={"tag": "blue", "year": 2020, "seen": "2024-05-31T12:00:00Z"}),
            Document(id="c", text="brake", metadata={"tag": ("red", "blue"), "year": 2021.5, "seen": "2024-06-01"}),
            Document(id="d", text="brake", metadata={"tag": "two words", "seen": "1969-07-20", "other": 1}),
            Document(id="e", text="brake", metadata={"tag": ()}),
        ]
        generation = await filled(engine, held, WITH_FIELDS)
        where = Filter(
            all=tuple(Condition.model_validate({"field": f, "op": op, "value": value}) for f, op, value in conditions)
        )
        assert await found(engine, generation, "brake", filter=where) == expected.split()

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

    @pytest.mark.parametrize(
        ("condition", "said"),
        [
            ({"field": "colour", "op": "eq", "value": "red"}, "colour is not declared.*seen, tag, year"),
            ({"field": "year", "op": "eq", "value": "2019"}, "year is declared as a number"),
            ({"field": "year", "op": "eq", "value": 10**400}, "year"),
            ({"field": "seen", "op": "gte", "value": "soon"}, "seen is a date"),
            ({"field": "seen", "op": "eq", "value": 5}, "seen is a date"),
            ({"field": "tag", "op": "gte", "value": "a"}, "tag is a keyword"),
        ],
    )
    async def test_a_filter_that_does_not_fit_is_refused(
        self, engine: LexicalEngine, condition: dict[str, object], said: str
    ) -> None:
        generation = await filled(engine, documents(NOTES), WITH_FIELDS)
        with pytest.raises(BadInput, match=said):
            await engine.search(generation, asking("brake", filter={"all": [condition]}))
