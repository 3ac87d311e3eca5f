"""Owns the internal wire of re-rankers, `POST /v1/score`: over texts, and over stored vectors."""

from operator import not_
from typing import Annotated, Self

from pydantic import Field, FiniteFloat, model_validator

from services.contracts.base import Count, DocumentId, QueryText, Text, Weight, Wire
from services.contracts.generations import Generation
from services.contracts.lists import Items
from services.contracts.passages import Passages

# Fewer scores than this, where more were asked for, may make a ranking worse. Of the first 2 to 5 of BM25's hits on
# SciFact, re-ranked alone, nDCG@10 fell by 0.010 to 0.019; with 6 to 12 it stayed, with 15 it rose by 0.016. With the
# first ten of `hybrid` it stayed (-0.0003): more than these are what makes it better.
LEAST_SCORED = 10


class ScoreRequest(Wire):
    """A query and 1 to 1,000 passages (`<title> <text>`, best first), 8 MB in all.

    With `partial`, passages that the deadline leaves no time for stay unscored; without it they are an error. Where the
    time suffices for fewer than LEAST_SCORED of more, none is scored, and others have the time.

    With `split`, longer passages are cut into parts, at most 32, and the best part counts. The title, the first
    `title_lengths` characters of each passage, stands in front of every part.
    """

    query: QueryText
    passages: Annotated[tuple[Text, ...], Items(1, 1_000)]
    partial: bool = False
    split: Annotated[Passages | None, Field(exclude_if=lambda split: split is None)] = None
    title_lengths: Annotated[tuple[Count, ...], Items(0, 1_000), Field(exclude_if=not_)] = ()

    @model_validator(mode="after")
    def _titles_are_of_these_passages(self) -> Self:
        if self.title_lengths and self.split is None:
            raise ValueError("title_lengths: only beside `split`; leave it out")
        if len(self.title_lengths) not in (0, len(self.passages)):
            raise ValueError(f"title_lengths: {len(self.title_lengths)} given for {len(self.passages)} passages")
        return self


class StoredScoreRequest(Wire):
    """A query and 1 to 1,000 documents of a generation, best first, whose vectors the service has stored.

    `passages` (`<title> <text>`, by id) are encoded where no vector is stored. With `partial`, those that the deadline
    leaves no time for stay unscored; without it they are an error.
    """

    query: QueryText
    generation: Generation
    ids: Annotated[tuple[DocumentId, ...], Items(1, 1_000)]
    passages: dict[DocumentId, Text] = {}
    partial: bool = False

    @model_validator(mode="after")
    def _passages_are_of_these_ids(self) -> Self:
        if unknown := self.passages.keys() - set(self.ids):
            raise ValueError(f"passages: '{min(unknown)}' is not among `ids`")
        return self


class ScoreAnswer(Wire):
    """One score for each passage or id, in the order sent (higher is better), and the model's recommended weight.

    With `partial`, null marks a passage without a score. An id has none if neither its vector is stored nor its passage
    sent. Where fewer than LEAST_SCORED of more have one,
    `needs_ms` is how long that many take an idle re-ranker; else it is absent.
    """

    model: str
    weight: Weight
    scores: tuple[FiniteFloat | None, ...]
    needs_ms: FiniteFloat | None = None
