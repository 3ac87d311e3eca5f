"""Searches and loads a retrieval stack through its gateway, and calls its re-ranker.

`retrieval_client.answers` has the models of requests and answers, `retrieval_client.loading` the report of a load.
"""

from retrieval_client.clients import AsyncClient, AsyncReranker, Client, Reranker
from retrieval_client.exchange import RetrievalError

__all__ = ["AsyncClient", "AsyncReranker", "Client", "Reranker", "RetrievalError"]
