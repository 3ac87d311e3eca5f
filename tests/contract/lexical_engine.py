"""Checks the promises of LexicalEngine. A subclass provides the fixture `opener`, which opens the engine repeatedly on
the same storage, and changes a generation as if another version had made it."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from services.chassis.errors import BadInput, BuildConflict, NotFound, StampMismatch
from services.contracts.collections import CollectionDeclaration, LexicalPreset
from services.contracts.content_digest import ContentDigest
from services.contracts.documents import Document
from services.lexical.engine import LexicalEngine
from tests.contract.lexical_browsing import BrowsingSuite
from tests.contract.lexical_counting import CountingSuite
from tests.contract.lexical_expansions import ExpansionSuite
from tests.contract.lexical_languages import LanguageSuite
from tests.contract.lexical_reading import ReadingSuite
from tests.contract.lexical_searching import SearchingSuite
from tests.support.lexical_notes import (
    ALL_PRESETS,
    NOTES,
    WITH_FIELDS,
    EngineOpener,
    documents,
    filled,
    found,
    request_for,
)


class LexicalEngineSuite(SearchingSuite, BrowsingSuite, CountingSuite, ExpansionSuite, LanguageSuite, ReadingSuite):
    """Runs on every engine."""

    @pytest.fixture
    async def engine(self, opener: EngineOpener) -> AsyncIterator[LexicalEngine]:
        engine = await opener.open()
        yield engine
        await engine.close()

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
        with pytest.raises(StampMismatch):
            await engine.begin("notes@1", other)

    async def test_what_another_version_made_is_not_opened(self, engine: LexicalEngine, opener: EngineOpener) -> None:
        generation = await filled(engine, documents(NOTES))
        engine = await opener.change_stamp(engine, generation)
        with pytest.raises(StampMismatch, match="analysis"):
            await engine.search(generation, request_for("brake"))
        with pytest.raises(StampMismatch):
            await engine.index(generation, documents(NOTES))
        assert [state.generation for state in await engine.states()] == [generation]
        await engine.drop(generation)
        await engine.close()

    async def test_another_build_is_refused_and_the_same_goes_on(self, engine: LexicalEngine) -> None:
        await engine.begin("notes@1", ALL_PRESETS, "0123456789abcdef")
        for build in ("0123456789abcdef", None):
            assert (await engine.begin("notes@1", ALL_PRESETS, build)).build == "0123456789abcdef"
            assert await engine.build("notes@1") == "0123456789abcdef"
        with pytest.raises(BuildConflict, match="notes@1"):
            await engine.begin("notes@1", ALL_PRESETS, "fedcba9876543210")

    async def test_the_owner_of_a_generation_is_kept(self, engine: LexicalEngine) -> None:
        first = await engine.begin("notes@1", ALL_PRESETS, None, "0123456789ab")
        again = await engine.begin("notes@1", ALL_PRESETS, None, "ba9876543210")
        assert (first.owner, again.owner) == ("0123456789ab", "0123456789ab")
        assert [state.owner for state in await engine.states()] == ["0123456789ab"]
        assert (await engine.begin("notes@2", ALL_PRESETS)).owner is None

    async def test_a_finished_generation_soon_says_what_it_takes_on_the_disk(self, engine: LexicalEngine) -> None:
        await filled(engine, documents(NOTES))
        await engine.finish("notes@1")
        ends_at = time.monotonic() + 20  # Elasticsearch counts every ten seconds
        while ((await engine.state("notes@1")).bytes or 0) <= 1_000:
            assert time.monotonic() < ends_at
            await asyncio.sleep(0.5)
        assert ((await engine.states())[0].bytes or 0) > 1_000

    async def test_the_time_of_publishing_is_kept_when_another_takes_the_place(self, engine: LexicalEngine) -> None:
        await engine.begin("notes@1", ALL_PRESETS)
        assert (await engine.begin("notes@2", ALL_PRESETS)).published_at is None
        before = time.time()
        first = (await engine.publish("notes@1")).published_at
        assert first is not None
        assert before <= first <= time.time()
        assert (await engine.publish("notes@1")).published_at == first
        await engine.publish("notes@2")
        assert (await engine.state("notes@1")).published_at == first
        assert ((await engine.publish("notes@1")).published_at or 0) > first

    async def test_publications_are_numbered_whatever_the_clock_and_keep_their_number(
        self, engine: LexicalEngine, opener: EngineOpener
    ) -> None:
        for generation in ("notes@1", "notes@2", "letters@1"):
            assert (await engine.begin(generation, ALL_PRESETS)).publication is None
        assert (await engine.publish("notes@1")).publication == 1
        assert (await engine.publish("notes@2", 7)).publication == 7
        assert (await engine.publish("notes@2", 9)).publication == 7, "it is the published one already"
        assert (await engine.publish("letters@1")).publication == 1
        assert (await engine.publish("notes@1", 3)).publication == 8, "above the others, whatever is asked for"
        await engine.close()
        again = await opener.open()
        kept = {state.generation: state.publication for state in await again.states()}
        assert kept == {"letters@1": 1, "notes@1": 8, "notes@2": 7}
        for generation in kept:
            await again.drop(generation)
        await again.close()

    async def test_equal_documents_have_equal_digests_in_whatever_order_they_came(self, engine: LexicalEngine) -> None:
        held = documents({f"d{number}": f"brake {number}" for number in range(1_200)})
        await filled(engine, held)
        await filled(engine, held[::-1], generation="notes@2")
        expected = ContentDigest()
        expected.add((one.id, one.content_hash) for one in held)
        assert await engine.digest("notes@1") == await engine.digest("notes@2") == expected.hexdigest()
        await engine.index("notes@2", documents({"d7": "saddle"}))
        await engine.finish("notes@2")
        assert await engine.digest("notes@2") != expected.hexdigest()
        await engine.delete("notes@1", ["d7"])
        await engine.finish("notes@1")
        assert await engine.digest("notes@1") != expected.hexdigest()

    async def test_two_presets_of_one_name_are_refused(self, engine: LexicalEngine) -> None:
        own = LexicalPreset(name="beir", match="flat", k1=1, b=1)
        with pytest.raises(BadInput, match="beir"):
            await engine.begin("notes@1", CollectionDeclaration(presets=("beir", own)))

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

    async def test_a_restart_keeps_everything(self, engine: LexicalEngine, opener: EngineOpener) -> None:
        declaration = CollectionDeclaration(presets=("anserini-flat", "beir"), metadata={"year": "number"})
        held = [Document(id="a", title="brake", text="pad", metadata={"year": 2019}), Document(id="b", text="brake")]
        generation = await filled(engine, held, declaration)
        state = await engine.publish(generation)
        before = await engine.search(generation, request_for("brake pad"))
        await engine.close()
        again = await opener.open()
        kept = await again.state(generation)
        assert kept.model_copy(update={"bytes": state.bytes}) == state  # closing flushes: other files
        assert await again.search(generation, request_for("brake pad")) == before
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

    async def test_an_older_write_changes_nothing_and_is_reported(self, engine: LexicalEngine) -> None:
        await engine.begin("notes@1", ALL_PRESETS)
        assert (await engine.index("notes@1", documents({"a": "old", "b": "old"}), 1_000)).indexed == 2
        assert (await engine.index("notes@1", documents({"a": "newest"}), 3_000)).indexed == 1
        for version in (2_000, 3_000):
            late = await engine.index("notes@1", documents({"a": "late", "b": f"of {version}"}), version)
            assert (late.indexed, [(one.id, one.overtaken) for one in late.errors]) == (1, [("a", True)])
            assert late.latest_version == 3_000
        gone = await engine.delete("notes@1", ["a", "b"], 3_000)
        assert (gone.deleted, [(one.id, one.overtaken) for one in gone.errors]) == (0, [("a", True), ("b", True)])
        assert (await engine.get("notes@1", ["a", "b"])).documents == tuple(documents({"a": "newest", "b": "of 3000"}))
        assert (await engine.index("notes@1", documents({"a": "again"}), 4_000)).indexed == 1
        assert (await engine.delete("notes@1", ["a"], 5_000)).deleted == 1

    async def test_an_unchanged_document_of_a_newer_write_is_not_replaced_by_an_older_one(
        self, engine: LexicalEngine
    ) -> None:
        await engine.begin("notes@1", ALL_PRESETS)
        await engine.index("notes@1", documents({"a": "same", "b": "same"}), 1_000)
        for version in (3_000, 3_000, 2_000):
            report = await engine.index("notes@1", documents({"a": "same"}), version)
            assert (report.indexed, report.unchanged, report.errors) == (0, 1, ())
        late = await engine.index("notes@1", documents({"a": "late", "b": "late"}), 2_500)
        assert (late.indexed, [one.id for one in late.errors], late.latest_version) == (1, ["a"], 3_000)
        assert [one.id for one in (await engine.delete("notes@1", ["a"], 2_500)).errors] == ["a"]
        assert (await engine.get("notes@1", ["a", "b"])).documents == tuple(documents({"a": "same", "b": "late"}))
        assert (await engine.delete("notes@1", ["a"], 4_000)).deleted == 1

    async def test_a_write_without_a_version_is_the_newest(self, engine: LexicalEngine) -> None:
        await engine.begin("notes@1", ALL_PRESETS)
        await engine.index("notes@1", documents({"a": "old"}), 1_000)
        assert (await engine.index("notes@1", documents({"a": "new"}))).indexed == 1
        assert (await engine.delete("notes@1", ["a"])).deleted == 1

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
        assert (await engine.delete("notes@1", ["n1", "x", "n1"])).deleted == 1
        assert (await engine.get("notes@1", ["n1", "n2"])).missing == ("n1",)
        assert (await engine.finish("notes@1")).documents == 4

    async def test_a_deleted_document_is_found_no_more_and_can_come_back(self, engine: LexicalEngine) -> None:
        generation = await filled(engine, documents(NOTES))
        assert (await engine.delete(generation, ["n3", "n5"])).deleted == 2
        assert (await engine.delete(generation, ["n3"])).deleted == 0
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
