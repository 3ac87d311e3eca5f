"""Varies a run's pipelines: weights and normalisation of fusions, depth and weight of re-rankings. Pure."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import get_args

from evaluator.errors import EvaluationError
from services.contracts.pipelines import Fuse, LaterStage, Pipeline, Rerank, Retrieve, SourceStage
from services.ranking.fusion import Normalisation

TENTHS = 10  # of weight, that the inputs of a fusion share
NORMALISATIONS: tuple[Normalisation, ...] = get_args(Normalisation)
DEPTHS = (10, 20, 50, 100)  # of re-ranking
DEFAULT_K = 60  # of reciprocal ranks; a fusion by scores has none other (services/contracts/pipelines.py)
MIXES = (None, 0.5, 1.0)  # weights of a re-ranker; None: the one that its model recommends
MOST_POINTS = 20_000


@dataclass(frozen=True, slots=True)
class VariedPipeline:
    """A pipeline with its own settings or with others. `arm`: its name in the run."""

    arm: str
    pipeline: Pipeline


def varied_pipelines(pipelines: Mapping[str, Pipeline], top: int) -> list[VariedPipeline]:
    """Returns each pipeline of a run as it is, then with every combination of other settings; none twice.

    The fusion that a pipeline begins with is varied, and each of its re-rankings. All else stays as it is, the inputs
    of the fusion too. `top`: hits of an answer. A pipeline with a leg shallower than that is left out: the gateway goes
    on beneath that leg's candidates, and those were not collected. Raises EvaluationError for too many points.
    """
    points: dict[str, VariedPipeline] = {}
    for arm, pipeline in pipelines.items():
        if min(stage.stage.top for stage in pipeline.identified if isinstance(stage.stage, Retrieve)) < top:
            continue
        for stages in itertools.product(*map(_variants, pipeline.stages)):
            varied = Pipeline(name=pipeline.name, stages=stages)
            points.setdefault(varied.fingerprint, VariedPipeline(arm, varied))
            if len(points) > MOST_POINTS:
                raise EvaluationError(
                    f"the settings of these pipelines have more than {MOST_POINTS} combinations: attribute and replay "
                    "a run of fewer pipelines"
                )
    return list(points.values())


def _variants(stage: SourceStage | LaterStage) -> Iterator[SourceStage | LaterStage]:
    """Yields a stage as it is, then with other settings; shallower re-rankings come first."""
    yield stage
    match stage:
        case Fuse():
            for weights in _shares(len(stage.inputs)):
                rrf = {"method": "rrf", "k": stage.k, "normalisation": "min-max", "weights": weights}
                yield stage.model_copy(update=rrf)
                for normalisation in NORMALISATIONS:
                    weighted = {"method": "weighted", "k": DEFAULT_K, "normalisation": normalisation}
                    yield stage.model_copy(update={**weighted, "weights": weights})
        case Rerank():
            for depth, weight in itertools.product(DEPTHS, MIXES):
                yield stage.model_copy(update={"top": depth, "weight": weight})


def _shares(inputs: int) -> Iterator[tuple[float, ...]]:
    """Yields every way to share the weight in tenths, so that each input has at least one."""
    for cuts in itertools.combinations(range(1, TENTHS), inputs - 1):
        yield tuple((end - start) / TENTHS for start, end in itertools.pairwise((0, *cuts, TENTHS)))
