"""Replays all points on all queries of a run, in several processes, and measures the answers.

candidates.jsonl is read once: whatever a replay needs of its lines comes back with the answers.
"""

import multiprocessing
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from evaluator.attribution.candidates import CandidatesReport, QueryCandidates, read_candidates
from evaluator.metrics.quality import Grades, measure
from evaluator.replay.choice import Values
from evaluator.replay.replayed import ReplayedQuery, replay_plan
from services.contracts.pipelines import Pipeline

# Starting a process takes 0.8 s of CPU time, a thousand points on so many queries 2 s.
LEAST_QUERIES = 30


@dataclass(frozen=True, slots=True)
class QueryAnswers:
    """The distinct answers to a query, and the number of each point's; None: a leg or a score was not collected."""

    query: str
    distinct: Sequence[tuple[str, ...]]
    numbers: Sequence[int | None]

    def answer(self, point: int) -> tuple[str, ...] | None:
        """Returns a point's answer."""
        number = self.numbers[point]
        return None if number is None else self.distinct[number]


@dataclass(frozen=True, slots=True)
class ReplayedLine:
    """A line of candidates.jsonl: replayed, and what was recorded. `own`: the gateway's answers to the run's pipelines.

    An answer that was lost is empty. `leg_hits` and `leg_ms`: how many hits each leg gave alone, and how fast.
    """

    replayed: QueryAnswers
    own: QueryAnswers
    leg_hits: Mapping[str, int]
    leg_ms: Mapping[str, float]


def processes_for(queries: int) -> int:
    """Returns how many processes replay a run: one a core, but none for a few queries."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, queries // LEAST_QUERIES))


def replay_all(lines: Path, found: CandidatesReport, pipelines: Sequence[Pipeline], parts: int) -> list[ReplayedLine]:
    """Replays pipelines on every query of candidates.jsonl, in its order. `parts`: processes that share them."""
    if parts == 1:
        return _share(lines, found, pipelines, 0, 1)
    with ProcessPoolExecutor(parts, mp_context=multiprocessing.get_context("spawn")) as pool:
        shares = [pool.submit(_share, lines, found, pipelines, part, parts) for part in range(parts)]
        done = [share.result() for share in shares]
    return [done[at % parts][at // parts] for at in range(sum(map(len, done)))]


def _share(
    lines: Path, found: CandidatesReport, pipelines: Sequence[Pipeline], part: int, parts: int
) -> list[ReplayedLine]:
    plan = replay_plan(pipelines, found.top)
    return [
        ReplayedLine(
            QueryAnswers(line.query, *ReplayedQuery(line).answers(plan)),
            _own_answers(line, found),
            {name: len(one.ranking) for name, one in line.legs.items()},
            line.leg_ms,
        )
        for line in read_candidates(lines, part, parts)
    ]


def _own_answers(line: QueryCandidates, found: CandidatesReport) -> QueryAnswers:
    answers = [line.arms[name].hits[: found.top] for name in found.pipelines]
    return QueryAnswers(line.query, answers, range(len(answers)))


def measured(answers: Sequence[QueryAnswers], judgments: Grades, points: int, metric: str) -> Values:
    """Returns the metric by point and query; NaN where a point was not collected.

    A metric sees the grades of an answer, rank by rank, and no ids: of the answers to a query that have the same grades
    in the same places one is measured.
    """
    rankings: dict[str, tuple[str, ...]] = {}
    grades: dict[str, Mapping[str, int]] = {}
    names: list[list[str]] = []  # by query and distinct answer
    for at, one in enumerate(answers):
        judged = judgments.get(one.query, {})
        alike: dict[tuple[int | None, ...], str] = {}
        names.append([])
        for answer in one.distinct:
            name = alike.setdefault(tuple(map(judged.get, answer)), f"{at} {len(alike)}")
            rankings.setdefault(name, answer)
            grades[name] = judged
            names[at].append(name)
    found = measure(grades, rankings, list(rankings), [metric])[metric]
    import numpy as np

    values = np.full((points, len(answers)), np.nan)
    for at, one in enumerate(answers):
        own = np.array([*(found[name] or 0.0 for name in names[at]), np.nan])
        values[:, at] = own[[-1 if number is None else number for number in one.numbers]]
    return values
