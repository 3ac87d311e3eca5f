"""Sends every query through every arm, one at a time: quality and latency come from the same answers."""

import random
from collections.abc import Sequence
from typing import NamedTuple

from evaluator.client.client import GatewayClient, GatewayError
from evaluator.datasets.reader import Dataset
from evaluator.errors import EvaluationError
from evaluator.experiments.experiment import Experiment
from evaluator.experiments.turn_orders import Turn, query_turns
from evaluator.machine.machine_conditions import ConditionsMeter, MachineCounters
from evaluator.machine.measured_processes import measured_processes
from evaluator.progress import progress, say
from evaluator.runs.answers import AnswerOutcome, AnswerRecord, Phase, read_answers, read_outcomes
from evaluator.runs.manifest import Manifest
from evaluator.runs.run_folder import BESIDE_RANKING, CONDITIONS, LOAD_PAGE, RunFolder, StepFile, writable
from evaluator.runs.timing_validity import write_conditions
from evaluator.runs.trec_runs import run_lines
from evaluator.steps.arms import Arm, search_request
from services.contracts.base import Count, Wire
from services.contracts.pipelines import Pipeline
from services.contracts.query import SearchAnswer, SearchRequest
from services.files.disk_writes import naming, whole_file

# A timeout costs a minute: after this many in a row an arm's other queries count as lost.
MAX_TIMEOUTS_IN_A_ROW = 5
# How often queries that were disturbed are asked again for their times: three times as many answers as planned at most.
ASKED_AGAIN = 2
# Other work that left more than this share of them disturbed again does not pass.
HOPELESS = 0.9


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
    depth: Count  # of the rankings
    timed_top: Count | None = None  # hits that a timed request asked for; null: all, or nothing was timed (imported)
    # Documents of the collection compared with those of the corpus before the first query; null without a gateway.
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


def begin_ranking(folder: RunFolder, manifest: Manifest) -> None:
    """Writes manifest.json, and removes the answers of an earlier or an interrupted call.

    What was measured beside an earlier ranking no longer fits: its `made_from` names the manifest. It is named here,
    and stays: an hour of load is not to be had again for nothing.
    """
    folder.forget_answers()
    (folder.path / LOAD_PAGE).unlink(missing_ok=True)  # links the manifest of before
    if measured := [name for name in BESIDE_RANKING if folder.has(name)]:
        say(f"{folder.path}: measured with an earlier ranking, and no longer used: {', '.join(measured)}")
    folder.write("manifest.json", manifest)


async def rank(
    client: GatewayClient,
    experiment: Experiment,
    arms: Sequence[Arm],
    dataset: Dataset,
    queries: ChosenQueries,
    folder: RunFolder,
    counters: MachineCounters | None = None,
) -> None:
    """Warms every arm up, measures the queries into `answers/`, and writes `runs/<arm>.trec`.

    A query during which others took CPU is asked again by every arm, for its time alone, unless caches are on: they
    would answer. After the last timed answer, every query that was answered is sent again for `depth` hits, where a
    metric looks deeper than the timed answers. A failed query is recorded, never retried and never fatal. `counters`:
    of the machine, of tests.
    """
    turns = list(query_turns(queries.measured, len(arms), experiment.seed, apart=experiment.caches))
    sender = QuerySender(client, experiment, arms, dataset, folder)
    await sender.send_all(
        "Warming up", "warmup", [[(at, query) for at in range(len(arms))] for query in queries.warmup]
    )
    meter = ConditionsMeter(measured_processes(folder.runs, client.url), counters)
    disturbed = await sender.send_all("Ranking", "measured", turns, meter)
    for number in range(0 if experiment.caches else ASKED_AGAIN):
        again = list(query_turns(sorted(disturbed), len(arms), experiment.seed + number + 1))
        if not again:
            break
        left = await sender.send_all("Repeating queries that other work disturbed", "again", again, meter)
        hopeless, disturbed = len(left) > HOPELESS * len(disturbed), left
        if hopeless:
            break
    write_conditions(folder.path, meter.conditions())
    if experiment.depth > experiment.ranking_depth:
        say(f"No metric needs more than {experiment.timed_top} hits, so no deeper rankings are requested")
    if experiment.ranking_depth > experiment.timed_top:
        answered = [_answered(folder, arm) for arm in arms]
        deep = [[(at, query) for at, query in turn if query in answered[at]] for turn in turns]
        await sender.send_all(f"Asking for {experiment.ranking_depth} hits", "deep", deep)
    for arm in arms:
        write_run_file(folder, arm.name, "deep" if experiment.ranking_depth > experiment.timed_top else "measured")


