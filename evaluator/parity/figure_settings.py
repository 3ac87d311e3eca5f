"""Owns the settings that decide a BM25 figure, and which changes of them are worth trying. Pure; computes no figure."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from typing import Annotated, Literal

from pydantic import Field

from services.contracts.base import Depth, Number, Weight, Wire
from services.contracts.collections import LexicalPreset

Value = str | int | float
Change = Mapping[str, Value]  # field of FigureSettings → its new value


class FigureSettings(Wire):
    """All settings of one figure: four of the index, four of the evaluation."""

    fields: Literal["flat", "best_fields", "most_fields"]
    k1: Annotated[Number, Field(ge=0.0, le=10.0)]
    b: Weight
    tie_breaker: Weight
    # Which retrieved documents are dropped as the query itself: by id and text, by id alone, none.
    self_retrieved: Literal["same id and text", "same id", "kept"] = "same id and text"
    missing: Literal["counted as 0", "dropped"] = "counted as 0"  # queries without hits
    ties: Literal["ascending", "descending"] = "ascending"  # equal scores, by document id
    depth: Depth = 1_000  # of the ranking; documents that are the query itself are dropped afterwards

    @property
    def preset(self) -> LexicalPreset:
        """The index's part as a preset, named by its parameters."""
        shared = self.tie_breaker if self.fields == "best_fields" else 0.0
        name = f"{self.fields}-{self.k1:g}-{self.b:g}-{shared:g}".replace(".", "_")
        return LexicalPreset(name=name, match=self.fields, k1=self.k1, b=self.b, tie_breaker=shared)


LABELS: Mapping[str, str] = {
    "fields": "fields",
    "k1": "k1",
    "b": "b",
    "tie_breaker": "tie_breaker",
    "self_retrieved": "self-retrieved documents",
    "missing": "queries without hits",
    "ties": "order of equal scores by id",
    "depth": "depth",
}

# Settings of other systems. k1 and b: Anserini (0.9, 0.4), Lucene (1.2, 0.75), rank_bm25 and the README of beir's
# benchmarks (1.5, 0.75), Anserini tuned on MS MARCO passages (0.82, 0.68), Robertson and Zaragoza 2009 (k1 up to 2).
OF_OTHER_SYSTEMS: tuple[Change, ...] = (
    *({"k1": value} for value in (0.82, 0.9, 1.2, 1.5, 2.0)),
    *({"b": value} for value in (0.4, 0.68, 0.75)),
    *({"k1": k1, "b": b} for k1, b in ((0.82, 0.68), (0.9, 0.4), (1.2, 0.75), (1.5, 0.75))),
    {"fields": "flat"},
    {"fields": "most_fields"},
    {"fields": "best_fields", "tie_breaker": 0.5},
    *({"tie_breaker": value} for value in (0.0, 0.3, 0.5, 1.0)),
    {"self_retrieved": "same id"},
    {"self_retrieved": "kept"},
    {"missing": "dropped"},
    {"ties": "descending"},
    *({"depth": value} for value in (10, 50, 100)),
)


def changed(settings: FigureSettings, change: Change) -> FigureSettings:
    """Returns the settings with the change applied. Raises ValidationError for values that they refuse."""
    return FigureSettings.model_validate({**dict(settings), **change})


def changes_to_try(served: FigureSettings, documented: FigureSettings) -> tuple[Change, ...]:
    """Returns every change of `served` worth trying, each once.

    First all combinations of what the source documents otherwise, fewest settings first; then single settings (and
    pairs of k1 and b) of other systems.
    """
    differing = {name: value for name, value in documented if value != getattr(served, name)}
    of_source = [dict(some) for size in range(1, len(differing) + 1) for some in combinations(differing.items(), size)]
    return tuple(_distinct(served, (*of_source, *OF_OTHER_SYSTEMS)))


def _distinct(served: FigureSettings, changes: Iterable[Change]) -> Iterator[Change]:
    """Yields the effective part of every change, without those that repeat a result."""
    seen = {_effective(served)}
    for change in changes:
        result = _effective(changed(served, change))
        if result not in seen:
            seen.add(result)
            yield {name: value for name, value in change.items() if value != getattr(served, name)}


def _effective(settings: FigureSettings) -> FigureSettings:
    return changed(settings, {"tie_breaker": settings.preset.tie_breaker})


def minimal(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Returns the changes that contain no other one of them."""
    every = list(changes)
    return tuple(
        change for change in every if not any(other.items() < change.items() for other in every if other is not change)
    )
