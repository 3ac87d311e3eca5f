"""Fills and searches lexical engines, and opens them again on the same storage, for their tests."""

import random
from abc import ABC, abstractmethod

from elasticsearch import AsyncElasticsearch

from services.contracts.collections import CollectionDeclaration
from services.contracts.documents import Document
from services.contracts.retrieval import RetrievalRequest
from services.lexical.engine import LexicalEngine
from services.lexical.settings import LexicalSettings

ALL_PRESETS = CollectionDeclaration(presets=("beir", "anserini-flat", "anserini-multifield"))
WITH_FIELDS = CollectionDeclaration(metadata={"tag": "keyword", "year": "number", "seen": "date"})
NOTES = {
    "n1": "brake pad squeals",
    "n2": "brake lever loose brake cable frayed brake",
    "n3": "wheel wobbles",
    "n4": "pad worn cable fine wheel true spoke tight rim clean tyre new tube old valve bent",
    "n5": "cable",
}

_DRAWN = random.Random(11)
_WORDS = [f"word{number}" for number in range(60)]
_TEXTS = [
    " ".join(_DRAWN.choices(_WORDS, [1 / (place + 1) for place in range(60)], k=_DRAWN.randint(2, 30)))
    for _ in range(150)
]
TIED_QUERIES = [" ".join(_DRAWN.choices(_WORDS, k=_DRAWN.randint(1, 6))) for _ in range(40)]


class EngineOpener(ABC):
    """Opens engines on one storage. Each engine's tests implement it."""

    @abstractmethod
    async def open(self) -> LexicalEngine:
        """Opens an engine on what was stored before."""

    @abstractmethod
    async def change_stamp(self, engine: LexicalEngine, generation: str) -> LexicalEngine:
        """Changes the stored stamp of a generation's analysis, and returns the engine, opened again."""


def documents(texts: dict[str, str], title: str = "") -> list[Document]:
    return [Document(id=one, title=title, text=text) for one, text in texts.items()]


def tied_documents() -> list[Document]:
    """Each text twice: a tie, whose documents are in different shards of an index more often than not."""
    return [Document(id=f"d{number:03}", title=text[:12], text=text) for number, text in enumerate([*_TEXTS, *_TEXTS])]


async def rankings_of(engine: LexicalEngine, generation: str) -> list[list[tuple[str, float]]]:
    """Returns the hits of every TIED_QUERIES by every preset, cut early and late."""
    return [
        [(hit.id, hit.score) for hit in await engine.search(generation, request_for(query, preset=preset, top=top))]
        for query in TIED_QUERIES
        for preset in ALL_PRESETS.presets
        for top in (7, 1000)
    ]


def request_for(query: str, **parts: object) -> RetrievalRequest:
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
    return [hit.id for hit in await engine.search(generation, request_for(query, **parts))]


async def scores(engine: LexicalEngine, generation: str, query: str, **parts: object) -> dict[str, float]:
    return {hit.id: hit.score for hit in await engine.search(generation, request_for(query, **parts))}


def client_of(settings: LexicalSettings) -> AsyncElasticsearch:
    """Returns a client beside the service, without a key."""
    return AsyncElasticsearch(settings.elasticsearch_url, request_timeout=120)
