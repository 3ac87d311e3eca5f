"""Sends every query through every arm, one at a time: quality and latency come from the same answers."""

import random
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Literal, NamedTuple

from pydantic import ValidationError

from evaluator.answers import AnswerRecord, read_answers
from evaluator.arms import Arm, search_request
from evaluator.client import GatewayClient, GatewayError
from evaluator.datasets.reader import Dataset
from evaluator.errors import EvaluationError
from evaluator.experiment import Experiment
from evaluator.machine_conditions import MachineCounters
from evaluator.measured_processes import measured_processes
from evaluator.progress import progress
from evaluator.resume import arm_progress, timeouts_in_a_row
from evaluator.run_folder import CONDITIONS, RunFolder, StepFile, writable
from evaluator.timing_validity import ConditionsLog
from evaluator.trec_runs import run_lines
from evaluator.turn_orders import query_turns
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


class RankReport(StepFile):
    """rank.json, the last file of the step: queries and arms of a run. Metrics follow the order of `queries`."""

    made_from: dict[str, str]
    queries: tuple[str, ...]
    warmup: tuple[str, ...]
    arms: tuple[RankedArm, ...]
    depth: Count
    # Of the collection with those of the corpus, before the first query; null where no gateway was asked.
    compared_documents: Count | None


class ChosenQueries(NamedTuple):
    """Ids of the queries to measure and of those to warm up with."""

    measured: list[str]
    warmup: list[str]


def choose_queries(judged: Sequence[str], every: Sequence[str], experiment: Experiment) -> ChosenQueries:
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
    return ChosenQueries(measured, dice.sample(pool, min(experiment.warmup, len(pool))))


async def expect_runnable(client: GatewayClient, experiment: Experiment, arms: Sequence[Arm]) -> None:
    """Sends one query through each arm. Raises EvaluationError for an arm that the gateway refuses as such.

    That is an unknown stage or preset, or inline pipelines switched off.
    """
    for arm in arms:
        request = SearchRequest(query="can this pipeline run", pipeline=arm.asked, top=1)
        try:
            await client.search(experiment.target, request)
        except GatewayError as error:
            if 400 <= error.status < 500 and error.status != 429:
                raise EvaluationError(f"pipeline {arm.name}: {error}") from error
            # Other errors may be temporary; if not, every query records them.


async def rank(
    client: GatewayClient,
    experiment: Experiment,
    arms: Sequence[Arm],
    dataset: Dataset,
    queries: ChosenQueries,
    folder: RunFolder,
    segment: int = 0,
    counters: MachineCounters | None = None,
) -> None:
    """Warms every arm up, measures the queries that `answers/` lacks, and writes `runs/<arm>.trec`.

    A failed query is recorded, never retried and never fatal. Each answer is handed to the operating system before the
    next query is sent, so that a killed run goes on with the query that it was killed at. `segment`: the number of
    interruptions so far. `counters`: of the machine, of tests.
    """
    before = [arm_progress(folder.answers(arm.name)) for arm in arms]
    turns = query_turns(queries.measured, len(arms), experiment.seed)
    left = [(at, query) for at, query in turns if query not in before[at].answered]
    timeouts = [one.timeouts for one in before]
    with ExitStack() as files:
        answers = [files.enter_context(writable(folder.answers(arm.name)).open("a", encoding="utf-8")) for arm in arms]

        def write(at: int, record: AnswerRecord) -> None:
            answers[at].write(record.model_copy(update={"segment": segment}).line)
            answers[at].flush()

        warmup = [(at, query) for query in queries.warmup for at in range(len(arms))] if left else []
        with progress("Warming up", len(warmup), "queries") as advance:
            for at, query in warmup:
                write(at, await _run_query(client, experiment, arms[at], query, dataset, "warmup"))
                advance(1)
        conditions = ConditionsLog(folder.path, segment, measured_processes(folder.runs, client.url), counters)
        with progress("Ranking", len(left), "queries") as advance:
            for at, query in left:
                conditions.note()
                if timeouts[at] >= MAX_TIMEOUTS_IN_A_ROW:
                    detail = f"not sent: {MAX_TIMEOUTS_IN_A_ROW} queries in a row had timed out"
                    record = AnswerRecord(query=query, phase="measured", error="abandoned", detail=detail)
                else:
                    record = await _run_query(client, experiment, arms[at], query, dataset, "measured")
                timeouts[at] = timeouts_in_a_row(timeouts[at], record)
                write(at, record)
                advance(1)
        if left:
            conditions.write()
    for arm in arms:
        write_run_file(folder, arm.name)


def write_rank_report(
    folder: RunFolder,
    queries: ChosenQueries,
    arms: Sequence[RankedArm],
    depth: int,
    compared_documents: int | None,
) -> RankReport:
    """Writes rank.json, after all other files of the step, with their sha256."""
    written = ("ingest.json", "imported.json", CONDITIONS, "costs.json")
    optional = [name for name in written if folder.has(name)]
    of_arms = [file(arm.name) for arm in arms for file in (folder.answers, folder.run_file)]
    report = RankReport(
        made_from=folder.hashes("experiment.json", "manifest.json", "recall.json", *optional, *of_arms),
        queries=tuple(queries.measured),
        warmup=tuple(queries.warmup),
        arms=tuple(arms),
        depth=depth,
        compared_documents=compared_documents,
    )
    folder.write("rank.json", report)
    return report


def write_run_file(folder: RunFolder, arm: str) -> None:
    """Writes `runs/<arm>.trec` from the answers to the measured queries, in their order."""
    with writable(folder.run_file(arm)).open("w", encoding="utf-8", newline="\n") as file:
        for record in read_answers(folder.answers(arm)):
            if record.phase == "measured":
                file.write(run_lines(record.query, record.ids, arm))


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
        timed = await client.search(experiment.target, request, caches=experiment.caches)
        ranking = checked_ranking(timed.answer, experiment.depth, request.exclude_ids)
    except GatewayError as error:
        return record.model_copy(update={"error": error.kind, "detail": str(error)})
    answer = timed.answer
    answered = {
        "latency_ms": timed.latency_ms,
        "hits": len(ranking),
        "ranking": ranking,
        "timings_ms": answer.timings_ms,
        "degraded": answer.degraded,
        "models": answer.models,
        "cached": timed.cached,
        "request_id": answer.request_id,
        "generation": answer.collection,
        "fingerprint": answer.pipeline.fingerprint,
    }
    return record.model_copy(update=answered)


def checked_ranking(answer: SearchAnswer, depth: int, excluded: Sequence[str]) -> tuple[tuple[str, float], ...]:
    """Returns (id, score) pairs, best first. Raises GatewayError for an answer that violates the contract."""
    ids = {hit.id for hit in answer.hits}
    if len(ids) < len(answer.hits) or len(answer.hits) > depth or ids & set(excluded):
        raise GatewayError("bad_answer", "the answer repeats a document, is too long, or holds an excluded one")
    return tuple((hit.id, hit.score) for hit in answer.hits)
