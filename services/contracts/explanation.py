"""Owns the wire of explanations: what in a query matched what in a document."""

from typing import Annotated

from pydantic import FiniteFloat

from services.contracts.base import QueryText, Wire
from services.contracts.documents import Document
from services.contracts.generations import Generation
from services.contracts.lists import Items


class Match(Wire):
    """A part of the query (a term, a token), the part of the document that it matched, and what that adds to the score.

    The score is the product of both weights. Of tokens, the document's is their dot product, and the query's its IDF,
    or 1.
    """

    query: str
    document: str
    query_weight: FiniteFloat
    document_weight: FiniteFloat
    score: FiniteFloat


class ExplainRequest(Wire):
    """Asks a vector service why these documents have their scores. Their texts are those that it has encoded."""

    query: QueryText
    documents: Annotated[tuple[Document, ...], Items(1, 1_000, fail_fast=True)]


class Explanation(Wire):
    """The matches of one document, the highest score first."""

    id: str
    matches: tuple[Match, ...]


class ExplainAnswer(Wire):
    """Explanations in the order of the request, without documents that are absent or stored with another text."""

    generation: Generation
    explanations: tuple[Explanation, ...]
