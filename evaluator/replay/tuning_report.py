"""Defines replay.json and builds it: each pipeline that was tried with its figure, and the honest choice. Pure."""

import math
from collections.abc import Sequence
from typing import Literal

from pydantic import FiniteFloat

from evaluator.replay.choice import FOLDS, Values, best, honest_mean
from evaluator.replay.points import VariedPipeline
from evaluator.runs.run_folder import StepFile
from evaluator.steps.run_judgments import JudgmentsOrigin
from services.contracts.base import Count, Wire
from services.contracts.pipelines import Pipeline

REPLAY = "replay.json"


class ReplayedPoint(Wire):
    """A pipeline of the run with its own or other settings, and its mean. `arm`: the pipeline's name in the run."""

    arm: str
    pipeline: Pipeline
    mean: FiniteFloat


class Choice(Wire):
    """The point of the highest mean.

    `tuned`: its mean over the very queries that it was chosen on. `honest`: the mean over queries that were held out
    when their point was chosen. `agreeing`: of the folds, those that chose this point.
    """

    pipeline: Pipeline
    tuned: FiniteFloat
    honest: FiniteFloat | None  # null: a single query cannot be held out
    folds: Count
    agreeing: Count


class ReplayReport(StepFile):
    """replay.json.

    `arms`: the figures of the gateway's own answers, by pipeline of the run. `left_out`: points that need a leg or a
    score that was not collected, for how many queries.
    """

    schema_version: Literal[2] = 2
    made_from: dict[str, str]
    experiment: str
    dataset: str
    judgments: JudgmentsOrigin  # those that quality.json was measured by
    metric: str
    seed: Count
    queries: Count
    arms: dict[str, FiniteFloat]
    points: tuple[ReplayedPoint, ...]
    left_out: dict[str, Count]  # fingerprint → queries
    choice: Choice

    def best_of(self, arm: str) -> ReplayedPoint | None:
        """Returns the best point of a pipeline of the run; None where all of its points are left out."""
        points = [point for point in self.points if point.arm == arm]
        return points[best([point.mean for point in points])] if points else None


def tried_points(
    varied: Sequence[VariedPipeline], values: Values, seed: int
) -> tuple[tuple[ReplayedPoint, ...], dict[str, int], Choice | None]:
    """Returns the points that were collected for all queries, the others with their lost queries, and the choice.

    `values`: by pipeline and query, NaN where something was not collected. No choice where no point is whole.
    """
    import numpy as np

    missing = np.isnan(values).sum(axis=1).tolist()
    left_out = {varied[at].pipeline.fingerprint: count for at, count in enumerate(missing) if count}
    whole = [at for at, count in enumerate(missing) if not count]
    if not whole:
        return (), left_out, None
    points = tuple(
        ReplayedPoint(arm=varied[at].arm, pipeline=varied[at].pipeline, mean=float(values[at].mean())) for at in whole
    )
    chosen = best([point.mean for point in points])
    count = min(FOLDS, values.shape[1])
    honest, of_folds = honest_mean(values[whole], count, seed)
    return (
        points,
        left_out,
        Choice(
            pipeline=points[chosen].pipeline,
            tuned=points[chosen].mean,
            honest=None if math.isnan(honest) else honest,
            folds=count,
            agreeing=of_folds.count(chosen),
        ),
    )
