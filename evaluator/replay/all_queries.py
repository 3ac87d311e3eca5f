"""Replays all points on all queries of a run, in as many processes as there are cores, and measures the answers."""

import multiprocessing
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evaluator.attribution.candidates import read_candidates
from evaluator.quality import Grades, measure
from evaluator.replay.choice import Values
from evaluator.replay.replayed import replayed
from services.contracts.pipelines import Pipeline


@dataclass(frozen=True, slots=True)
class QueryAnswers:
    """The distinct answers to a query, and the number of each point's; None: a leg or a score was not collected."""

    query: str
    distinct: list[tuple[str, ...]]
    numbers: list[int | None]

    def answer(self, point: int) -> tuple[str, ...] | None:
        """Returns a point's answer."""
        number = self.numbers[point]
        return None if number is None else self.distinct[number]


def replay_all(lines: Path, pipelines: Sequence[Pipeline], top: int) -> list[QueryAnswers]:
    """Returns the answers to every query of candidates.jsonl, in its order."""
    parts = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if parts == 1:
        return _share(lines, pipelines, top, 0, 1)
    with ProcessPoolExecutor(parts, mp_context=multiprocessing.get_context("spawn")) as pool:
        shares = [pool.submit(_share, lines, pipelines, top, part, parts) for part in range(parts)]
        found = [share.result() for share in shares]
    return [found[at % parts][at // parts] for at in range(sum(map(len, found)))]


def _share(lines: Path, pipelines: Sequence[Pipeline], top: int, part: int, parts: int) -> list[QueryAnswers]:
    return [QueryAnswers(line.query, *replayed(line, pipelines, top)) for line in read_candidates(lines, part, parts)]


def measured(answers: Sequence[QueryAnswers], judgments: Grades, points: int, metric: str) -> Values:
    """Returns the metric by point and query; NaN where a point was not collected.

    Most points give a query the same few answers, so each distinct one is measured once.
    """
    names = {f"{at} {number}": (at, number) for at, one in enumerate(answers) for number in range(len(one.distinct))}
    rankings = {name: answers[at].distinct[number] for name, (at, number) in names.items()}
    grades: Mapping[str, Mapping[str, int]] = {
        name: judgments.get(answers[at].query, {}) for name, (at, _) in names.items()
    }
    found = measure(grades, rankings, list(names), [metric])[metric]
    values = np.full((points, len(answers)), np.nan)
    for at, one in enumerate(answers):
        own = [found[f"{at} {number}"] or 0.0 for number in range(len(one.distinct))]
        for point, number in enumerate(one.numbers):
            if number is not None:
                values[point, at] = own[number]
    return values
