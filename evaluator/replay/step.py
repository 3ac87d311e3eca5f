"""Replays a grid over the candidates of a run; writes replay.json, its page and replay/. Asks the gateway to check."""

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from evaluator.attribution.candidates import CANDIDATES, LINES, CandidatesReport
from evaluator.client.client import GatewayClient, GatewayError
from evaluator.errors import EvaluationError
from evaluator.pages.step_page import write_step_page
from evaluator.progress import progress
from evaluator.replay.all_queries import ReplayedLine, measured, processes_for, replay_all
from evaluator.replay.cost_model import CostModel, LegBounds, StageSample, arm_samples, cost_model
from evaluator.replay.grid import Grid, points
from evaluator.replay.page import replay_page, winner_yaml
from evaluator.replay.report import REPLAY, CheckedPoint, RecordedArm, ReplayReport, replay_report
from evaluator.runs.answers import read_outcomes
from evaluator.runs.breakdown import stage_times
from evaluator.runs.run_folder import RunFolder, writable
from evaluator.runs.timing_validity import ReportedTimes
from evaluator.steps.arms import Arm, search_request
from evaluator.steps.prepared_run import expect_same_answers, prepare_run
from evaluator.steps.run_judgments import MeasuredJudgments, judgments_as_measured
from services.contracts.pipelines import Pipeline
from services.files.disk_writes import write_whole


@dataclass(frozen=True, slots=True)
class Replayed:
    """Pipelines of a grid with their answers to every query of a run, and the judgments that measure them."""

    judgments: MeasuredJudgments
    found: CandidatesReport
    pipelines: list[Pipeline]
    lines: list[ReplayedLine]


def replay(folder: RunFolder, grid: Grid) -> Replayed:
    """Replays a grid. Raises EvaluationError where no candidates were collected, or no quality was measured."""
    found, judgments = folder.read(CANDIDATES, CandidatesReport), judgments_as_measured(folder)
    pipelines = points(grid, found)
    return Replayed(
        judgments, found, pipelines, replay_all(folder.path / LINES, found, pipelines, processes_for(found.queries))
    )


def replay_step(
    folder: RunFolder, grid: Grid, done: Replayed, within_ms: float | None, checked: Sequence[CheckedPoint] = ()
) -> ReplayReport:
    """Measures what was replayed and writes the files."""
    experiment = folder.experiment
    metric = f"nDCG@{done.found.top}"
    arm_pipelines = list(done.found.pipelines.values())
    costs = _costs(folder, done)
    values = measured([one.replayed for one in done.lines], done.judgments.grades, len(done.pipelines), metric)
    arm_values = measured([one.own for one in done.lines], done.judgments.grades, len(arm_pipelines), metric)
    report = replay_report(
        made_from=folder.hashes(CANDIDATES, LINES, "rank.json", "quality.json"),
        experiment=experiment.name,
        dataset=experiment.dataset_name,
        judgments=done.judgments.origin,
        metric=metric,
        seed=experiment.seed,
        grid=grid,
        pipelines=done.pipelines,
        values=values,
        costs=costs,
        times_valid=_times_valid(folder),
        caches=experiment.caches,
        arms={
            name: RecordedArm(mean=float(arm_values[at].mean()), cost_ms=costs.ms(arm_pipelines[at]))
            for at, name in enumerate(done.found.pipelines)
        },
        within_ms=within_ms,
        checked=checked,
    )
    if report is None:
        raise EvaluationError(f"{folder.path}: no point of the grid was collected for all queries; attribute again")
    folder.write(REPLAY, report)
    write_whole(writable(folder.path / "replay" / "replayed.yaml"), winner_yaml(report))
    write_step_page(folder, replay_page(report))
    return report


async def check_step(client: GatewayClient, folder: RunFolder, done: Replayed, count: int) -> list[CheckedPoint]:
    """Asks the gateway for `count` of the points, drawn by the seed, on all queries, and compares the ids of the hits.

    Points that were not collected for all queries are not drawn.
    """
    with folder.locked():
        experiment = folder.experiment
        ready = await prepare_run(client, folder)
        expect_same_answers(folder, ready.manifest)
        replayed = [one.replayed for one in done.lines]
        whole = [at for at in range(len(done.pipelines)) if all(one.numbers[at] is not None for one in replayed)]
        drawn = random.Random(experiment.seed).sample(whole, min(count, len(whole)))
        checked = []
        with progress("Checking", len(drawn) * len(replayed), "queries") as advance:
            for at in drawn:
                arm = Arm("point", done.pipelines[at], done.pipelines[at], None)
                otherwise = []
                for one in replayed:
                    request = search_request(arm, ready.dataset, one.query, done.found.top)
                    try:
                        answer = (await client.search(experiment.target, request, caches=True)).answer
                    except GatewayError:
                        otherwise.append(one.query)
                    else:
                        if tuple(hit.id for hit in answer.hits) != one.answer(at):
                            otherwise.append(one.query)
                    advance(1)
                checked.append(
                    CheckedPoint(pipeline=done.pipelines[at], queries=len(replayed), otherwise=tuple(otherwise))
                )
        return checked


def _times_valid(folder: RunFolder) -> bool | None:
    """Returns whether the times of a run hold; None where it has no report, or one of older files."""
    try:
        return folder.read("report.json", ReportedTimes).timing_valid
    except EvaluationError:  # a replay needs nothing else of it, and its page states what to do
        return None


def _costs(folder: RunFolder, done: Replayed) -> CostModel:
    """Fits the cost model to the stages' times in the run, and of the legs that were asked alone."""
    leg_hits = {
        leg.name: round(statistics.median(counts))
        for leg in done.found.legs
        if (counts := [line.leg_hits[leg.name] for line in done.lines if leg.name in line.leg_hits])
    }
    bounds = LegBounds(leg_hits, folder.experiment.timed_top)
    samples: list[StageSample] = []
    for name, pipeline in done.found.pipelines.items():
        answers = [one for one in read_outcomes(folder.answers(name)) if one.phase == "measured" and one.error is None]
        outcomes = [one for one in answers if not one.degraded]  # a stage that was skipped took less time, or all of it
        times = stage_times(outcomes, [one.id for one in pipeline.identified])
        medians = {stage: ms for stage, time in times.items() if (ms := time.p50.unchecked_ms) is not None}
        samples += arm_samples(pipeline, medians, bounds)
    samples += [StageSample(name, leg_hits[name], ms) for line in done.lines for name, ms in line.leg_ms.items()]
    return cost_model(samples, bounds)
