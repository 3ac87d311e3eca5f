"""The re-ranker's internal wire: `POST /v1/score`."""

from typing import Annotated

from pydantic import Field, FiniteFloat

from services.contracts.base import QueryText, Weight, Wire


class ScoreRequest(Wire):
    """A query and 1 to 1,000 passages (`<title> <text>`), 8 MB in all."""

    query: QueryText
    passages: Annotated[tuple[str, ...], Field(min_length=1, max_length=1_000)]


class ScoreAnswer(Wire):
    """One score a passage, in the order sent; higher is more relevant; and the weight recommended for this model."""

    model: str
    weight: Weight
    scores: tuple[FiniteFloat, ...]
