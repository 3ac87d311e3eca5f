"""Computes figures from scored answers under any conventions of evaluation. Pure apart from ranx."""

import ctypes
from collections.abc import Sequence

from evaluator.datasets.reader import Dataset
from evaluator.metrics.quality import means, measure
from evaluator.parity.answers import DEPTH, Answers, ScoredHits
from evaluator.parity.figure_settings import FigureSettings
from evaluator.parity.published import METRICS


def figures(dataset: Dataset, answers: Answers, settings: FigureSettings) -> dict[str, float]:
    """Returns the mean of each metric over the queries that `settings.missing` counts; 0 when it counts none."""
    rankings = {query: ranking(hits, query, dataset, settings) for query, hits in answers.items()}
    counted = [query for query in answers if settings.missing == "counted as 0" or rankings[query]]
    measured = means(measure(dataset.judgments, rankings, counted, METRICS)) if counted else {}
    return {metric: measured.get(metric) or 0.0 for metric in METRICS}


def ranking(hits: ScoredHits, query: str, dataset: Dataset, settings: FigureSettings) -> tuple[str, ...]:
    """Returns the ids of an answer in the order, at the depth, and without the documents that `settings` say."""
    ordered: Sequence[tuple[str, float]] = hits
    if settings.ties == "descending":
        # As trec_eval, which reads scores as float32. Sorting is stable: first by id, then by score.
        ordered = sorted(sorted(hits, reverse=True), key=lambda hit: -_float32(hit[1]))
    kept = [name for name, _ in ordered[: settings.depth]]
    match settings.self_retrieved:
        case "kept":
            return tuple(kept)
        case "same id":
            return tuple(name for name in kept if name != query)
        case "same id and text":
            return tuple(name for name in kept if name != query or query not in dataset.self_retrieved)


def undecided_ties(answers: Answers) -> int:
    """Counts full answers whose tenth score is also their last: more documents may tie with it than were answered."""
    return sum(len(hits) == DEPTH and hits[9][1] == hits[-1][1] for hits in answers.values())


def _float32(score: float) -> float:
    return ctypes.c_float(score).value
