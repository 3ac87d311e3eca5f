"""Checks the promises of LexicalEngine on texts of several languages."""

from collections.abc import Mapping

import pytest

from services.chassis.errors import StampMismatch
from services.contracts.base import Language
from services.contracts.collections import CollectionDeclaration, LexicalPreset
from services.contracts.documents import Document
from services.contracts.expansions import Expansions
from services.contracts.matches import CountRequest
from services.lexical.engine import LexicalEngine
from tests.support.lexical_notes import documents, filled, found, scores
from tests.support.textbook_bm25 import bm25

# (texts and their terms, a query and its terms)
CASES: Mapping[Language, tuple[Mapping[str, tuple[str, str]], tuple[str, str]]] = {
    "german": (
        {
            "a": ("Die Häuser der Brüder sind groß.", "haus brud gross"),
            "b": ("Ein großes Haus am See, ein kleines Haus", "gross haus see klein haus"),
            "c": ("Straßen und Seen", "strass seen"),
        },
        ("das Haus der Großen", "haus gross"),
    ),
    "french": (
        {
            "a": ("L'école qu’il aimait est fermée.", "écol aim est ferm"),
            "b": ("Les écoles et l’hôpital", "écol hôpital"),
            "c": ("Jusqu'à l'hôpital, les chevaux", "hôpital cheval"),
        },
        ("d'écoles, l'hopital hôpitaux", "écol hopital hôpital"),
    ),
    "spanish": (
        {
            "a": ("Los niños corrían por las calles", "niñ corr call"),
            "b": ("La niña y el niño", "niñ niñ"),
            "c": ("Una calle tranquila", "call tranquil"),
        },
        ("el niño en la calle", "niñ call"),
    ),
    "cjk": (
        {
            "a": ("東京都の人口", "東京 京都 都の の人 人口"),
            "b": ("京都のお寺とデータ", "京都 都の のお お寺 寺と とデ デー ータ"),
            "c": ("한국어 ﾃﾞｰﾀ ＡＢＣ", "한국 국어 デー ータ abc"),
        },
        ("京都のデータ abc", "京都 都の のデ デー ータ abc"),
    ),
}


def preset(name: str, language: Language, match: str = "flat", **more: object) -> LexicalPreset:
    return LexicalPreset.model_validate(
        {"name": name, "match": match, "k1": 0.9, "b": 0.4, "language": language, **more}
    )


class LanguageSuite:
    """Runs on every engine, as a part of LexicalEngineSuite."""

    @pytest.mark.parametrize("language", CASES)
    async def test_the_stems_of_a_language_score_as_the_textbook_says(
        self, engine: LexicalEngine, language: Language
    ) -> None:
        texts, (query, terms) = CASES[language]
        declaration = CollectionDeclaration(
            presets=(preset("one", language), preset("two", language, "best_fields", boosts={"text": 2.0}))
        )
        generation = await filled(engine, documents({one: text for one, (text, _) in texts.items()}), declaration)
        expected = bm25({one: stems for one, (_, stems) in texts.items()}, terms, 0.9, 0.4)
        assert await scores(engine, generation, query) == pytest.approx(expected, rel=1e-5)
        boosted = {one: 2 * score for one, score in expected.items()}
        assert await scores(engine, generation, query, preset="two") == pytest.approx(boosted, rel=1e-5)

    async def test_words_of_any_script_are_found_whole_and_in_any_case(self, engine: LexicalEngine) -> None:
        texts = {
            "hindi": "हिन्दी भारत की भाषा है",
            "letters": "हाँ नौ दिन",
            "izmir": "İzmir is a town",
            "fire": "The oven is on 🔥",
            "sigma": "ΟΔΥΣΣΕΥΣ",
            "yoruba": "Mo fẹ́ ọjọ́",
            "arabic": "هذا كِتاب",
        }
        generation = await filled(engine, documents(texts), CollectionDeclaration(presets=("anserini-flat",)))
        for query, expected in {
            "हिन्दी": "hindi",
            "izmir": "izmir",
            "İZMİR": "izmir",
            "🔥": "fire",
            "οδυσσευσ": "sigma",
            "ọjọ́": "yoruba",
            "كِتاب": "arabic",
        }.items():
            assert await found(engine, generation, query) == [expected], query

    async def test_presets_of_several_languages_read_the_same_documents(self, engine: LexicalEngine) -> None:
        declaration = CollectionDeclaration(
            presets=(preset("german", "german"), "anserini-flat", preset("english", "english"))
        )
        held = [Document(id="a", title="Die Häuser", text="relational"), Document(id="b", text="die before dawn")]
        generation = await filled(engine, held, declaration)
        for query, expected in {
            "Haus": {"german": ["a"], "english": []},
            "relates": {"german": [], "english": ["a"]},
            "die": {"german": [], "english": ["a", "b"]},
        }.items():
            assert await found(engine, generation, query) == expected["german"]
            for name in ("german", "english"):
                assert await found(engine, generation, query, preset=name) == expected[name], (query, name)
                asked = CountRequest(query=query, preset=name, total=True)
                assert (await engine.count(generation, asked)).total == len(expected[name]), (query, name)
        english = await scores(engine, generation, "die", preset="english")
        assert english == await scores(engine, generation, "die", preset="anserini-flat")

    async def test_expansions_are_of_the_language_of_their_preset(self, engine: LexicalEngine) -> None:
        model = "toy@0123456789ab"
        declaration = CollectionDeclaration(
            presets=(preset("asked", "german", "doc2query"), preset("counted", "german", "deepct")),
            expansions={"doc2query": model, "deepct": model},
        )
        parts = {
            "doc2query": {"model": model, "queries": ["Wo sind die Häuser?"]},
            "deepct": {"model": model, "words": "Brüder|12 der|4"},
        }
        held = [Document(id="a", text="Straßen", expansions=Expansions.model_validate(parts))]
        generation = await filled(engine, held, declaration)
        for query, by in {"Haus": ["asked"], "Straße": ["asked"], "Bruder": ["counted"], "der die": []}.items():
            for name in ("asked", "counted"):
                assert await found(engine, generation, query, preset=name) == ["a"] * (name in by), (query, name)

    async def test_the_stamp_names_other_languages_and_another_one_is_refused(self, engine: LexicalEngine) -> None:
        mine = CollectionDeclaration(presets=(preset("mine", "german"), "beir"))
        state = await engine.begin("notes@1", mine)
        analyses = state.stamp["analysis"].split(",")
        assert ["english" in analyses[0], "german" in analyses[1]] == [True, True]
        assert state.stamp["preset.mine"] == "flat k1=0.9 b=0.4 tie_breaker=0.0 language=german"
        with pytest.raises(StampMismatch, match="language=german"):
            await engine.begin("notes@1", CollectionDeclaration(presets=(preset("mine", "french"), "beir")))
        english = CollectionDeclaration(presets=(preset("mine", "english"),))
        plain = await engine.begin("notes@2", english)
        assert plain.stamp["preset.mine"] == "flat k1=0.9 b=0.4 tie_breaker=0.0"
        assert plain.stamp["analysis"] == analyses[0]
        assert "language" not in plain.model_dump_json()
