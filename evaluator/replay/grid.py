"""Defines which settings are tried, and makes each point a pipeline. Pure."""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from evaluator.attribution.candidates import AskedLeg, CandidatesReport
from evaluator.attribution.collect import leg_name, reranker_name
from evaluator.datasets.text_files import HashedLines
from evaluator.errors import EvaluationError
from services.chassis.settings.strict_yaml import parse_yaml
from services.contracts.base import Depth, Weight, Wire
from services.contracts.lists import Items
from services.contracts.pipelines import MOST_INPUTS, Fuse, LaterStage, Pipeline, Rerank, Retrieve, SourceStage
from services.ranking.fusion import Normalisation

Constant = Annotated[int, Field(strict=True, ge=1, le=10_000)]
MOST_POINTS = 20_000


class Grid(Wire):
    """Settings to combine. Each leg is tried alone; legs of different backends or presets are also fused.

    Of legs that differ in their beam alone, the deepest is taken. Exact and approximate search of a backend are tried
    in turn, never fused with each other. All other settings of stages are those of the run's pipelines.

    `weights`: of the first leg; the others share what is left. `rerank_depths` and `rerank_weights` are tried where the
    run has a re-ranker, beside no re-ranking; a weight of null is the one that the model recommends. The values of the
    run's pipelines are tried too, except where a list is empty.
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
    text = HashedLines(path).text()
    try:
        return Grid.model_validate(parse_yaml(text))
    except ValueError as error:
        raise EvaluationError(f"{path}: no grid: {error}") from error


def points(grid: Grid, found: CandidatesReport) -> list[Pipeline]:
    """Returns the run's own pipelines, then those of a grid over its legs and re-rankers; none twice, stages unnamed.

    A leg of the grid is never shallower than the answers, nor deeper than it was asked. A pipeline of the run with a
    shallower leg is left out: the gateway goes on beneath that leg's candidates, and those were not collected. Raises
    EvaluationError for too many points.
    """
    every: dict[str, Pipeline] = {}
    for stages in itertools.chain(_own(found), _combined(grid, found)):
        pipeline = Pipeline(name=f"point-{len(every) + 1}", stages=stages)
        every.setdefault(pipeline.fingerprint, pipeline)
        if len(every) > MOST_POINTS:
            raise EvaluationError(f"the grid has more than {MOST_POINTS} points; leave values out")
    return list(every.values())


def _own(found: CandidatesReport) -> Iterator[tuple[SourceStage | LaterStage, ...]]:
    for pipeline in found.pipelines.values():
        legs = [one.stage for one in pipeline.identified if isinstance(one.stage, Retrieve)]
        if min(leg.top for leg in legs) >= found.top:
            yield tuple(map(_unnamed, pipeline.stages))


def _unnamed(stage: SourceStage | LaterStage) -> SourceStage | LaterStage:
    """Returns a stage without its id and those of its inputs: pipelines of the run call the same stage otherwise."""
    content = {**stage.model_dump(), "id": None}
    if isinstance(stage, Fuse):
        content["inputs"] = tuple(map(_unnamed, stage.inputs))
    return type(stage).model_validate(content)


def _combined(grid: Grid, found: CandidatesReport) -> Iterator[tuple[SourceStage | LaterStage, ...]]:
    tried, settings = _with_own_values(grid, found), _OwnSettings(found)
    for source in _sources(tried, found, settings):
        for rerank in _rerankings(tried, found, settings, source):
            yield (source,) if rerank is None else (source, rerank)


def _with_own_values(grid: Grid, found: CandidatesReport) -> Grid:
    """Adds the values of the run's pipelines, so that no setting of theirs is missing from the combinations."""
    stages = [one.stage for pipeline in found.pipelines.values() for one in pipeline.identified]
    fuses = [one for one in stages if isinstance(one, Fuse)]
    rerankings = [one for one in stages if isinstance(one, Rerank)]
    shares = [one.weights[0] / sum(one.weights) if one.weights else 1 / len(one.inputs) for one in fuses]
    own: dict[str, list[object]] = {
        "leg_depths": [one.top for one in stages if isinstance(one, Retrieve)],
        "k": [one.k for one in fuses if one.method == "rrf"],
        "weights": [round(share, 6) for share in shares],
        "normalisations": [one.normalisation for one in fuses if one.method == "weighted"],
        "rerank_depths": [one.top for one in rerankings],
        "rerank_weights": [one.weight for one in rerankings],
    }
    update = {}
    for field, values in own.items():
        if asked := getattr(grid, field):
            update[field] = tuple(dict.fromkeys((*asked, *values)))
    return grid.model_copy(update=update)


