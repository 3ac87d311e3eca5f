"""Builds the report of a run from the files of all steps; writes report.json, its pages and their charts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from evaluator.client.cached_results import cache_remarks
from evaluator.client.client import QUERY_DEADLINE_MS
from evaluator.comparison.comparing import query_slices
from evaluator.comparison.examples import PairExamples, examples_of, texts_of, with_texts
from evaluator.datasets.queries import queries_file
from evaluator.errors import EvaluationError, command_line
from evaluator.experiments.gates import judge_gates
from evaluator.experiments.preference import Preference, preference
from evaluator.metrics.metric_table import parse_metric, state_conventions
from evaluator.metrics.paired_differences import interval, mean
from evaluator.metrics.verdict import ScoredPair, scored_pair
from evaluator.report.pipeline_report import PipelineReport, gated_figures, pipeline_report, with_validity
from evaluator.report.ranked_run import RankedRun, read_ranked_run
from evaluator.report.recommendation import recommend
from evaluator.report.report_page import STEPS, write_pages
from evaluator.report.run_report import KindFigures, Report
from evaluator.runs.manifest import dataset_directory
from evaluator.runs.run_folder import RunFolder
from evaluator.runs.timing_validity import disturbance, timed_answers, timing_faults, warmup_remarks
from evaluator.runs.trec_runs import read_run
from evaluator.steps.rank import RankedArm
from evaluator.steps.run_judgments import judgments_as_measured
from evaluator.steps.validity import arm_faults
from services.contracts.pipelines import Fuse, Pipeline, Rerank, Retrieve

EXAMPLES = 3
JUDGED, FEW_JUDGED = "judged@10", 0.5
# Two rankings of a quarter of the documents share many by chance. By reciprocal rank, k = 60, a document at place 62 of
# both counts as much as the first of one. A fusion by scores keeps how far below the first it is.
DEEP_LEG = 0.25


@dataclass(frozen=True, slots=True)
class ReportChoices:
    """Options of `report`: the pipeline that the others are set against, and what decides; None: the run's own."""

    baseline: str | None = None
    prefer: Preference | None = None


def choices_of(folder: RunFolder) -> ReportChoices:
    """Returns the options of the report that a run has, to write it again after its quality was measured again.

    Raises EvaluationError for a report.json that cannot be read.
    """
    if not folder.has("report.json"):
        return ReportChoices()
    written = folder.read_stale("report.json", Report)
    advice = written.recommendation
    return ReportChoices(written.baseline, preference(advice.prefer) if advice is not None else None)


def report_step(folder: RunFolder, choices: ReportChoices = ReportChoices()) -> Report:  # frozen
    """Writes report.json and its pages. Raises WrongOption for a baseline that it lacks."""
    run = read_ranked_run(folder, choices.baseline)
    ranked = build_report(run, choices.prefer)
    measured = {step.name: figures for step in STEPS if (figures := step.read(folder)) is not None}
    made_from = folder.hashes("rank.json", "quality.json", *[step.file for step in STEPS if step.name in measured])
    report = ranked.model_copy(update={"made_from": made_from, **_single_queries(folder, run, ranked), **measured})
    folder.write("report.json", report)
    write_pages(folder, report)
    return report


def _single_queries(folder: RunFolder, run: RankedRun, report: Report) -> dict[str, object]:
    """Returns the fields of kinds and examples. A report is written also where the dataset is no longer there."""
    metric = run.family.metric if run.family else next(iter(run.figures[run.baseline]))
    label, pair, advice = parse_metric(metric).label(report.depth), None, report.recommendation
    if advice is not None and advice.pipeline is not None and advice.runner_up is not None:
        values = run.figures[advice.runner_up][metric], run.figures[advice.pipeline][metric]
        pair = scored_pair(advice.runner_up, advice.pipeline, *values)
    try:
        kinds = tuple(_kinds(folder, run, metric, pair))
        return {"kinds": kinds, "examples": pair and _worst_losses(folder, pair, label)}
    except EvaluationError as error:
        return {"examples_reason": str(error)}


def _kinds(folder: RunFolder, run: RankedRun, metric: str, pair: ScoredPair | None) -> Iterator[KindFigures]:
    """Yields the figures of each kind of query. `pair`: the runner-up and the pipeline that is shipped."""
    slices = query_slices(queries_file(dataset_directory(folder)), run.ranked.queries)
    gained = pair.differences if pair else {}
    for field, value, queries in ((field, *kind) for field, kinds in slices.items() for kind in kinds.items()):
        measured = {arm: [figures[metric].get(query) for query in queries] for arm, figures in run.figures.items()}
        known = {arm: [one for one in values if one is not None] for arm, values in measured.items()}
        differences = [gained[query] for query in queries if query in gained]
        yield KindFigures(
            field=field,
            value=value,
            metric=parse_metric(metric).label(run.ranked.depth),
            queries=len(queries),
            means={arm: mean(values) for arm, values in known.items() if values},
            difference=mean(differences) if differences else None,
            interval=interval(differences, run.experiment.seed),
        )


