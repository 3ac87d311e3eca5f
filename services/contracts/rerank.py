"""The re-ranker's internal wire: `POST /v1/score`."""

from typing import Annotated

from pydantic import FiniteFloat

from services.contracts.base import QueryText, Text, Weight, Wire
from services.contracts.lists import Items


class ScoreRequest(Wire):
    """A query and 1 to 1,000 passages (`<title> <text>`, best first), 8 MB in all.

    `partial`: what there is no time for before the deadline may stay unscored; otherwise the deadline is an error.
    """

    query: QueryText
    passages: Annotated[tuple[Text, ...], Items(1, 1_000)]
    partial: bool = False


class ScoreAnswer(Wire):
    """One score a passage, in the order sent; higher is more relevant; and the weight recommended for this model.

    Where `partial` was asked for, null stands for a passage that there was no time for.
    """

    model: str
    weight: Weight
    scores: tuple[FiniteFloat | None, ...]
