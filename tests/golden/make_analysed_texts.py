"""Draws analysed_texts.json anew from an Elasticsearch: the words of its `_analyze` for texts of many scripts.

    python -m tests.golden.make_analysed_texts http://127.0.0.1:9200

The texts are those of the file, in NFC: queries arrive so, and our analysis composes documents.
"""

import asyncio
import json
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path

from elasticsearch import AsyncElasticsearch

from services.contracts.base import Language
from services.lexical.elasticsearch_mapping import analysis_settings, analyzer_of

ANALYSED_TEXTS = Path(__file__).with_name("analysed_texts.json")
# Of the other languages the tokenizer is the same, and the stems of PyStemmer 3 differ.
KEPT: tuple[Language, ...] = ("english", "cjk", "russian", "french")


async def words_of_server(
    client: AsyncElasticsearch, texts: Sequence[str], languages: Sequence[Language]
) -> dict[Language, list[list[str]]]:
    """Returns, by language, the words of `_analyze` for each text, by an index with our analyzers."""
    index = f"test-{uuid.uuid4().hex[:12]}"
    await client.indices.create(index=index, settings={"analysis": analysis_settings(languages)})
    try:
        words: dict[Language, list[list[str]]] = {language: [] for language in languages}
        for language in languages:
            for text in texts:
                answer = await client.indices.analyze(index=index, analyzer=analyzer_of(language), text=text)
                words[language].append([token["token"] for token in answer["tokens"]])
        return words
    finally:
        await client.indices.delete(index=index)


async def main(url: str) -> None:
    """Replaces the words of the file."""
    kept = json.loads(ANALYSED_TEXTS.read_text(encoding="utf-8"))
    async with AsyncElasticsearch(url) as client:
        words = await words_of_server(client, [entry["text"] for entry in kept], KEPT)
    drawn = [
        {"about": entry["about"], "text": entry["text"], **{language: words[language][at] for language in KEPT}}
        for at, entry in enumerate(kept)
    ]
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in drawn)
    ANALYSED_TEXTS.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