def _worst_losses(folder: RunFolder, pair: ScoredPair, metric: str) -> PairExamples:
    """Returns the queries of the greatest losses with texts. Raises EvaluationError where the judgments changed."""
    rankings = read_run(folder.run_file(pair.first)), read_run(folder.run_file(pair.second))
    values, judgments = (pair.first_values, pair.second_values), judgments_as_measured(folder).grades
    _, losses = examples_of(pair.differences, values, rankings, judgments, EXAMPLES)
    examples = with_texts(losses, *texts_of(folder.experiment, losses)) if losses else ()
    return PairExamples(first=pair.first, second=pair.second, metric=metric, examples=examples)


def build_report(run: RankedRun, prefer: Preference | None = None) -> Report:
    """Builds the report of the ranking alone: without the steps that may follow it. Raises as `report_step` does."""
    experiment, manifest, ranked = run.experiment, run.manifest, run.ranked
    without_times = {arm.name for arm in ranked.arms if arm.pipeline is None}
    unsound = timing_faults(run.records, caches=experiment.caches)
    built = {arm.name: pipeline_report(run, arm, sound=not unsound) for arm in ranked.arms}
    doubts = (*unsound, *disturbance({name: outcome.latency_ms for name, outcome in built.items()}, run.conditions))
    # What has no interval of its own, the time of a stage, holds where the medians do.
    times_hold = not unsound and all(outcome.latency_ms.p50.holds for outcome in built.values())
    pipelines = {name: with_validity(outcome, valid=times_hold) for name, outcome in built.items()}
    faults = tuple(_faults(run, pipelines))
    report = Report(
        experiment=experiment.name,
        dataset=experiment.dataset_name,
        split=experiment.split,
        collection=experiment.target,
        generation=manifest.generation,
        engine={name: state.engine for name, state in manifest.backends.items()},
        seed=experiment.seed,
        depth=ranked.depth,
        timed_top=ranked.timed_top,
        sample=len(ranked.queries) if len(ranked.queries) < manifest.counts.judged_queries else None,
        caches=experiment.caches,
        valid=not faults,
        warnings=(*faults, *_remarks(run, pipelines), *(() if faults else _few_judgments(run, pipelines))),
        timing_valid=times_hold if run.conditions is not None and len(without_times) < len(ranked.arms) else None,
        timing_reasons=doubts,
        conditions=run.conditions,
        pipelines=dict(pipelines),
        baseline=run.baseline,
        pairs=tuple(run.family.pairs) if run.family else (),
        conventions=state_conventions(list(run.quality.figures[ranked.arms[0].name]), ranked.depth),
        vector_recall=dict(run.recall),
        added_judgments=run.quality.added_judgments,
        counts=manifest.counts,
        ingest=run.ingested,
        manifest=manifest,
    )
    # From the figures of the report, which carry whether their times hold.
    baseline = report.pipelines[run.baseline]
    gated = [gated_figures(name, outcome, baseline, sound=not unsound) for name, outcome in report.pipelines.items()]
    gates = tuple(judge_gates(experiment.gates, gated, run.baseline))
    advice = None if faults else recommend(report.pipelines, run.family, prefer or preference(experiment.prefer))
    return report.model_copy(update={"gates": gates, "recommendation": advice})


def _faults(run: RankedRun, pipelines: Mapping[str, PipelineReport]) -> Iterator[str]:
    """Yields a sentence for each reason why a run is not valid."""
    yield from run.manifest.counts.warnings
    if run.manifest.counts.unjudged and run.quality.added_judgments is None:
        yield run.manifest.counts.unjudged
    for arm in run.ranked.arms:
        outcome = pipelines[arm.name]
        if outcome.errors:
            kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(outcome.errors_by_kind.items()))
            yield f"{arm.name}: LOST {outcome.errors} of {outcome.queries} queries ({kinds}); they count as 0"
        if outcome.degraded and not _is_cut_by_deadline(run, arm, outcome):
            stages = ", ".join(f"{what} {count}" for what, count in sorted(outcome.degraded_by_stage.items()))
            yield f"{arm.name}: {outcome.degraded} answers were DEGRADED ({stages}): part of the pipeline did not run"
        if outcome.deep_differs:
            yield (
                f"{arm.name}: {outcome.deep_differs} of {outcome.deep} answers had OTHER first hits when "
                f"{run.ranked.depth} hits were requested instead of {run.ranked.timed_top}"
            )
        yield from arm_faults(arm.name, arm, run.manifest, run.records[arm.name], outcome.imported)
    yield from (f"{name}: no recall figure: {recall.reason}" for name, recall in run.recall.items() if recall.reason)


