"""Sends every query through every arm, one at a time: quality and latency come from the same answers."""

import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Literal

from pydantic import ValidationError

from evaluator.answers import AnswerRecord, read_answers
from evaluator.arms import Arm, search_request
from evaluator.client import GatewayClient, GatewayError
from evaluator.datasets.reader import Dataset
from evaluator.errors import EvaluationError
from evaluator.experiment import Experiment
from evaluator.progress import progress
from evaluator.run_folder import RunFolder
from evaluator.trec_runs import run_lines
from services.contracts.base import Count, Wire
from services.contracts.pipelines import Pipeline
from services.contracts.query import SearchAnswer, SearchRequest

# A timeout costs a minute: after this many in a row an arm's other queries count as lost.
MAX_TIMEOUTS_IN_A_ROW = 5


class RankedArm(Wire):
    """One arm of a run."""

    name: str
    fingerprint: str  # of the pipeline that was sent, preset included; of the file of an imported arm
    preset: str | None
    pipeline: Pipeline | None  # None: imported


class RankReport(Wire):
    """Queries and arms of a run. Metrics follow the order of `queries`."""

    queries: tuple[str, ...]
    warmup: tuple[str, ...]
    arms: tuple[RankedArm, ...]
    depth: Count


def choose_queries(judged: Sequence[str], every: Sequence[str], experiment: Experiment) -> tuple[list[str], list[str]]:
    """Returns the queries to measure (all judged ones or a seeded sample, in file order) and the warm-up queries.

    Warm-up queries differ from the measured ones where possible, so that no cache holds the measured ones.
    """
    dice = random.Random(experiment.seed)
    measured = list(judged)
    if experiment.queries is not None and experiment.queries < len(measured):
        drawn = frozenset(dice.sample(sorted(measured), experiment.queries))
        measured = [query for query in measured if query in drawn]
    taken = frozenset(measured)
    others = sorted(query for query in every if query not in taken)
    pool = others if len(others) >= experiment.warmup else others + sorted(measured)
    return measured, dice.sample(pool, min(experiment.warmup, len(pool)))


def interleaved(queries: Sequence[str], arms: int) -> Iterator[tuple[int, str]]:
    """Yields (arm, query) for every pair, the arms in turn, so that foreign load affects all arms alike.

    Every other turn runs backwards (ABBA), so that no arm always follows the same one; the arms are at different places
    in the list of queries, so that no arm profits from cache entries that another has just made.
    """
    n = len(queries)
    for turn in range(n):
        order = range(arms) if turn % 2 == 0 else range(arms - 1, -1, -1)
        for arm in order:
            yield arm, queries[(turn + arm * n // arms) % n]


async def rank(
    client: GatewayClient,
    experiment: Experiment,
    arms: Sequence[Arm],
    dataset: Dataset,
    folder: RunFolder,
) -> RankReport:
    """Warms every arm up, measures, and writes `answers/<arm>.jsonl` and `runs/<arm>.trec`.

    A failed query is recorded, never retried and never fatal. But an arm that the gateway refuses as such (unknown
    stage or preset, inline pipelines switched off) raises EvaluationError before anything is measured.
    """
    for arm in arms:
        await _preflight(client, experiment, arm)
    measured, warmup = choose_queries(list(dataset.judgments), list(dataset.queries), experiment)
    walk = interleaved(measured, len(arms))
    with ExitStack() as files:
        answers = [files.enter_context(folder.answers(arm.name).open("w", encoding="utf-8")) for arm in arms]
        with progress("Warming up", len(warmup) * len(arms), "queries") as advance:
            for number, query in [(number, query) for query in warmup for number in range(len(arms))]:
                record = await _run_query(client, experiment, arms[number], query, dataset, "warmup")
                answers[number].write(record.line)
                advance(1)
        timeouts = [0] * len(arms)
        with progress("Ranking", len(measured) * len(arms), "queries") as advance:
            for number, query in walk:
                arm = arms[number]
                if timeouts[number] >= MAX_TIMEOUTS_IN_A_ROW:
                    detail = f"not sent: {MAX_TIMEOUTS_IN_A_ROW} queries in a row had timed out"
                    record = AnswerRecord(query=query, phase="measured", error="abandoned", detail=detail)
                else:
                    record = await _run_query(client, experiment, arm, query, dataset, "measured")
                    timeouts[number] = timeouts[number] + 1 if record.error == "timeout" else 0
                answers[number].write(record.line)
                advance(1)
    for arm in arms:
        write_run_file(folder, arm.name)
    report = RankReport(
        queries=tuple(measured),
        warmup=tuple(warmup),
        arms=tuple(
            RankedArm(name=arm.name, fingerprint=arm.pipeline.fingerprint, preset=arm.preset, pipeline=arm.pipeline)
            for arm in arms
        ),
        depth=experiment.depth,
    )
    folder.write("rank.json", report)
    return report


def write_run_file(folder: RunFolder, arm: str) -> None:
    """Writes `runs/<arm>.trec` from the answers to the measured queries, in their order."""
    with folder.run_file(arm).open("w", encoding="utf-8", newline="\n") as file:
        for record in read_answers(folder.answers(arm)):
            if record.phase == "measured":
                file.write(run_lines(record.query, record.ids, arm))


async def _preflight(client: GatewayClient, experiment: Experiment, arm: Arm) -> None:
    request = SearchRequest(query="can this pipeline run", pipeline=arm.asked, top=1)
    try:
        await client.search(experiment.target, request)
    except GatewayError as error:
        if 400 <= error.status < 500 and error.status != 429:
            raise EvaluationError(f"pipeline {arm.name}: {error}") from error
        # Other errors may be temporary; if not, every query records them.


async def _run_query(
    client: GatewayClient,
    experiment: Experiment,
    arm: Arm,
    query: str,
    dataset: Dataset,
    phase: Literal["warmup", "measured"],
) -> AnswerRecord:
    excluded = query in dataset.self_retrieved
    record = AnswerRecord(query=query, phase=phase, excluded_self=excluded)
    try:
        request = search_request(arm, experiment, dataset, query)
    except ValidationError as error:
        return record.model_copy(update={"error": "invalid_query", "detail": error.errors()[0]["msg"]})
    try:
        timed = await client.search(experiment.target, request)
        ranking = _ranking(timed.answer, experiment.depth, request.exclude_ids)
    except GatewayError as error:
        return record.model_copy(update={"error": error.kind, "detail": str(error)})
    answer = timed.answer
    answered = {
        "latency_ms": timed.latency_ms,
        "ranking": ranking,
        "timings_ms": answer.timings_ms,
        "degraded": answer.degraded,
        "models": answer.models,
        "request_id": answer.request_id,
        "generation": answer.collection,
        "fingerprint": answer.pipeline.fingerprint,
    }
    return record.model_copy(update=answered)


def _ranking(answer: SearchAnswer, depth: int, excluded: Sequence[str]) -> tuple[tuple[str, float], ...]:
    """Returns (id, score) pairs, best first. Raises GatewayError for an answer that violates the contract."""
    ids = {hit.id for hit in answer.hits}
    if len(ids) < len(answer.hits) or len(answer.hits) > depth or ids & set(excluded):
        raise GatewayError("bad_answer", "the answer repeats a document, is too long, or holds an excluded one")
    return tuple((hit.id, hit.score) for hit in answer.hits)
