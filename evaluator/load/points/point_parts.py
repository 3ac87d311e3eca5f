"""Computes figures of parts of a point's requests: by the length of the query, by step of changing rates. Pure."""

from collections.abc import Mapping, Sequence

from pydantic import ConfigDict, FiniteFloat

from evaluator.experiments.load_plan import TrafficStep
from evaluator.load.points.figures import load_percentiles
from evaluator.load.points.quality import mean_ndcg
from evaluator.load.sending.samples import LoadSample
from evaluator.metrics.quality import Grades
from evaluator.runs.latency import Timed
from services.contracts.base import Count, Wire

# The least number of words of each slice.
STEPS = (1, 4, 8, 16)


class LengthSlice(Wire):
    """Figures of the requests whose queries have so many words (separated by white space)."""

    model_config = ConfigDict(revalidate_instances="always")

    words: str  # `4 to 7`
    queries: Count
    requests: Count
    p50_ms: Timed
    p95_ms: Timed
    ndcg_at_10: FiniteFloat | None


def length_slices(
    samples: Sequence[LoadSample], words: Mapping[str, int], judgments: Grades
) -> tuple[LengthSlice, ...]:
    """Returns the slices that have requests, the shortest queries first. `words`: by query."""
    found = []
    for least, next_least in zip(STEPS, (*STEPS[1:], None), strict=True):
        members = [
            one
            for one in samples
            if words[one.query] >= least and (next_least is None or words[one.query] < next_least)
        ]
        if members:
            times = load_percentiles([one.counted_ms for one in members])
            found.append(
                LengthSlice(
                    words=f"{least} or more" if next_least is None else f"{least} to {next_least - 1}",
                    queries=len({one.query for one in members}),
                    requests=len(members),
                    p50_ms=times.p50,
                    p95_ms=times.p95,
                    ndcg_at_10=mean_ndcg(judgments, members),
                )
            )
    return tuple(found)


class StepFigures(Wire):
    """Figures of the requests that were planned within a step, over all repeats."""

    model_config = ConfigDict(revalidate_instances="always")

    step: str  # `10/s`, or `10 to 50/s`
    begin_s: FiniteFloat  # since the end of the warm-up
    seconds: FiniteFloat  # of one repeat
    requests: Count
    degraded: Count  # of those answered in time
    goodput: FiniteFloat  # answers in time a second
    p50_ms: Timed
    p95_ms: Timed
    ndcg_at_10: FiniteFloat | None  # late, failed and dropped requests count as 0


def step_figures(
    steps: Sequence[TrafficStep], warmup_s: float, repeats: int, samples: Sequence[LoadSample], judgments: Grades
) -> tuple[StepFigures, ...]:
    """Returns the figures of each step in order, the first of which follows the warm-up. `samples`: of one pipeline."""
    found, begin_s = [], warmup_s
    for step in steps:
        end_s = begin_s + step.seconds
        members = [one for one in samples if begin_s <= one.planned_s < end_s]
        in_time = [one for one in members if one.outcome == "answered"]
        times = load_percentiles([one.counted_ms for one in members])
        found.append(
            StepFigures(
                step=f"{step.rate:g}/s" if step.to is None else f"{step.rate:g} to {step.to:g}/s",
                begin_s=begin_s - warmup_s,
                seconds=step.seconds,
                requests=len(members),
                degraded=sum(bool(one.degraded) for one in in_time),
                goodput=len(in_time) / step.seconds / repeats,
                p50_ms=times.p50,
                p95_ms=times.p95,
                ndcg_at_10=mean_ndcg(judgments, members),
            )
        )
        begin_s = end_s
    return tuple(found)
