"""Reads the form of the page from query parameters. Knows which pipelines and collections there are, runs no search."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Self
from urllib.parse import urlencode

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from gateway.search.execute import DEFAULTS
from services.chassis.errors import BadInput
from services.contracts.base import Name, QueryText
from services.contracts.query import SearchRequest
from services.contracts.validation_messages import validation_message

# A page of more is not read, and from 1,000 hits on a search is deep.
MOST_HITS = 100
SEEDS = 2**32
# Shown of a document: the title, and the start of the text.
INCLUDED = ("title", "text")


@dataclass(frozen=True, slots=True)
class Offered:
    """The names that the form offers, in order: collections with a live generation, and pipelines of the chosen one."""

    collections: tuple[str, ...]
    pipelines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TypedForm:
    """What was typed, unchecked; defaults where a parameter is absent. `submitted`: a query is among them."""

    submitted: bool
    collection: str
    query: str
    left: str
    right: str
    top: str
    blind: str
    seed: str

    @classmethod
    def of(cls, parameters: Mapping[str, str], offered: Offered) -> Self:
        """Reads the parameters of a URL. Those that the form does not have are left alone, as on any page."""
        second = next((name for name in DEFAULTS if name in offered.pipelines[1:]), offered.pipelines[-1])
        first = next((name for name in offered.pipelines if name != second), second)
        return cls(
            submitted="query" in parameters,
            collection=parameters.get("collection", offered.collections[0] if offered.collections else ""),
            query=parameters.get("query", ""),
            left=parameters.get("left", first),
            right=parameters.get("right", second if second != first else ""),
            top=parameters.get("top", str(SearchRequest.model_fields["top"].default)),
            blind=parameters.get("blind", ""),
            seed=parameters.get("seed", ""),
        )

    def seeded(self, seed: int) -> str:
        """Returns the URL of the same form with this seed, relative to the page."""
        return self._url(left=self.left, right=self.right, blind=self.blind, seed=str(seed))

    def opened(self, pipelines: Sequence[str]) -> str:
        """Returns the URL of the same form with the pipelines in this order, not blind."""
        return self._url(left=pipelines[0], right=pipelines[1] if len(pipelines) > 1 else "")

    def _url(self, **fields: str) -> str:
        return "?" + urlencode({"collection": self.collection, "query": self.query, "top": self.top, **fields})

    def checked(self) -> "PageSearch":
        """Returns what was asked for. Raises BadInput that names the fields at fault."""
        given = {
            "collection": self.collection,
            "query": self.query,
            "left": self.left,
            "right": self.right or None,
            "top": self.top,
            "blind": self.blind or False,
            "seed": self.seed or None,
        }
        try:
            return PageSearch.model_validate(given)
        except ValidationError as error:
            faults = [
                ": ".join((*(str(part) for part in fault["loc"]), validation_message(fault)))
                for fault in error.errors(include_url=False, include_input=False)
            ]
            raise BadInput("; ".join(faults)) from error


class PageSearch(BaseModel):
    """A query through one or two pipelines. `blind` hides which is which, and `seed` decides their sides then."""

    model_config = ConfigDict(frozen=True)

    collection: Name
    query: QueryText
    left: Name
    right: Name | None
    top: Annotated[int, Field(ge=1, le=MOST_HITS)]
    blind: bool
    seed: Annotated[int, Field(ge=0, lt=SEEDS)] | None

    @model_validator(mode="after")
    def _has_something_to_hide(self) -> Self:
        if self.blind and self.right is None:
            raise ValueError("a blind comparison takes two pipelines: choose a second one, or compare openly")
        return self

    @property
    def unseeded(self) -> bool:
        """Whether it is blind and lacks a seed. It gets one in its URL, so that a reload shows the same sides."""
        return self.blind and self.seed is None

    @property
    def pipelines(self) -> tuple[str, ...]:
        """The pipelines in the order in which they are shown."""
        if self.right is None:
            return (self.left,)
        swapped = self.blind and random.Random(self.seed).random() < 0.5
        return (self.right, self.left) if swapped else (self.left, self.right)

    def request(self, pipeline: str) -> SearchRequest:
        """Returns the search of one side."""
        return SearchRequest(
            query=self.query, pipeline=pipeline, top=self.top, include=INCLUDED, highlight=1, explain=True, total=True
        )
