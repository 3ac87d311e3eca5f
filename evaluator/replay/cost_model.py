"""Estimates the time of a pipeline from measured times of its stages. Pure.

A stage's time is the line of least squares through its medians at the hits or candidates that were measured, without
falling and without a negative start; through zero where only one number was measured. Legs run at once, so only the
slowest counts.
"""

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from evaluator.attribution.collect import leg_name, reranker_name
from services.contracts.pipelines import Cut, Fuse, IdentifiedStage, Pipeline, Rerank, Retrieve, SourceStage

FUSION = "(fusion)"  # no name of a backend


@dataclass(frozen=True, slots=True)
class StageSample:
    """A measured median: of a leg, a re-ranker or fusions (FUSION), at a number of hits or candidates."""

    what: str
    hits: int
    ms: float


@dataclass(frozen=True, slots=True)
class StageWork:
    """What a stage has to do: a leg to find `hits`, a fusion to read them, a re-ranker to score them."""

    stage: str  # its id
    what: str
    hits: int


@dataclass(frozen=True, slots=True)
class LegBounds:
    """What bounds the hits of a leg. `most`: that it gives, by its name. `answer`: that a timed request asks for.

    The gateway asks a retrieve that no other stage reads for no more than the request wants
    (gateway/search/sources.py).
    """

    most: Mapping[str, int]
    answer: int

    def hits(self, stage: Retrieve, *, alone: bool) -> int:
        """Returns the hits that a leg gives at most."""
        asked = min(stage.top, self.answer) if alone else stage.top
        return min(asked, self.most.get(leg_name(stage), asked))


@dataclass(frozen=True, slots=True)
class Line:
    """`start + slope * hits` milliseconds."""

    start: float
    slope: float

    def at(self, hits: int) -> float:
        return self.start + self.slope * hits


@dataclass(frozen=True, slots=True)
class CostModel:
    """Lines by what they estimate."""

    lines: Mapping[str, Line]
    bounds: LegBounds

    def ms(self, pipeline: Pipeline) -> float | None:
        """Returns the estimated milliseconds of a pipeline's stages; None where one of them was not measured."""
        try:
            ms = {one.stage: self.lines[one.what].at(one.hits) for one in stage_work(pipeline, self.bounds)}
        except KeyError:
            return None
        later = [one.id for one in pipeline.identified.later if one.id in ms]
        return _source_ms(pipeline.identified.source, ms) + sum(ms[stage] for stage in later)


def cost_model(samples: Iterable[StageSample], bounds: LegBounds) -> CostModel:
    """Fits a line to each kind of stage."""
    every: dict[str, list[StageSample]] = {}
    for one in samples:
        every.setdefault(one.what, []).append(one)
    return CostModel({what: _line(found) for what, found in every.items()}, bounds)


def stage_work(pipeline: Pipeline, bounds: LegBounds) -> Iterator[StageWork]:
    """Yields what every stage has to do but cuts, which cost nothing.

    A leg gives no more than its bounds allow, a fusion no more than its inputs together, and a re-ranker scores no more
    than reach it. How many documents the inputs of a fusion have in common is not known, so this is an upper bound.
    """
    alone = len(pipeline.stages) == 1
    hits: dict[str, int] = {}
    left = 0
    for one in pipeline.identified:
        match one.stage:
            case Retrieve() as stage:
                left = bounds.hits(stage, alone=alone and one is pipeline.identified.source)
                yield StageWork(one.id, leg_name(stage), left)
            case Fuse():
                left = sum(hits[each.id] for each in one.inputs)
                yield StageWork(one.id, FUSION, left)
            case Cut() as stage:
                left = min(stage.top, left)
            case Rerank() as stage:
                yield StageWork(one.id, reranker_name(stage), min(stage.top, left))
            case _:
                assert_never(one.stage)
        hits[one.id] = left


def arm_samples(pipeline: Pipeline, medians: Mapping[str, float], bounds: LegBounds) -> list[StageSample]:
    """Returns the samples of an arm: its stages' median times, by stage id, at the hits that they had to do with."""
    return [
        StageSample(one.what, one.hits, medians[one.stage])
        for one in stage_work(pipeline, bounds)
        if one.stage in medians
    ]


def _source_ms(one: IdentifiedStage[SourceStage], ms: Mapping[str, float]) -> float:
    return ms[one.id] + max((_source_ms(each, ms) for each in one.inputs), default=0.0)


def _line(samples: Sequence[StageSample]) -> Line:
    by_hits = {
        hits: statistics.median(one.ms for one in samples if one.hits == hits) for hits in {one.hits for one in samples}
    }
    if len(by_hits) == 1:
        [(hits, ms)] = by_hits.items()
        return Line(0.0, ms / hits) if hits else Line(ms, 0.0)
    slope, start = statistics.linear_regression(list(by_hits), list(by_hits.values()))
    if slope < 0:
        return Line(statistics.fmean(by_hits.values()), 0.0)
    if start < 0:
        return Line(0.0, statistics.linear_regression(list(by_hits), list(by_hits.values()), proportional=True).slope)
    return Line(start, slope)
