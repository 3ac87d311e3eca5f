"""Searches and loads a retrieval stack through its gateway, and calls its re-ranker."""

from retrieval_client.answers import (
    Condition,
    Document,
    DocumentWithVectors,
    Facet,
    Filter,
    LexicalPreset,
    Published,
    PublishJob,
    SearchAnswer,
    SearchHit,
    Sort,
)
from retrieval_client.clients import AsyncClient, AsyncReranker, Client, Reranker
from retrieval_client.exchange import RetrievalError
from retrieval_client.loading import BackendLoad, LoadReport

__all__ = [
    "AsyncClient",
    "AsyncReranker",
    "BackendLoad",
    "Client",
    "Condition",
    "Document",
    "DocumentWithVectors",
    "Facet",
    "Filter",
    "LexicalPreset",
    "LoadReport",
    "PublishJob",
    "Published",
    "Reranker",
    "RetrievalError",
    "SearchAnswer",
    "SearchHit",
    "Sort",
]
