"""Defines which settings are tried, and makes each point a pipeline. Pure."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import Field, ValidationError, model_validator

from evaluator.attribution.candidates import AskedLeg, CandidatesReport
from evaluator.errors import EvaluationError
from services.contracts.base import Depth, Weight, Wire
from services.contracts.lists import Items
from services.contracts.pipelines import Fuse, Pipeline, Rerank, Retrieve
from services.ranking.fusion import Normalisation

Constant = Annotated[int, Field(strict=True, ge=1, le=10_000)]
MOST_POINTS = 20_000


class Grid(Wire):
    """Settings to combine. Each leg is tried alone; legs of different backends or presets are also fused.

    Of legs that differ in their beam alone, the deepest is taken.

    `weights`: of the first leg; the others share what is left. `rerank_depths` and `rerank_weights` are tried where the
    run has a re-ranker, beside no re-ranking; a weight of null is the one that the model recommends.
    """

    leg_depths: Annotated[tuple[Depth, ...], Items(1, 32)] = (10, 50, 100, 200, 1000)
    k: Annotated[tuple[Constant, ...], Items(0, 32)] = (10, 60, 100)
    weights: Annotated[tuple[Weight, ...], Items(1, 32)] = (0.3, 0.5, 0.7)
    normalisations: Annotated[tuple[Normalisation, ...], Items(0, 3)] = ("min-max", "z-score", "theoretical-min")
    rerank_depths: Annotated[tuple[Depth, ...], Items(0, 32)] = (10, 20, 50, 100)
    rerank_weights: Annotated[tuple[Weight | None, ...], Items(1, 32)] = (None, 1.0)

    @model_validator(mode="after")
    def _fuses(self) -> "Grid":
        if not self.k and not self.normalisations:
            raise ValueError("k, normalisations: give values of one of them; a grid without any fuses nothing")
        return self


def read_grid(path: Path | None) -> Grid:
    """Reads a grid from YAML; the default one without a path. Raises EvaluationError."""
    if path is None:
        return Grid()
    try:
        return Grid.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (yaml.YAMLError, ValidationError) as error:
        raise EvaluationError(f"{path}: no grid: {error}") from error


def points(grid: Grid, found: CandidatesReport) -> list[Pipeline]:
    """Returns the pipelines of a grid over the legs and re-rankers of a run; none twice.

    A leg is never shallower than the answers, nor deeper than it was asked. Raises EvaluationError for too many points.
    """
    every: dict[str, Pipeline] = {}
    for source in _sources(grid, found):
        for rerank in _rerankings(grid, found, source):
            stages = (source,) if rerank is None else (source, rerank)
            pipeline = Pipeline(name=f"point-{len(every) + 1}", stages=stages)
            every.setdefault(pipeline.fingerprint, pipeline)
            if len(every) > MOST_POINTS:
                raise EvaluationError(f"the grid has more than {MOST_POINTS} points; leave values out")
    return list(every.values())


def _sources(grid: Grid, found: CandidatesReport) -> Iterator[Retrieve | Fuse]:
    deepest_rerank = max(grid.rerank_depths, default=0) if found.rerankers else 0
    different: dict[tuple[str, str | None], AskedLeg] = {}
    for leg in found.legs:
        known = different.setdefault((leg.retrieve.backend, leg.retrieve.preset), leg)
        if leg.retrieve.top > known.retrieve.top:
            different[leg.retrieve.backend, leg.retrieve.preset] = leg
    for leg in different.values():
        yield _leg(leg, max(found.top, deepest_rerank))
    if len(different) < 2:
        return
    tops = dict.fromkeys(max(found.top, depth) for depth in grid.leg_depths)
    for top in tops:
        legs = tuple(_leg(leg, top) for leg in different.values())
        for first in grid.weights:
            weights = (first, *(round((1 - first) / (len(legs) - 1), 6) for _ in legs[1:]))
            for k in grid.k:
                yield Fuse(kind="fuse", id="fuse", method="rrf", k=k, weights=weights, inputs=legs)
            for normalisation in grid.normalisations:
                yield _weighted(legs, normalisation, weights)


def _weighted(legs: Sequence[Retrieve], normalisation: Normalisation, weights: tuple[float, ...]) -> Fuse:
    return Fuse(
        kind="fuse", id="fuse", method="weighted", normalisation=normalisation, weights=weights, inputs=tuple(legs)
    )


def _rerankings(grid: Grid, found: CandidatesReport, source: Retrieve | Fuse) -> Iterator[Rerank | None]:
    yield None
    most = source.top if isinstance(source, Retrieve) else sum(one.top for one in _retrieves(source))
    for backend in found.rerankers:
        for depth in dict.fromkeys(min(depth, most) for depth in grid.rerank_depths):
            for weight in grid.rerank_weights:
                yield Rerank(kind="rerank", id="rerank", backend=backend, top=depth, weight=weight, on_failure="skip")


def _retrieves(source: Fuse) -> list[Retrieve]:
    return [one for one in source.inputs if isinstance(one, Retrieve)]


def _leg(leg: AskedLeg, top: int) -> Retrieve:
    on_failure: Literal["fail", "skip"] = leg.retrieve.on_failure
    return Retrieve.model_validate(
        {**leg.retrieve.model_dump(), "top": min(top, leg.retrieve.top), "on_failure": on_failure}
    )
