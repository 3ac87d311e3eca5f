"""Owns the wire of what models add to a document when it is indexed: generated queries and word frequencies."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from services.contracts.base import Wire
from services.contracts.lists import Items

ExpansionMethod = Literal["doc2query", "deepct"]
# The name of a model, and the first digits of the sha256 of its weights.
ExpansionModel = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/+-]{0,127}@[0-9a-f]{12,64}$")]
# Bounds what an engine indexes for one document: the repeated words, each with a space.
MOST_REPEATED_CHARACTERS = 2_000_000
_WORDS = re.compile(r"(?:[^\s|]+\|[1-9][0-9]{0,5}(?: (?=\S)|$))*")


def _checked_words(words: str) -> str:
    if not _WORDS.fullmatch(words):
        raise ValueError("must be words, each with a bar and its frequency (1 to 999999): `chain|14 oil|9`")
    repeated = sum((len(word) + 1) * times for word, times in _frequencies(words))
    if repeated > MOST_REPEATED_CHARACTERS:
        raise ValueError(
            f"must repeat to at most {MOST_REPEATED_CHARACTERS} characters, not {repeated}; divide the document"
        )
    return words


def _frequencies(words: str) -> Iterator[tuple[str, int]]:
    for part in words.split():
        word, _, times = part.rpartition("|")
        yield word, int(times)


class GeneratedQueries(Wire):
    """Queries that a model generated for a document (docT5query, Nogueira and Lin 2019)."""

    model: ExpansionModel
    queries: Annotated[tuple[Annotated[str, Field(min_length=1, max_length=1_000)], ...], Items(0, 100)]


class WordFrequencies(Wire):
    """Frequencies that BM25 reads in place of how often a word occurs (DeepCT, Dai and Callan 2019).

    `words`: words before analysis, each with a bar and its frequency: `chain|14 oil|9`.
    """

    model: ExpansionModel
    words: Annotated[str, AfterValidator(_checked_words)]

    def frequencies(self) -> Iterator[tuple[str, int]]:
        """Yields each word and its frequency."""
        return _frequencies(self.words)


Queries = Annotated[GeneratedQueries | None, Field(exclude_if=lambda part: part is None)]
Frequencies = Annotated[WordFrequencies | None, Field(exclude_if=lambda part: part is None)]


class Expansions(Wire):
    """What models added to one document."""

    doc2query: Queries = None
    deepct: Frequencies = None

    @model_validator(mode="after")
    def _has_one(self) -> Self:
        if not self.models:
            raise ValueError("must have doc2query or deepct; leave `expansions` out of a document without them")
        return self

    @property
    def models(self) -> Mapping[ExpansionMethod, str]:
        """The model of each expansion."""
        models: dict[ExpansionMethod, str] = {}
        if self.doc2query is not None:
            models["doc2query"] = self.doc2query.model
        if self.deepct is not None:
            models["deepct"] = self.deepct.model
        return models
