"""Defines the figures of one pipeline in report.json and builds them from its answers. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from statistics import fmean

from pydantic import ConfigDict, FiniteFloat

from evaluator.client.cached_results import CacheUse, sum_cached_results
from evaluator.datasets.training_sets import saw_in_training, trained_on
from evaluator.experiments.gates import GatedFigures
from evaluator.load.points.figures import share_scored
from evaluator.machine.process_costs import PipelineCost
from evaluator.metrics.verdict import PairedComparison
from evaluator.report.ranked_run import RankedRun
from evaluator.runs.answers import AnswerOutcome
from evaluator.runs.breakdown import SlowAnswer, StageTime, gap_time, mean_path, slowest_answers, stage_times
from evaluator.runs.latency import MIN_SAMPLES_FOR_P99, Latency, PairedRatio, Timed, paired_ratio
from evaluator.runs.timing_validity import latency_of, timed_answers
from evaluator.steps.pipeline_costs import index_bytes
from evaluator.steps.quality_figures import QualityFigure
from evaluator.steps.rank import RankedArm
from evaluator.steps.run_import import ImportedFile
from services.contracts.base import Count, Wire
from services.contracts.collections import CollectionState
from services.contracts.pipelines import Pipeline, Rerank, Retrieve


class PipelineReport(Wire):
    """Figures of one arm. Lost queries (`errors`) count as 0 in every mean of `quality`, and not in `latency_ms`."""

    model_config = ConfigDict(revalidate_instances="always")

    fingerprint: str
    preset: str | None  # the lexical preset that the experiment has set, if it has
    models: dict[str, tuple[str, ...]]  # by rerank stage: every model that answered, `name@weights`
    # By model that retrieves or re-ranks: the sets that it saw in training (deploy/models/models.yaml).
    trained_on: dict[str, str] = {}
    saw_dataset: tuple[str, ...] = ()  # of these models, those that saw this dataset in training
    quality: dict[str, FiniteFloat | None]  # by name (nDCG@10, …): the means of `figures`
    figures: dict[str, QualityFigure] = {}  # by name: the mean, its denominator, its bounds over tied documents
    # By name: of the mean, 95 %, BCa bootstrap; null where a single query has a value.
    intervals: dict[str, tuple[FiniteFloat, FiniteFloat] | None] = {}
    against_first: PairedComparison | None = (
        None  # the baseline, in the first metric; null: it is the baseline, or no metric
    )
    # Differences of its queries from the baseline, ascending; of over 201 queries the quantiles at even steps.
    differences: tuple[FiniteFloat, ...] = ()
    latency_ms: Latency
    time_ratio: PairedRatio | None = None  # to the baseline; null: it is the baseline, or a file
    path_ms: dict[str, FiniteFloat] = {}  # by piece; they add up to the mean latency (runs/breakdown.py)
    stages_ms: dict[str, StageTime]  # by stage, `<stage>.<part>`, `include`, `gateway.wait`, `total`
    gap_ms: StageTime | None = None  # latency beyond `gateway.wait` and `total`; null: none was reported
    slowest: tuple[SlowAnswer, ...] = ()  # 1 % of the answers of `latency_ms`
    cached: dict[str, CacheUse] = {}  # by backend that looked results up in a cache
    warmup_ms: tuple[Timed, ...] = ()  # latency of the warm-up answers, in the order of sending
    cost: PipelineCost | None = None  # null: `rank` knew no process
    index_bytes: Count | None = None  # of the indexes that it reads; null: one of the engines does not report it
    queries: Count  # sent and measured
    judged: Count  # the denominator of every metric that has a value for each of them (`figures`)
    errors: Count
    errors_by_kind: dict[str, Count]
    no_hits: Count  # answered, with an empty ranking
    degraded: Count  # answers with a degradation
    degraded_by_stage: dict[str, Count]  # `stage: reason`
    reranked_share: FiniteFloat = 1.0  # of their candidates that its rerank stages scored, a mean over the answers
    excluded_self: Count
    warmup: Count  # labelled warm-up answers, in no figure
    deep: Count = 0  # second requests for more hits, of which metrics deeper than `timed_top` are
    deep_differs: Count = 0  # of them, those that did not begin as the timed answer
    run_queries_not_judged: Count
    run_file: str  # relative to the folder of the report
    imported: ImportedFile | None = None  # the file that `import` has read; it holds no latency, stages or models


def pipeline_report(run: RankedRun, arm: RankedArm, *, sound: bool = True) -> PipelineReport:
    """Builds the figures of an arm from its answers. `sound`: nothing but other work is against its times."""
    records, quality, statistics = run.records[arm.name], run.quality, run.statistics[arm.name]
    measured = [record for record in records if record.phase == "measured"]
    answered = [record for record in measured if record.error is None]
    timed = timed_answers(records)
    deep = [record for record in records if record.phase == "deep"]
    deep_answered = [record for record in deep if record.error is None]
    kinds = Counter(record.error for record in measured if record.error is not None)
    kinds += Counter(f"{record.error} (deep)" for record in deep if record.error is not None)
    if missing := len(run.ranked.queries) - len(measured):
        kinds["no_record"] += missing
    models: dict[str, set[str]] = {}
    for record in (*answered, *deep_answered):
        for stage, model in record.models.items():
            models.setdefault(stage, set()).add(model)
    degraded = {
        (record.query, f"{item.stage}: {item.reason}")
        for record in (*answered, *deep_answered)
        for item in record.degraded
    }
    stages = arm.pipeline.identified if arm.pipeline else ()
    reranks = {item.id: item.stage.top for item in stages if isinstance(item.stage, Rerank)}
    scored = [share_scored(record.degraded, reranks) for record in answered if reranks]
    used = sorted({*stored_models(arm.pipeline, run.manifest.backends), *chain.from_iterable(models.values())})
    return PipelineReport(
        fingerprint=arm.fingerprint,
        preset=arm.preset,
        models={stage: tuple(sorted(names)) for stage, names in models.items()},
        trained_on={model: trained_on(model) for model in used},
        saw_dataset=tuple(model for model in used if saw_in_training(model, run.experiment.dataset_name)),
        quality={metric: figure.mean for metric, figure in quality.figures[arm.name].items()},
        figures=quality.figures[arm.name],
        intervals=dict(statistics.intervals),
        against_first=statistics.against_first,
        differences=statistics.differences,
        latency_ms=latency_of(records) if sound else latency_of(records).model_copy(update={"least": {}}),
        time_ratio=paired_ratio(_times(run.records[run.baseline]), _times(records))
        if arm.name != run.baseline
        else None,
        path_ms=mean_path(timed, stages) if stages else {},
        stages_ms=stage_times(timed, [item.id for item in stages]),
        gap_ms=gap_time(timed),
        slowest=slowest_answers(timed),
        cached=sum_cached_results(record.cached for record in timed),
        warmup_ms=tuple(item.latency_ms for item in records if item.phase == "warmup" and item.latency_ms is not None),
        cost=run.costs.pipelines.get(arm.name),
        index_bytes=index_bytes(arm.pipeline, run.manifest.backends, run.costs.indexes),
        queries=len(run.ranked.queries),
        judged=quality.judged,
        errors=sum(kinds.values()),
        errors_by_kind=dict(kinds),
        no_hits=sum(record.hits == 0 for record in answered),
        degraded=len({query for query, _ in degraded}),
        degraded_by_stage=dict(Counter(what for _, what in sorted(degraded))),
        reranked_share=fmean(scored) if scored else 1.0,
        excluded_self=sum(record.excluded_self for record in measured),
        warmup=sum(record.phase == "warmup" for record in records),
        deep=len(deep),
        deep_differs=quality.deep_differs.get(arm.name, 0),
        run_queries_not_judged=quality.run_queries_not_judged[arm.name],
        run_file=run.run_files[arm.name],
        imported=run.imported.get(arm.name),
    )


def _times(records: Sequence[AnswerOutcome]) -> dict[str, float]:
    return {record.query: record.latency_ms for record in timed_answers(records) if record.latency_ms is not None}


def stored_models(pipeline: Pipeline | None, backends: Mapping[str, CollectionState]) -> Iterator[str]:
    """Yields the models whose vectors a pipeline searches or scores, and those that expanded its documents."""
    for stage in (item.stage for item in pipeline.identified) if pipeline else ():
        if isinstance(stage, Retrieve | Rerank) and stage.backend in backends:
            stamp = backends[stage.backend].stamp
            expanded = stamp.get(f"expansions.{stage.preset}") if isinstance(stage, Retrieve) else None
            yield from (model for model in (stamp.get("model"), expanded) if model is not None)


def gated_figures(name: str, outcome: PipelineReport, baseline: PipelineReport, *, sound: bool) -> GatedFigures:
    """Returns the figures of a pipeline that gates bound; `baseline`: those of the one that verdicts are against.

    `sound`: nothing but other work is against the times. That only lengthens: a bound that is kept is kept without it.
    """
    verdict, lost = outcome.against_first, {name: outcome, "the baseline": baseline}
    latency = outcome.latency_ms
    return GatedFigures(
        pipeline=name,
        traffic=None,
        p95_ms=latency.p95.unchecked_ms if sound else None,
        p99_ms=latency.p99.unchecked_ms if sound else None,
        least={"p95_ms": latency.least.get("p95"), "p99_ms": latency.least.get("p99")},
        ndcg_at_10=outcome.quality.get("nDCG@10"),
        errors=outcome.errors / outcome.queries if outcome.queries else None,
        degraded=outcome.degraded / outcome.queries if outcome.queries else None,
        cpu_ms=None if outcome.cost is None else outcome.cost.cpu_ms,
        missing={
            "p95_ms": "the times are not valid" if latency.n else "no answer was timed",
            "p99_ms": "the times are not valid"
            if not sound
            else f"{latency.n} of the {MIN_SAMPLES_FOR_P99} answers that a p99 needs",
            "ndcg_at_10": "nDCG@10 is not among the metrics of this run",
            "errors": "no query was sent",
            "degraded": "no query was sent",
            "cpu_ms": "the CPU time of the processes was not measured",
        },
        verdict=verdict if verdict is not None and verdict.metric == "nDCG@10" else None,
        losses=tuple(f"{who} lost queries or answers" for who, one in lost.items() if one.errors or one.degraded),
    )


def with_validity(outcome: PipelineReport, *, valid: bool) -> PipelineReport:
    """Returns the figures with whether their times hold."""
    if outcome.latency_ms.n == 0:
        return outcome
    return outcome.model_copy(update={"latency_ms": outcome.latency_ms.model_copy(update={"valid": valid})})
