"""Says what a reader of a report must know of the run: what makes it not valid, and remarks beside that. Pure."""

from collections.abc import Iterator, Mapping

from evaluator.client.cached_results import cache_remarks
from evaluator.report.pipeline_report import PipelineReport
from evaluator.report.ranked_run import RankedRun
from evaluator.runs.interruptions import interruption_remarks, warmup_remarks
from evaluator.steps.validity import arm_faults


def run_faults(run: RankedRun, pipelines: Mapping[str, PipelineReport]) -> Iterator[str]:
    """Yields why a run is not valid, a sentence each."""
    yield from run.manifest.counts.warnings
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
    yield from (f"{name}: no recall figure: {one.reason}" for name, one in run.recall.items() if one.reason)


def run_remarks(run: RankedRun, pipelines: Mapping[str, PipelineReport]) -> Iterator[str]:
    """Yields what leaves a run valid: an interruption, a warm-up without answers."""
    if run.manifest.counts.left_out:
        yield run.manifest.counts.left_out
    if run.quality.added_judgments is not None:
        yield from (file.sentence for file in run.quality.added_judgments.files)
    yield from interruption_remarks(run.source)
    yield from warmup_remarks(run.records, run.source)
    if run.ranked.compared_documents == 0:
        yield "no backend returns documents by id: only their number was compared with the corpus"
    yield from cache_remarks(run.experiment.caches, {name: outcome.cached for name, outcome in pipelines.items()})
