"""Searches and loads a retrieval stack through its gateway, and calls its re-ranker."""

from retrieval_client.answers import LexicalPreset, Published, PublishJob, SearchAnswer, SearchHit
from retrieval_client.clients import AsyncClient, Client
from retrieval_client.documents import Condition, Document, DocumentWithVectors, Facet, Filter, Sort
from retrieval_client.errors import RetrievalError
from retrieval_client.loading import BackendLoad, LoadReport
from retrieval_client.reranking import AsyncReranker, Reranker

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