def _sources(grid: Grid, found: CandidatesReport, settings: "_OwnSettings") -> Iterator[Retrieve | Fuse]:
    deepest_rerank = max(grid.rerank_depths, default=0) if found.rerankers else 0
    deepest: dict[tuple[str, str | None, bool], AskedLeg] = {}
    for leg in found.legs:
        key = leg.retrieve.backend, leg.retrieve.preset, leg.retrieve.exact
        known = deepest.setdefault(key, leg)
        if leg.retrieve.top > known.retrieve.top:
            deepest[key] = leg
    for leg in deepest.values():
        yield settings.leg(leg, max(found.top, deepest_rerank), fused=False)
    alternatives: dict[tuple[str, str | None], list[AskedLeg]] = {}
    for (backend, preset, _), leg in deepest.items():
        alternatives.setdefault((backend, preset), []).append(leg)
    if len(alternatives) < 2:
        return
    if len(alternatives) > MOST_INPUTS:
        raise EvaluationError(
            f"the run has legs of {len(alternatives)} backends and presets, and a fusion takes {MOST_INPUTS} at most: "
            "attribute and replay a run of fewer pipelines"
        )
    tops = dict.fromkeys(max(found.top, depth) for depth in grid.leg_depths)
    for chosen, top in itertools.product(itertools.product(*alternatives.values()), tops):
        yield from _fusions(grid, [settings.leg(leg, top, fused=True) for leg in chosen])


def _fusions(grid: Grid, legs: Sequence[Retrieve]) -> Iterator[Fuse]:
    for first in grid.weights:
        weights = (first, *(round((1 - first) / (len(legs) - 1), 6) for _ in legs[1:]))
        for k in grid.k:
            yield Fuse(kind="fuse", method="rrf", k=k, weights=weights, inputs=tuple(legs))
        for normalisation in grid.normalisations:
            yield _weighted(legs, normalisation, weights)


def _weighted(legs: Sequence[Retrieve], normalisation: Normalisation, weights: tuple[float, ...]) -> Fuse:
    return Fuse(kind="fuse", method="weighted", normalisation=normalisation, weights=weights, inputs=tuple(legs))


def _rerankings(
    grid: Grid, found: CandidatesReport, settings: "_OwnSettings", source: Retrieve | Fuse
) -> Iterator[Rerank | None]:
    yield None
    most = source.top if isinstance(source, Retrieve) else sum(one.top for one in _retrieves(source))
    for name in found.rerankers:
        for depth in dict.fromkeys(min(depth, most) for depth in grid.rerank_depths):
            for weight in grid.rerank_weights:
                yield settings.rerank(name, depth, weight, fused=isinstance(source, Fuse))


def _retrieves(source: Fuse) -> list[Retrieve]:
    return [one for one in source.inputs if isinstance(one, Retrieve)]


class _OwnSettings:
    """The stages of the run's pipelines, whose settings the points keep: those of pipelines that fuse, and of others.

    Where several pipelines have a stage, the first counts; where only the other kind has it, that one.
    """

    def __init__(self, found: CandidatesReport) -> None:
        self._legs: dict[tuple[str, bool], Retrieve] = {}
        self._rerankers: dict[tuple[str, bool], Rerank] = {}
        for pipeline in found.pipelines.values():
            fused = isinstance(pipeline.identified.source.stage, Fuse)
            for one in pipeline.identified:
                if isinstance(one.stage, Retrieve):
                    self._legs.setdefault((leg_name(one.stage), fused), one.stage)
                elif isinstance(one.stage, Rerank):
                    self._rerankers.setdefault((reranker_name(one.stage), fused), one.stage)

    def leg(self, leg: AskedLeg, top: int, *, fused: bool) -> Retrieve:
        own = self._legs.get((leg.name, fused)) or self._legs[leg.name, not fused]
        return Retrieve.model_validate({**own.model_dump(), "id": None, "top": min(top, leg.retrieve.top)})

    def rerank(self, name: str, top: int, weight: float | None, *, fused: bool) -> Rerank:
        own = self._rerankers.get((name, fused)) or self._rerankers[name, not fused]
        return Rerank.model_validate({**own.model_dump(), "id": None, "top": top, "weight": weight})
