"""Searches and loads a retrieval stack through its gateway."""

from retrieval_client.answers import LexicalPreset, Published, PublishJob, SearchAnswer, SearchHit
from retrieval_client.clients import AsyncClient, Client
from retrieval_client.documents import Condition, Document, DocumentWithVectors, Filter
from retrieval_client.errors import RetrievalError
from retrieval_client.loading import LoadReport

__all__ = [
    "AsyncClient",
    "Client",
    "Condition",
    "Document",
    "DocumentWithVectors",
    "Filter",
    "LexicalPreset",
    "LoadReport",
    "PublishJob",
    "Published",
    "RetrievalError",
    "SearchAnswer",
    "SearchHit",
]
