"""Measures nDCG@10 of the answers that were timed, over requests, by `evaluator.quality`."""

import math
from collections.abc import Mapping, Sequence

from pydantic import FiniteFloat

from evaluator.load.samples import LoadSample
from evaluator.quality import Grades, measure
from services.contracts.base import Wire

METRIC = "nDCG@10"


class AnswerQuality(Wire):
    """Quality of the requests of a point, each as it was answered."""

    ndcg_at_10: FiniteFloat | None  # late, failed and dropped requests count as 0; null without requests
    degraded_share: FiniteFloat  # of the answers in time
    reranked: FiniteFloat | None  # mean number of candidates re-ranked an answer in time; null: nothing re-ranks


def answer_quality(judgments: Grades, samples: Sequence[LoadSample], reranks: Mapping[str, int]) -> AnswerQuality:
    """Returns the quality. `reranks`: candidates that the pipeline re-ranks, by stage."""
    in_time = [sample for sample in samples if sample.outcome == "answered"]
    return AnswerQuality(
        ndcg_at_10=_mean_over_requests(judgments, samples),
        degraded_share=sum(bool(sample.degraded) for sample in in_time) / max(1, len(in_time)),
        reranked=_mean_reranked(in_time, reranks),
    )


def _mean_over_requests(judgments: Grades, samples: Sequence[LoadSample]) -> float | None:
    return math.fsum(request_values(judgments, samples)) / len(samples) if samples else None


def request_values(judgments: Grades, samples: Sequence[LoadSample]) -> list[float]:
    """Returns nDCG@10 of each request. Equal rankings of one query are measured once."""
    shown = [(sample.query, sample.ids if sample.outcome == "answered" else ()) for sample in samples]
    # One name for each ranking of a query, because `measure` takes one ranking a query.
    names = {key: str(number) for number, key in enumerate(dict.fromkeys(shown))}
    values = measure(
        {name: judgments[query] for (query, _), name in names.items()},
        {name: ranking for (_, ranking), name in names.items()},
        list(names.values()),
        (METRIC,),
    )[METRIC]
    return [values[names[key]] or 0.0 for key in shown]


def _mean_reranked(in_time: Sequence[LoadSample], reranks: Mapping[str, int]) -> float | None:
    if not reranks or not in_time:
        return None
    done = 0
    for sample in in_time:
        flagged = {one.stage: one.done for one in sample.degraded}
        done += sum(flagged.get(stage, top) for stage, top in reranks.items())
    return done / len(in_time)