def _is_cut_by_deadline(run: RankedRun, arm: RankedArm, outcome: PipelineReport) -> bool:
    """Returns whether re-rankings alone lacked time, in a run whose deadline leaves out what does not fit."""
    stages = [item.id for item in arm.pipeline.identified if isinstance(item.stage, Rerank)] if arm.pipeline else []
    lacking = {f"{stage}: {reason}" for stage in stages for reason in ("deadline", "overloaded", "timeout")}
    return run.experiment.deadline_ms < QUERY_DEADLINE_MS and outcome.degraded_by_stage.keys() <= lacking


def _remarks(run: RankedRun, pipelines: Mapping[str, PipelineReport]) -> Iterator[str]:
    """Yields what leaves a run valid, a warm-up without answers for example."""
    if run.manifest.counts.left_out:
        yield run.manifest.counts.left_out
    yield from run.ingested.unread() if run.ingested is not None else ()
    if run.quality.added_judgments is not None:
        yield from (file.sentence for file in run.quality.added_judgments.files)
    yield from warmup_remarks(run.records)
    for name, outcome in pipelines.items():
        if outcome.reranked_share < 1 and (ms := run.experiment.deadline_ms) < QUERY_DEADLINE_MS:
            scored = f"{name} scored {outcome.reranked_share:.0%} of its candidates"
            yield f"{scored} in its part of {ms:,} ms; DEADLINE_MS={QUERY_DEADLINE_MS} scores all"
    for arm, records in run.records.items():
        failed = {record.query for record in records if record.phase == "again" and record.error is not None}
        if lost := failed & {record.query for record in timed_answers(records)}:
            yield f"{arm}: {len(lost)} queries were answered first, but not when they were repeated for their times"
    if run.ranked.compared_documents == 0:
        yield "no backend returns documents by id: only their number was compared with the corpus"
    yield from _deep_legs(run)
    yield from cache_remarks(run.experiment.caches, {name: outcome.cached for name, outcome in pipelines.items()})


def _deep_legs(run: RankedRun) -> Iterator[str]:
    """Yields a sentence where rankings that are fused by reciprocal rank reach through much of the collection."""
    documents = run.manifest.counts.documents
    depths = {arm.name: _reciprocal_depth(arm.pipeline) for arm in run.ranked.arms if arm.pipeline is not None}
    if deep := [f"{name} {depth}" for name, depth in depths.items() if depth > documents * DEEP_LEG]:
        yield (
            f"reciprocal rank fuses rankings of more than a quarter of the {documents} documents ({', '.join(deep)}): "
            "a document in the middle of both can outrank the first of one. Give the retrieve stages a smaller top, or "
            "fuse by scores (method: weighted)"
        )


def _reciprocal_depth(pipeline: Pipeline) -> int:
    """Returns the most hits that a stage gives to a fusion by reciprocal rank; 0 without one."""
    fused = [item for item in pipeline.identified if isinstance(item.stage, Fuse) and item.stage.method == "rrf"]
    legs = [leg.stage for fuse in fused for leg in fuse.inputs]
    return max((leg.top for leg in legs if isinstance(leg, Retrieve)), default=0)


def _few_judgments(run: RankedRun, pipelines: Mapping[str, PipelineReport]) -> Iterator[str]:
    """Yields a sentence where most of what pipelines show first has no judgment; it leaves a run valid."""
    shares = {name: outcome.quality.get(JUDGED) for name, outcome in pipelines.items()}
    few = [f"{name} {share:.2f}" for name, share in shares.items() if share is not None and share < FEW_JUDGED]
    counts = run.manifest.counts
    # Where each query has one known answer, no other hit can be judged.
    if few and counts.judgments >= 2 * counts.judged_queries:
        yield (
            f"{JUDGED} is below {FEW_JUDGED} ({', '.join(few)}): most hits have no judgment and count as not relevant, "
            f"even if they are. `{command_line('judge', 'pool', 'latest')}` collects them for judging"
        )
