"""Fills and searches lexical engines, and opens them again on the same storage, for their tests."""

from abc import ABC, abstractmethod

from elasticsearch import AsyncElasticsearch

from services.contracts.collections import CollectionDeclaration
from services.contracts.documents import Document
from services.contracts.retrieval import RetrievalRequest
from services.lexical.engine import LexicalEngine
from services.lexical.settings import LexicalSettings
from services.storage.elasticsearch.client import open_client

ALL_PRESETS = CollectionDeclaration(presets=("beir", "anserini-flat", "anserini-multifield"))
WITH_FIELDS = CollectionDeclaration(metadata={"tag": "keyword", "year": "number", "seen": "date"})
NOTES = {
    "n1": "brake pad squeals",
    "n2": "brake lever loose brake cable frayed brake",
    "n3": "wheel wobbles",
    "n4": "pad worn cable fine wheel true spoke tight rim clean tyre new tube old valve bent",
    "n5": "cable",
}


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
    """Returns a client beside the service, with its key and authority."""
    key = settings.elasticsearch_api_key
    secret = None if key is None else key.get_secret_value()
    return open_client(settings.elasticsearch_url, secret, settings.elasticsearch_ca_file, 4)
