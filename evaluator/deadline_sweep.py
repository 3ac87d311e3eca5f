"""Measures the cost of shorter deadlines: sends every query at every deadline, and reports quality and share in time.

A late or missing answer counts as an empty ranking, as it is for a caller with that deadline.
"""

import asyncio
from collections.abc import Sequence

from pydantic import FiniteFloat

from evaluator.arms import Arm, resolve_arms, search_request
from evaluator.client import GatewayClient, GatewayError, TimedAnswer
from evaluator.corpus_check import expect_same_corpus
from evaluator.datasets.reader import Dataset
from evaluator.errors import EvaluationError
from evaluator.experiment import Experiment
from evaluator.progress import progress
from evaluator.quality import means, measure
from evaluator.rank import choose_queries
from evaluator.turn_orders import query_turns
from services.contracts.base import Count, Wire
from services.contracts.pipelines import Rerank
from services.contracts.query import SearchAnswer

METRIC = "nDCG@10"


class AtDeadline(Wire):
    """Figures of one deadline. `scored`: mean number of candidates that the re-ranking of an answer scored."""

    deadline_ms: Count
    queries: Count
    in_time: FiniteFloat  # share of the queries
    ndcg_at_10: FiniteFloat
    scored: FiniteFloat
    degraded: Count  # answers in time with a degradation
    lost: Count  # no answer at all
    slowest_ms: FiniteFloat | None


class DeadlineReport(Wire):
    """Figures of one pipeline over one collection, by deadline."""

    pipeline: str
    fingerprint: str
    collection: str
    models: tuple[str, ...]
    deadlines: tuple[AtDeadline, ...]


async def sweep(
    client: GatewayClient, experiment: Experiment, dataset: Dataset, deadlines_ms: Sequence[int]
) -> tuple[DeadlineReport, ...]:
    """Returns one report a pipeline of the experiment; its collection must hold this corpus. Raises EvaluationError.

    Sends one query at a time, the deadlines in turn, so that foreign load affects all of them alike.
    """
    view = await client.collection(experiment.target)
    if view.live is None:
        raise EvaluationError(f"{experiment.target} has no published generation; ingest it first")
    await expect_same_corpus(client, experiment, dataset, view)
    return tuple(
        [
            await _swept(client, experiment, dataset, arm, deadlines_ms)
            for arm in await resolve_arms(client, experiment, view)
        ]
    )


async def _swept(
    client: GatewayClient, experiment: Experiment, dataset: Dataset, arm: Arm, deadlines_ms: Sequence[int]
) -> DeadlineReport:
    queries, warmup = choose_queries(list(dataset.judgments), list(dataset.queries), experiment)
    warm = [await _answer(client, experiment, arm, dataset, query, max(deadlines_ms)) for query in warmup]
    if warm and all(isinstance(one, GatewayError) for one in warm):
        raise EvaluationError(
            f"pipeline {arm.name}: no warm-up query was answered within {max(deadlines_ms)} ms, so there is nothing to "
            f"compare: {warm[-1]}"
        )
    answers: list[dict[str, TimedAnswer | GatewayError]] = [{} for _ in deadlines_ms]
    with progress(f"{arm.name} at {len(deadlines_ms)} deadlines", len(queries) * len(deadlines_ms), "queries") as done:
        for number, query in query_turns(queries, len(deadlines_ms), experiment.seed):
            answers[number][query] = await _answer(client, experiment, arm, dataset, query, deadlines_ms[number])
            done(1)
    every = [timed.answer for of_one in answers for timed in of_one.values() if isinstance(timed, TimedAnswer)]
    figures = [
        await asyncio.to_thread(at_deadline, arm, dataset, queries, deadline_ms, of_one)
        for deadline_ms, of_one in zip(deadlines_ms, answers, strict=True)
    ]
    return DeadlineReport(
        pipeline=arm.name,
        fingerprint=arm.pipeline.fingerprint,
        collection=", ".join(sorted({answer.collection for answer in every})),
        models=tuple(sorted({model for answer in every for model in answer.models.values()})),
        deadlines=tuple(figures),
    )


async def _answer(
    client: GatewayClient, experiment: Experiment, arm: Arm, dataset: Dataset, query: str, deadline_ms: int
) -> TimedAnswer | GatewayError:
    """Returns the answer, or why there is none. Raises EvaluationError for a request that the gateway refuses."""
    request = search_request(arm, dataset, query, experiment.depth)
    try:
        return await client.search(experiment.target, request, deadline_ms)
    except GatewayError as error:
        if 400 <= error.status < 500 and error.status != 429:
            raise EvaluationError(f"pipeline {arm.name}: {error}") from error
        return error


def at_deadline(
    arm: Arm, dataset: Dataset, queries: Sequence[str], deadline_ms: int, answers: dict[str, TimedAnswer | GatewayError]
) -> AtDeadline:
    """Computes the figures of the answers to `queries` at one deadline."""
    given = {query: timed for query, timed in answers.items() if isinstance(timed, TimedAnswer)}
    in_time = {query: timed.answer for query, timed in given.items() if timed.latency_ms <= deadline_ms}
    rankings = {query: tuple(hit.id for hit in answer.hits) for query, answer in in_time.items()}
    reranks = {item.id: item.stage.top for item in arm.pipeline.identified if isinstance(item.stage, Rerank)}
    return AtDeadline(
        deadline_ms=deadline_ms,
        queries=len(queries),
        in_time=len(in_time) / len(queries),
        ndcg_at_10=means(measure(dataset.judgments, rankings, queries, (METRIC,)))[METRIC] or 0.0,
        scored=sum(_scored(answer, reranks) for answer in in_time.values()) / max(1, len(in_time)),
        degraded=sum(bool(answer.degraded) for answer in in_time.values()),
        lost=len(queries) - len(given),
        slowest_ms=max((timed.latency_ms for timed in given.values()), default=None),
    )


def _scored(answer: SearchAnswer, reranks: dict[str, int]) -> int:
    """Counts candidates scored in all rerank stages: the number in a degradation, else `top`, at most the hits."""
    flagged = {one.stage: one.done for one in answer.degraded}
    return sum(flagged.get(stage, min(top, len(answer.hits))) for stage, top in reranks.items())


def render_deadlines(report: DeadlineReport) -> str:
    """Renders a Markdown table of a report."""
    lines = [
        f"{report.pipeline} over {report.collection}, {', '.join(report.models) or 'no model'}",
        "",
        "| deadline ms | in time | nDCG@10 | scored | degraded | lost | slowest ms |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for one in report.deadlines:
        slowest = "" if one.slowest_ms is None else f"{one.slowest_ms:.0f}"
        lines.append(
            f"| {one.deadline_ms} | {one.in_time:.2%} | {one.ndcg_at_10:.4f} | {one.scored:.1f} "
            f"| {one.degraded} | {one.lost} | {slowest} |"
        )
    return "\n".join(lines)
