"""Builds the report of a run from the files of all steps; writes report.json, its pages and their charts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from evaluator.client.cached_results import cache_remarks
from evaluator.comparison.examples import PairExamples, examples_of, texts_of, with_texts
from evaluator.errors import EvaluationError, command_line
from evaluator.experiments.gates import judge_gates
from evaluator.experiments.preference import Preference, preference
from evaluator.metrics.metric_table import parse_metric, state_conventions
from evaluator.metrics.paired_differences import ROUNDING
from evaluator.report.pipeline_report import PipelineReport, gated_figures, pipeline_report, with_validity
from evaluator.report.ranked_run import RankedRun, read_ranked_run
from evaluator.report.recommendation import recommend
from evaluator.report.report_page import STEPS, write_pages
from evaluator.report.run_report import Report
from evaluator.runs.manifest import dataset_directory
from evaluator.runs.run_folder import RunFolder
from evaluator.runs.timing_validity import timing_doubts, warmup_remarks
from evaluator.runs.trec_runs import read_run
from evaluator.steps.run_judgments import judgments_as_measured
from evaluator.steps.validity import arm_faults
from services.contracts.pipelines import Fuse, Pipeline, Retrieve

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
    """Writes report.json and its pages. Raises WrongOption for a baseline or a preferred figure that it lacks."""
    run = read_ranked_run(folder, choices.baseline)
    ranked = build_report(run, choices.prefer)
    measured = {step.name: figures for step in STEPS if (figures := step.read(folder)) is not None}
    made_from = folder.hashes("rank.json", "quality.json", *[step.file for step in STEPS if step.name in measured])
    examples = _examples(folder, run, ranked)
    report = ranked.model_copy(update={"made_from": made_from, **examples, **measured})
    folder.write("report.json", report)
    write_pages(folder, report)
    return report


def _examples(folder: RunFolder, run: RankedRun, report: Report) -> dict[str, PairExamples | str | None]:
    """Returns the fields of the example queries. A report is written also where the dataset is no longer there."""
    try:
        return {"examples": _example_queries(folder, run, report)}
    except EvaluationError as error:
        return {"examples_reason": str(error)}


def _example_queries(folder: RunFolder, run: RankedRun, report: Report) -> PairExamples | None:
    """Returns the queries on which the recommended pipeline gains and loses most against the baseline, with texts.

    Where the baseline is recommended, or nothing is, it is the other pipeline with the highest mean. None of one
    pipeline, and where no query differs. Reads the corpus once. Raises EvaluationError where the dataset is not there,
    or has changed.
    """
    compared = [outcome.against_first for outcome in report.pipelines.values() if outcome.against_first is not None]
    if not compared:
        return None
    advised = report.recommendation.pipeline if report.recommendation is not None else None
    pair = next(
        (verdict for verdict in compared if verdict.second == advised),
        max(compared, key=lambda verdict: verdict.second_mean),
    )
    metric = next(name for name in run.figures[pair.first] if parse_metric(name).label(report.depth) == pair.metric)
    values = tuple(
        {query: value for query, value in run.figures[arm][metric].items() if value is not None}
        for arm in (pair.first, pair.second)
    )
    first, second = values
    differences = {query: second[query] - first[query] for query in first if query in second}
    differences = {query: value for query, value in differences.items() if abs(value) >= ROUNDING}
    if not differences:
        return None
    dataset_directory(folder)  # raises where it is not found from here
    rankings = (read_run(folder.run_file(pair.first)), read_run(folder.run_file(pair.second)))
    judgments = judgments_as_measured(folder).grades
    gains, losses = examples_of(differences, (first, second), rankings, judgments, EXAMPLES)
    # One of the three is a loss where there is one.
    chosen = [*gains[:2], *losses[:1], *gains[2:], *losses[1:]][:EXAMPLES]
    ordered = sorted(chosen, key=lambda example: -example.difference)
    texts, titles = texts_of(run.experiment, ordered)
    return PairExamples(
        first=pair.first, second=pair.second, metric=pair.metric, examples=with_texts(ordered, texts, titles)
    )


def build_report(run: RankedRun, prefer: Preference | None = None) -> Report:
    """Builds the report of the ranking alone: without the steps that may follow it. Raises as `report_step` does."""
    experiment, manifest, ranked = run.experiment, run.manifest, run.ranked
    without_times = {arm.name for arm in ranked.arms if arm.pipeline is None}
    doubts = timing_doubts(run.records, without_times, run.conditions, caches=experiment.caches)
    pipelines: Mapping[str, PipelineReport] = {
        arm.name: with_validity(pipeline_report(run, arm), valid=not doubts) for arm in ranked.arms
    }
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
        warnings=(*faults, *_remarks(run, pipelines), *(() if faults else _few_judgments(pipelines))),
        timing_valid=not doubts if len(without_times) < len(ranked.arms) else None,
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
    gated = [gated_figures(name, outcome, baseline) for name, outcome in report.pipelines.items()]
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
        if outcome.degraded:
            stages = ", ".join(f"{what} {count}" for what, count in sorted(outcome.degraded_by_stage.items()))
            yield f"{arm.name}: {outcome.degraded} answers were DEGRADED ({stages}): not this pipeline's figures"
        if outcome.deep_differs:
            yield (
                f"{arm.name}: {outcome.deep_differs} of {outcome.deep} answers began OTHERWISE when "
                f"{run.ranked.depth} hits were asked for instead of {run.ranked.timed_top}"
            )
        yield from arm_faults(arm.name, arm, run.manifest, run.records[arm.name], outcome.imported)
    yield from (f"{name}: no recall figure: {recall.reason}" for name, recall in run.recall.items() if recall.reason)


def _remarks(run: RankedRun, pipelines: Mapping[str, PipelineReport]) -> Iterator[str]:
    """Yields what leaves a run valid, a warm-up without answers for example."""
    if run.manifest.counts.left_out:
        yield run.manifest.counts.left_out
    if run.quality.added_judgments is not None:
        yield from (file.sentence for file in run.quality.added_judgments.files)
    yield from warmup_remarks(run.records)
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
            "documents in the middle of both can pass the first of one; give the retrieve stages a smaller top, or "
            "fuse by scores (method: weighted)"
        )


def _reciprocal_depth(pipeline: Pipeline) -> int:
    """Returns the most hits that a stage gives to a fusion by reciprocal rank; 0 without one."""
    fused = [item for item in pipeline.identified if isinstance(item.stage, Fuse) and item.stage.method == "rrf"]
    legs = [leg.stage for fuse in fused for leg in fuse.inputs]
    return max((leg.top for leg in legs if isinstance(leg, Retrieve)), default=0)


def _few_judgments(pipelines: Mapping[str, PipelineReport]) -> Iterator[str]:
    """Yields a sentence where most of what pipelines show first has no judgment; it leaves a run valid."""
    shares = {name: outcome.quality.get(JUDGED) for name, outcome in pipelines.items()}
    few = [f"{name} {share:.2f}" for name, share in shares.items() if share is not None and share < FEW_JUDGED]
    if few:
        yield (
            f"{JUDGED} is below one half ({', '.join(few)}): most of these documents have no judgment and count as not "
            f"relevant, whatever they are; `{command_line('judge', 'pool', 'latest')}` collects them for judging"
        )
