"""Estimates the time of a pipeline from measured times of its stages. Pure.

A leg's time is a line through its medians at the depths that were measured, never falling with depth. A re-ranker's is
proportional to its candidates, a fusion's to the hits of its inputs. Legs run at once, so only the slowest counts.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from evaluator.attribution.collect import leg_name
from services.contracts.pipelines import Fuse, IdentifiedStage, Pipeline, Rerank, Retrieve, SourceStage


@dataclass(frozen=True, slots=True)
class StageSample:
    """A measured median: of a leg, a re-ranker or fusions (`fuse`), at a number of hits or candidates."""

    what: str
    hits: int
    ms: float


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

    def ms(self, pipeline: Pipeline) -> float | None:
        """Returns the estimated milliseconds of a pipeline's stages; None where one of them was not measured."""
        try:
            source, hits = self._source(pipeline.identified.source)
            later = sum(
                self.lines[one.stage.backend].at(min(one.stage.top, hits))
                for one in pipeline.identified.later
                if isinstance(one.stage, Rerank)
            )
        except KeyError:
            return None
        return source + later

    def _source(self, one: IdentifiedStage[SourceStage]) -> tuple[float, int]:
        """Returns milliseconds, and the most hits that a source gives."""
        if isinstance(one.stage, Retrieve):
            return self.lines[leg_name(one.stage)].at(one.stage.top), one.stage.top
        inputs = [self._source(each) for each in one.inputs]
        hits = sum(count for _, count in inputs)
        return max(ms for ms, _ in inputs) + self.lines["fuse"].at(hits), hits


def cost_model(samples: Iterable[StageSample]) -> CostModel:
    """Fits a line to each kind of stage."""
    every: dict[str, list[StageSample]] = {}
    for one in samples:
        every.setdefault(one.what, []).append(one)
    return CostModel({what: _line(found) for what, found in every.items()})


def _line(samples: Sequence[StageSample]) -> Line:
    by_hits = {
        hits: statistics.median(one.ms for one in samples if one.hits == hits) for hits in {one.hits for one in samples}
    }
    if len(by_hits) == 1:
        [(hits, ms)] = by_hits.items()
        return Line(0.0, ms / hits)
    low, high = min(by_hits), max(by_hits)
    slope = max(0.0, (by_hits[high] - by_hits[low]) / (high - low))
    return Line(max(0.0, by_hits[low] - slope * low), slope)


def arm_samples(pipeline: Pipeline, medians: Mapping[str, float]) -> list[StageSample]:
    """Returns the samples of an arm: its stages' median times at its depths."""
    found, hits = [], {}
    for one in pipeline.identified:
        match one.stage:
            case Retrieve() as stage:
                what, hits[one.id] = leg_name(stage), stage.top
            case Fuse():
                what, hits[one.id] = "fuse", sum(hits[each.id] for each in one.inputs)
            case Rerank() as stage:
                what, hits[one.id] = stage.backend, stage.top
            case _:
                continue
        if one.id in medians:
            found.append(StageSample(what, hits[one.id], medians[one.id]))
    return found
