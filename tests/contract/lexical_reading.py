"""Checks the promises of LexicalEngine on reading documents: selected parts, and the bound of an answer."""

import pytest

from services.chassis.errors import AnswerTooLarge, BadInput
from services.contracts.documents import MOST_ANSWER_BYTES, Document, IdPage, IdPageRequest, Included
from services.contracts.filters import Condition, Filter
from services.lexical.document_collector import ReadOptions, wire_bytes
from services.lexical.engine import LexicalEngine
from tests.support.lexical_notes import ALL_PRESETS, TIED_QUERIES, WITH_FIELDS, filled, request_for, tied_documents

# Points are no words, so long texts of them are indexed quickly.
LONG = "." * 6_000_000
HELD = [
    Document(id="a", title="Apple", text=LONG, metadata={"year": 2019}),
    Document(id="b", title="Bread", text=LONG),
    Document(id="c", title="Curd", text=LONG),
    Document(id="small", title="Salt", text="white and fine"),
]


class ReadingSuite:
    """Runs on every engine."""

    async def test_only_the_parts_that_are_asked_for_are_read(self, engine: LexicalEngine) -> None:
        await engine.begin("notes@1", ALL_PRESETS)
        await engine.index("notes@1", HELD[:1])
        titles = await engine.get("notes@1", ["a", "x"], ReadOptions(include=("title", "metadata")))
        assert titles.documents == (Document(id="a", title="Apple", metadata={"year": 2019}),)
        assert titles.missing == ("x",)

    async def test_more_than_an_answer_holds_is_refused_with_the_numbers_and_what_to_do(
        self, engine: LexicalEngine
    ) -> None:
        await engine.begin("notes@1", ALL_PRESETS)
        for document in HELD:
            await engine.index("notes@1", [document])
        for published in (False, True):
            if published:
                await engine.publish("notes@1")
            with pytest.raises(AnswerTooLarge, match=rf"3 of the 4 documents .*{MOST_ANSWER_BYTES}"):
                await engine.get("notes@1", ["a", "b", "c", "small"])
            assert (await engine.get("notes@1", ["c", "a", "small"])).documents == (HELD[2], HELD[0], HELD[3])

    async def test_what_comes_with_hits_is_what_would_be_read_after_them(self, engine: LexicalEngine) -> None:
        held = [
            one.model_copy(update={"metadata": {"number": number, "tags": ("a", "b")} if number % 2 else {}})
            for number, one in enumerate(tied_documents())
        ]
        generation = await filled(engine, held)
        await engine.publish(generation)
        includes: list[tuple[Included, ...]] = [("title",), ("text", "title"), ("metadata",), ("title", "metadata")]
        for query, include in zip(TIED_QUERIES, [*includes, *includes], strict=False):
            for preset, top in (("beir", 7), ("anserini-flat", 200)):
                asked = request_for(query, preset=preset, top=top, include=include)
                hits, sent = await engine.search_with_documents(generation, asked)
                assert hits == await engine.search(generation, asked)
                assert len(hits) > 5
                read = await engine.get(generation, [hit.id for hit in hits], ReadOptions(include))
                assert sent == read.documents
        nothing = request_for("unheard", include=["text"])
        assert await engine.search_with_documents(generation, nothing) == ((), ())

    async def test_documents_that_are_too_large_together_do_not_come_with_hits(self, engine: LexicalEngine) -> None:
        words = {f"f{number}": ("a",) * 10_000 for number in range(9)}
        many = [Document(id=f"m{number}", title="Many", metadata=words) for number in range(3)]
        await engine.begin("notes@1", ALL_PRESETS)
        for document in [*HELD, *many]:
            await engine.index("notes@1", [document])
        await engine.finish("notes@1")
        await engine.publish("notes@1")
        for query, include, top in (("apple bread", "text", 2), ("many", "metadata", 3)):
            asked = request_for(query, include=[include], top=top)
            assert await engine.search_with_documents("notes@1", asked) == (await engine.search("notes@1", asked), ())
        _, sent = await engine.search_with_documents("notes@1", request_for("salt", include=["text"], top=1))
        assert sent == (Document(id="small", text="white and fine"),)

    async def test_the_pages_of_ids_have_every_document_once(self, engine: LexicalEngine) -> None:
        await engine.begin("notes@1", ALL_PRESETS)
        names = [f"n{number}" for number in range(25)]
        await engine.index("notes@1", [Document(id=name, text="salt") for name in names])
        await engine.finish("notes@1")
        found: list[str] = []
        page = await engine.ids("notes@1", IdPageRequest(most=10))
        found += page.ids
        while page.following is not None:
            before = page.following
            await engine.ids("notes@1", IdPageRequest(after=before, most=10))
            page = await engine.ids("notes@1", IdPageRequest(after=before, most=3))
            found += page.ids
        assert sorted(found) == sorted(names)
        with pytest.raises(BadInput, match="`following`"):
            await engine.ids("notes@1", IdPageRequest(after="n7"))
        await engine.begin("notes@2", ALL_PRESETS)
        assert await engine.ids("notes@2", IdPageRequest()) == IdPage(ids=(), following=None)

    async def test_the_pages_of_ids_of_a_filter_have_the_documents_that_pass_it(self, engine: LexicalEngine) -> None:
        await engine.begin("notes@1", WITH_FIELDS)
        years = {f"n{number}": 2000 + number for number in range(20)}
        held = [Document(id=name, text="salt", metadata={"year": year}) for name, year in years.items()]
        await engine.index("notes@1", [*held, Document(id="bare", text="salt")])
        await engine.finish("notes@1")
        late = Filter(all=(Condition(field="year", op="gte", value=2008),))
        page = await engine.ids("notes@1", IdPageRequest(most=7, filter=late))
        found = [*page.ids]
        while page.following is not None:
            page = await engine.ids("notes@1", IdPageRequest(after=page.following, most=7, filter=late))
            found += page.ids
        assert sorted(found) == sorted(name for name, year in years.items() if year >= 2008)
        none = Filter(all=(Condition(field="year", op="exists", value=False),))
        assert (await engine.ids("notes@1", IdPageRequest(filter=none))).ids == ("bare",)
        with pytest.raises(BadInput, match="nowhere is not declared"):
            await engine.ids("notes@1", IdPageRequest(filter=Filter(all=(Condition(field="nowhere", op="exists"),))))

    async def test_the_ids_of_a_build_are_listed_before_it_is_finished(self, engine: LexicalEngine) -> None:
        await engine.begin("notes@1", WITH_FIELDS)
        for year in (1999, 2009):
            await engine.index("notes@1", [Document(id=f"n{year}", text="salt", metadata={"year": year})])
            late = Filter(all=(Condition(field="year", op="gte", value=year),))
            assert (await engine.ids("notes@1", IdPageRequest(filter=late))).ids == (f"n{year}",)

    async def test_a_lone_document_is_given_whatever_it_has(self, engine: LexicalEngine) -> None:
        await engine.begin("notes@1", ALL_PRESETS)
        huge = Document(id="huge", text="." * (MOST_ANSWER_BYTES + 1))
        await engine.index("notes@1", [huge])
        assert (await engine.get("notes@1", ["huge"])).documents == (huge,)

    async def test_texts_are_cut_to_equal_shares_only_where_all_together_are_too_long(
        self, engine: LexicalEngine
    ) -> None:
        await engine.begin("notes@1", ALL_PRESETS)
        for document in HELD:
            await engine.index("notes@1", [document])
        reading = ReadOptions(include=("title", "text"), cut_to_bytes=7_000_000)
        whole = await engine.get("notes@1", ["b", "small"], reading)
        assert (whole.documents, whole.cut) == ((HELD[1], HELD[3]), ())
        cut = await engine.get("notes@1", ["small", "c", "a", "b"], reading)
        share = 7_000_000 // 4 // 4
        assert [document.id for document in cut.documents] == ["small", "c", "a", "b"]
        assert [len(document.passage) for document in cut.documents] == [len(HELD[3].passage), share, share, share]
        assert cut.cut == ("c", "a", "b")
        assert sum(map(wire_bytes, cut.documents)) < 7_000_000
