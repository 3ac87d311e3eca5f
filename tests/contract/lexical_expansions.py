"""Checks the promises of LexicalEngine on expansions: queries and word frequencies that models added to documents."""

import pytest

from services.chassis.errors import StampMismatch
from services.contracts.collections import CollectionDeclaration
from services.contracts.documents import Document
from services.contracts.expansions import Expansions
from services.lexical.engine import LexicalEngine
from tests.support.lexical_notes import NOTES, documents, filled, found, scores
from tests.support.textbook_bm25 import bm25

MODEL, OTHER = "toy@0123456789ab", "toy@ba9876543210"
EXPANDED = CollectionDeclaration(
    presets=("anserini-flat", "doc2query", "deepct"), expansions={"doc2query": MODEL, "deepct": MODEL}
)
QUERIES = {
    "n1": ("noisy brake", "squeal stop"),
    "n2": ("brake maintenance",),
    "n3": (),
    "n4": ("wheel",),
    "n5": ("gear shift",),
}


def expansions(queries: tuple[str, ...], words: str, model: str = MODEL) -> Expansions:
    return Expansions.model_validate(
        {"doc2query": {"model": model, "queries": queries}, "deepct": {"model": model, "words": words}}
    )


def frequencies(text: str) -> dict[str, int]:
    """Doubles each word and adds one to the first. Lucene keeps lengths below 40 exactly, and the longest is 35."""
    words = text.split()
    return {word: 2 * words.count(word) + (word == words[0]) for word in words}


def expanded(one: str, model: str = MODEL) -> Document:
    words = " ".join(f"{word}|{times}" for word, times in frequencies(NOTES[one]).items())
    return Document(id=one, text=NOTES[one], expansions=expansions(QUERIES[one], words, model))


class ExpansionSuite:
    """Runs on every engine, as a part of LexicalEngineSuite."""

    async def test_generated_queries_score_as_if_the_text_held_them(self, engine: LexicalEngine) -> None:
        generation = await filled(engine, [expanded(one) for one in NOTES], EXPANDED)
        appended = {one: " ".join((text, *QUERIES[one])) for one, text in NOTES.items()}
        for query in ("brake stop", "gear", "wheel cable wheel"):
            expected = bm25(appended, query, 0.9, 0.4)
            assert await scores(engine, generation, query, preset="doc2query") == pytest.approx(expected, rel=1e-5)

    async def test_word_frequencies_score_as_if_each_word_were_repeated(self, engine: LexicalEngine) -> None:
        generation = await filled(engine, [expanded(one) for one in NOTES], EXPANDED)
        repeated = {
            one: " ".join(" ".join([word] * times) for word, times in frequencies(text).items())
            for one, text in NOTES.items()
        }
        for query in ("brake", "cable wheel", "cable brake brake"):
            expected = bm25(repeated, query, 12.0, 0.75)
            assert await scores(engine, generation, query, preset="deepct") == pytest.approx(expected, rel=1e-5)

    async def test_words_with_frequencies_are_analysed_as_texts_are(self, engine: LexicalEngine) -> None:
        held = [
            Document(id="a", expansions=expansions(("The Rider's gears",), "The|9 Brakes|20 O’Neil’s|3 km/h|2")),
            Document(id="b", expansions=expansions((), "")),
        ]
        generation = await filled(engine, held, EXPANDED)
        for query in ("braking", "o’neil", "km", "h"):
            assert await found(engine, generation, query, preset="deepct") == ["a"]
        assert await found(engine, generation, "the", preset="deepct") == []
        assert await found(engine, generation, "gear", preset="doc2query") == ["a"]
        assert await found(engine, generation, "braking gear", preset="anserini-flat") == []

    async def test_expansions_come_back_as_they_were_given(self, engine: LexicalEngine) -> None:
        await engine.begin("notes@1", EXPANDED)
        held = [expanded("n1"), expanded("n3")]
        await engine.index("notes@1", held)
        assert (await engine.get("notes@1", ["n1", "n3"])).documents == tuple(held)
        assert (await engine.index("notes@1", held)).unchanged == 2

    async def test_expansions_of_another_model_or_none_are_refused_and_others_taken(
        self, engine: LexicalEngine
    ) -> None:
        await engine.begin("notes@1", EXPANDED)
        report = await engine.index("notes@1", [expanded("n1"), expanded("n2", OTHER), *documents({"n3": "wheel"})])
        assert report.indexed == 1
        reasons = {error.id: error.reason for error in report.errors}
        assert reasons.keys() == {"n2", "n3"}
        assert MODEL in reasons["n2"]
        assert OTHER in reasons["n2"]
        assert MODEL in reasons["n3"]
        await engine.begin("notes@2", CollectionDeclaration())
        [undeclared] = (await engine.index("notes@2", [expanded("n1")])).errors
        assert MODEL in undeclared.reason

    async def test_a_generation_of_another_model_is_refused_by_a_name_for_both(self, engine: LexicalEngine) -> None:
        state = await engine.begin("notes@1", EXPANDED)
        assert state.stamp["expansions.deepct"] == MODEL
        other = EXPANDED.model_copy(update={"expansions": {"doc2query": OTHER, "deepct": MODEL}})
        with pytest.raises(StampMismatch, match=rf"{MODEL}.*{OTHER}"):
            await engine.begin("notes@1", other)
