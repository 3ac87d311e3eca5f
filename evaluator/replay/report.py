"""Defines replay.json and builds it: every point with its quality and cost, the front, and the honest choice. Pure."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import FiniteFloat

from evaluator.replay.choice import FOLDS, Values, best, front, honest_mean
from evaluator.replay.cost_model import CostModel
from evaluator.replay.grid import Grid
from evaluator.runs.run_folder import StepFile
from evaluator.steps.run_judgments import JudgmentsOrigin
from services.contracts.base import Count, Wire
from services.contracts.pipelines import Pipeline

REPLAY = "replay.json"
ROUNDING = 1e-9  # of a mean of the same values


class ReplayedPoint(Wire):
    """A pipeline and what it would have given. `cost_ms`: of its stages, estimated; None: one was never timed."""

    pipeline: Pipeline
    mean: FiniteFloat
    cost_ms: FiniteFloat | None


class RecordedArm(Wire):
    """A pipeline of the run itself: its figure, and its estimated cost, by the same model."""

    mean: FiniteFloat
    cost_ms: FiniteFloat | None


class Choice(Wire):
    """The point of the highest mean, within a bound of cost if one was given.

    `tuned`: its mean over the very queries that it was chosen on. `honest`: the mean over queries that were held out
    when their point was chosen. `agreeing`: of the folds, those that chose this point.
    """

    pipeline: Pipeline
    tuned: FiniteFloat
    honest: FiniteFloat | None  # null: a single query cannot be held out
    folds: Count
    agreeing: Count
    cost_ms: FiniteFloat | None
    within_ms: FiniteFloat | None


class CheckedPoint(Wire):
    """A point that the gateway was asked for too, and the queries that it answered otherwise."""

    pipeline: Pipeline
    queries: Count
    otherwise: tuple[str, ...]


class ReplayReport(StepFile):
    """replay.json. `grid`: as it was asked; values of the run's pipelines were tried too.

    `left_out`: points that need a leg or a score that was not collected, for how many queries.
    """

    schema_version: Literal[1] = 1
    made_from: dict[str, str]
    experiment: str
    dataset: str
    judgments: JudgmentsOrigin  # those that quality.json was measured by
    metric: str
    seed: Count
    queries: Count
    grid: Grid
    times_valid: bool | None  # of the run that the cost model is made from; null: it has no report.json of now
    caches: bool  # of the run: its times may be of cached results
    arms: dict[str, RecordedArm]
    points: tuple[ReplayedPoint, ...]
    left_out: dict[str, Count]  # fingerprint → queries
    front: tuple[Count, ...]  # numbers of points, the cheapest first
    choice: Choice
    checked: tuple[CheckedPoint, ...] = ()

    def better_arms(self) -> list[tuple[str, RecordedArm]]:
        """Returns the pipelines of the run that are better than the choice, and within its bound of cost."""
        bound = self.choice.within_ms
        return [
            (name, arm)
            for name, arm in self.arms.items()
            if arm.mean > self.choice.tuned + ROUNDING
            and (bound is None or (arm.cost_ms is not None and arm.cost_ms <= bound))
        ]


def replay_report(
    *,
    made_from: Mapping[str, str],
    experiment: str,
    dataset: str,
    judgments: JudgmentsOrigin,
    metric: str,
    seed: int,
    grid: Grid,
    pipelines: Sequence[Pipeline],
    values: Values,
    costs: CostModel,
    times_valid: bool | None,
    caches: bool,
    arms: Mapping[str, RecordedArm],
    within_ms: float | None,
    checked: Sequence[CheckedPoint],
) -> ReplayReport | None:
    """Builds the report from the values by point and query. None where no point was collected for all queries."""
    import numpy as np

    missing = np.isnan(values).sum(axis=1)
    whole = [at for at in range(len(pipelines)) if not missing[at]]
    if not whole:
        return None
    means = values[whole].mean(axis=1).tolist()
    found = [
        ReplayedPoint(pipeline=pipelines[at], mean=mean, cost_ms=costs.ms(pipelines[at]))
        for at, mean in zip(whole, means, strict=True)
    ]
    known_ms = [float("inf") if one.cost_ms is None else one.cost_ms for one in found]
    return ReplayReport(
        made_from=dict(made_from),
        experiment=experiment,
        dataset=dataset,
        judgments=judgments,
        metric=metric,
        seed=seed,
        queries=values.shape[1],
        grid=grid,
        times_valid=times_valid,
        caches=caches,
        arms=dict(arms),
        points=tuple(found),
        left_out={pipelines[at].fingerprint: int(count) for at, count in enumerate(missing) if count},
        front=tuple(front(means, known_ms)),
        choice=_choice(found, values[whole], known_ms, seed, within_ms),
        checked=tuple(checked),
    )


def _choice(
    found: Sequence[ReplayedPoint], values: Values, costs_ms: Sequence[float], seed: int, within_ms: float | None
) -> Choice:
    allowed = [at for at, ms in enumerate(costs_ms) if within_ms is None or ms <= within_ms]
    if not allowed:
        allowed = [min(range(len(costs_ms)), key=lambda at: costs_ms[at])]
    means = values[allowed].mean(axis=1).tolist()
    costs = [costs_ms[at] for at in allowed]
    at = best(means, costs)
    count = min(FOLDS, values.shape[1])
    honest, chosen = honest_mean(values[allowed], costs, count, seed)
    point = found[allowed[at]]
    return Choice(
        pipeline=point.pipeline,
        tuned=point.mean,
        honest=None if math.isnan(honest) else honest,
        folds=count,
        agreeing=chosen.count(at),
        cost_ms=point.cost_ms,
        within_ms=within_ms,
    )
