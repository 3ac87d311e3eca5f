"""Owns the internal wire of the re-ranker: `POST /v1/score`."""

from typing import Annotated

from pydantic import FiniteFloat

from services.contracts.base import QueryText, Text, Weight, Wire
from services.contracts.lists import Items

# Fewer scores than this, where more were asked for, do not make a ranking better. Of the first 2 to 5 of BM25's hits on
# SciFact, re-ranked alone, nDCG@10 fell by 0.010 to 0.019; with 6 to 12 it stayed, with 15 it rose by 0.016.
LEAST_SCORED = 15


class ScoreRequest(Wire):
    """A query and 1 to 1,000 passages (`<title> <text>`, best first), 8 MB in all.

    With `partial`, passages that the deadline leaves no time for stay unscored; without it they are an error. Where the
    time suffices for fewer than LEAST_SCORED of more, none is scored, and others have the time.
    """

    query: QueryText
    passages: Annotated[tuple[Text, ...], Items(1, 1_000)]
    partial: bool = False


class ScoreAnswer(Wire):
    """One score for each passage, in the order sent (higher is more relevant), and the model's recommended weight.

    With `partial`, null marks a passage without a score. Where fewer than LEAST_SCORED of more have one,
    `needs_ms` is how long that many take an idle re-ranker; else it is absent.
    """

    model: str
    weight: Weight
    scores: tuple[FiniteFloat | None, ...]
    needs_ms: FiniteFloat | None = None
