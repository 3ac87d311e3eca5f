"""Our own analysis of every language gives the terms of a real Elasticsearch, for drawn words and sentences."""

import json
import random
import uuid
from collections.abc import Iterator

import pytest

from services.contracts.base import Language
from services.lexical.analysis import LANGUAGES, words_of
from services.lexical.elasticsearch_mapping import analysis_settings, analyzer_of
from services.lexical.settings import LexicalSettings
from tests.golden.make_analysed_texts import ANALYSED_TEXTS, KEPT, words_of_server
from tests.support.lexical_notes import client_of

# The first test waits for the server to start.
pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

CHARACTERS_OF_CJK = (*"東京都のにはタデーヴ々〇한국어제ｶﾀAbc１Ｂ12 \u3000。、.：'·・", "ｶﾞ", "ﾊﾟ")
DRAWN_WORDS, DRAWN_SENTENCES = 400, 200


def drawn_texts(language: Language) -> Iterator[str]:
    """Stop words, words of other stems and endings than real ones, and sentences of them; for cjk any characters."""
    draw, rules = random.Random(29), LANGUAGES[language]
    # The analyzer does not compose letters of two code points.
    known = [word for word in rules.probe.split() if word != "cafe\u0301"]
    drawn = (draw.choices(known, k=2) for _ in range(DRAWN_WORDS) if rules.stemmer is not None)
    words = [
        *known,
        *rules.stop_words,
        *(start[: draw.randint(1, 9)] + end[-draw.randint(1, 6) :] for start, end in drawn),
    ]
    yield from words
    articles = [*(f"{article}{mark}" for article in sorted(rules.articles) for mark in "'’"), ""]
    for _ in range(DRAWN_SENTENCES):
        written = [draw.choice((str.lower, str.upper, str.title))(word) for word in draw.choices(words, k=8)]
        yield draw.choice((" ", ", ", "-", ". ")).join(draw.choice(articles) + word for word in written)
        if language == "cjk":
            yield "".join(draw.choices(CHARACTERS_OF_CJK, k=12))


@pytest.mark.parametrize("language", LANGUAGES)
async def test_our_terms_are_those_of_the_analyzer(elasticsearch_url: str, language: Language) -> None:
    texts, index = list(drawn_texts(language)), f"test-{uuid.uuid4().hex[:12]}"
    settings = {"analysis": analysis_settings([language])}
    service = LexicalSettings(engine="elasticsearch", elasticsearch_url=elasticsearch_url)
    async with client_of(service) as client:
        await client.indices.create(index=index, settings=settings)
        try:
            for text in texts:
                answer = await client.indices.analyze(index=index, analyzer=analyzer_of(language), text=text)
                assert words_of(text, language) == [token["token"] for token in answer["tokens"]], text
        finally:
            await client.indices.delete(index=index)


async def test_words_of_many_scripts_are_those_of_the_analyzers(elasticsearch_url: str) -> None:
    kept = json.loads(ANALYSED_TEXTS.read_text(encoding="utf-8"))
    texts, languages = [entry["text"] for entry in kept], list(LANGUAGES)
    async with client_of(LexicalSettings(engine="elasticsearch", elasticsearch_url=elasticsearch_url)) as client:
        drawn = await words_of_server(client, texts, languages)
    for language in languages:
        assert [words_of(text, language) for text in texts] == drawn[language], language
    assert [[entry[language] for language in KEPT] for entry in kept] == [
        [drawn[language][at] for language in KEPT] for at in range(len(kept))
    ]