def _answered(folder: RunFolder, arm: Arm) -> frozenset[str]:
    """Returns the queries that an arm has answered."""
    outcomes = read_outcomes(folder.answers(arm.name))
    return frozenset(outcome.query for outcome in outcomes if outcome.phase == "measured" and outcome.error is None)


class QuerySender:
    """Sends one query at a time to the arms of a run and appends the outcome to the arm's file of answers."""

    def __init__(
        self, client: GatewayClient, experiment: Experiment, arms: Sequence[Arm], dataset: Dataset, folder: RunFolder
    ) -> None:
        self._client = client
        self._experiment = experiment
        self._arms = arms
        self._dataset = dataset
        self._paths = [folder.answers(arm.name) for arm in arms]
        timed = [0] * len(arms)
        self._timeouts: dict[Phase, list[int]] = {"measured": timed, "again": timed, "deep": [0] * len(arms)}

    async def send_all(
        self, what: str, phase: Phase, turns: Sequence[Turn], meter: ConditionsMeter | None = None
    ) -> set[str]:
        """Sends the queries of each turn in this order and shows the progress.

        Returns the queries that were disturbed, by the windows of `meter`, which end between two turns.
        """
        disturbed: set[str] = set()
        window: list[tuple[int, AnswerRecord]] = []
        with progress(what, sum(map(len, turns)), "queries") as advance:
            for turn in turns:
                for at, query in turn:
                    record = await self._send(at, query, phase)
                    window.append((at, record))
                    advance(1, int(record.error is not None))
                if meter is None or meter.due or turn is turns[-1]:
                    busy = meter is not None and meter.end_window()
                    disturbed |= {record.query for _, record in window if busy}
                    self._write(window, disturbed=busy)
                    window = []
        return disturbed

    async def _send(self, at: int, query: str, phase: Phase) -> AnswerRecord:
        """Sends a query and returns what came of it."""
        timeouts = self._timeouts.get(phase)  # a warm-up counts none
        if timeouts is not None and timeouts[at] >= MAX_TIMEOUTS_IN_A_ROW:
            detail = f"not sent: {MAX_TIMEOUTS_IN_A_ROW} queries in a row had timed out"
            record = AnswerRecord(query=query, phase=phase, error="abandoned", detail=detail)
        else:
            record = await _run_query(self._client, self._experiment, self._arms[at], query, self._dataset, phase)
        if timeouts is not None:
            timeouts[at] = _timeouts_in_a_row(timeouts[at], record)
        return record

    def _write(self, window: Sequence[tuple[int, AnswerRecord]], *, disturbed: bool) -> None:
        for at, record in window:
            path = self._paths[at]
            with naming(path), writable(path).open("a", encoding="utf-8") as file:
                file.write(record.model_copy(update={"disturbed": disturbed}).line)


def _timeouts_in_a_row(before: int, record: AnswerOutcome) -> int:
    """Returns the number of queries in a row, up to this one, that timed out; abandoned ones do not count."""
    return before if record.error == "abandoned" else before + 1 if record.error == "timeout" else 0


def write_rank_report(
    folder: RunFolder,
    queries: ChosenQueries,
    arms: Sequence[RankedArm],
    depth: int,
    compared_documents: int | None,
    timed_top: int | None = None,
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
        timed_top=timed_top,
        compared_documents=compared_documents,
    )
    folder.write("rank.json", report)
    return report


def write_run_file(folder: RunFolder, arm: str, phase: Phase) -> None:
    """Writes `runs/<arm>.trec` from the answers of a phase, in their order."""
    with whole_file(writable(folder.run_file(arm)), newline="\n") as file:
        for record in read_answers(folder.answers(arm)):
            if record.phase == phase:
                file.write(run_lines(record.query, record.ids, arm))


async def _run_query(
    client: GatewayClient, experiment: Experiment, arm: Arm, query: str, dataset: Dataset, phase: Phase
) -> AnswerRecord:
    excluded = query in dataset.self_retrieved
    record = AnswerRecord(query=query, phase=phase, excluded_self=excluded)
    top = experiment.ranking_depth if phase == "deep" else experiment.timed_top
    request = search_request(arm, dataset, query, top)
    try:
        timed = await client.search(experiment.target, request, experiment.deadline_ms, caches=experiment.caches)
        ranking = checked_ranking(timed.answer, top, request.exclude_ids)
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


def checked_ranking(answer: SearchAnswer, top: int, excluded: Sequence[str]) -> tuple[tuple[str, float], ...]:
    """Returns (id, score) pairs, best first. Raises GatewayError for an answer that violates the contract."""
    ids = {hit.id for hit in answer.hits}
    if len(ids) < len(answer.hits) or len(answer.hits) > top or ids & set(excluded):
        raise GatewayError("bad_answer", "the answer repeats a document, is too long, or holds an excluded one")
    return tuple((hit.id, hit.score) for hit in answer.hits)
