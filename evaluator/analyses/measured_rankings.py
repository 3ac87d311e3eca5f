"""Measures one pipeline over one set as the step `quality` does, and reads what its queries and processes took."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from evaluator.analyses.analysed_runs import AnalysedRun
from evaluator.analyses.analysis_report import ProcessFigures, RankingFigures, RejudgedFigures, ServedFigures
from evaluator.datasets.text_files import sha256
from evaluator.errors import EvaluationError
from evaluator.metrics.quality import Grades, PerQuery, Rankings, means, within_depth
from evaluator.report.pipeline_report import stored_models
from evaluator.report.run_report import Report
from evaluator.runs.answers import AnswerRecord, read_answers
from evaluator.runs.manifest import Manifest
from evaluator.runs.trec_runs import read_run
from evaluator.steps.quality_figures import ArmAnswers, arm_answers, measure_answers
from evaluator.steps.rank import RankedArm
from evaluator.steps.run_import import IMPORTED, ImportReport
from evaluator.steps.validity import arm_faults
from services.contracts.pipelines import Fuse

NDCG, RECALL, CAPPED_RECALL, HOLE = METRICS = ("nDCG@10", "Recall@100", "R_cap@100", "hole@10")
FIRST = 10  # documents whose lengths are looked at
DEEP = 100  # documents that the two kinds of recall look at


@dataclass(frozen=True, slots=True)
class MeasuredRanking:
    """The figures of a ranking, and the ids of the first ten documents of every query, one after the other.

    `ndcg`: nDCG@10 by query. `rankings`: by query; None of a pipeline that fuses several.
    """

    figures: RankingFigures
    first_ten: tuple[str, ...]
    ndcg: Mapping[str, float | None]
    rankings: Rankings | None


def measure_ranking(run: AnalysedRun, pipeline: str, own: Grades, added: Grades | None) -> MeasuredRanking:
    """Measures a pipeline with a set's own judgments, and once more where judgments were added."""
    folder, ranked = run.folder, run.ranked
    file = folder.run_file(pipeline)
    records = tuple(read_answers(folder.answers(pipeline)))
    answers, rankings = arm_answers(records, ranked.timed_top, ranked.depth), read_run(file)
    by_query = _figures(own, answers, rankings, ranked.queries, METRICS, ranked.depth)
    figures = means(by_query)
    after = None
    if added is not None:
        again = means(_figures(added, answers, rankings, ranked.queries, (NDCG, HOLE), ranked.depth))
        after = RejudgedFigures(ndcg_at_10=again[NDCG], hole_at_10=again[HOLE])
    arm = next(arm for arm in ranked.arms if arm.name == pipeline)
    imported = folder.read(IMPORTED, ImportReport).arms.get(pipeline) if folder.has(IMPORTED) else None
    shown = answers.of(NDCG)
    queries = set(ranked.queries)
    measured = [record for record in records if record.phase != "warmup" and record.query in queries]
    return MeasuredRanking(
        figures=RankingFigures(
            run=folder.name,
            run_file_sha256=sha256(file),
            depth=ranked.depth,
            lost=len({record.query for record in measured if record.error is not None}),
            degraded=len({record.query for record in measured if record.degraded}),
            faults=tuple(arm_faults(pipeline, arm, run.manifest, records, imported)),
            ndcg_at_10=figures[NDCG],
            recall_at_100=figures[RECALL],
            capped_recall_at_100=figures[CAPPED_RECALL],
            hole_at_10=figures[HOLE],
            after=after,
            models=tuple(_models(arm, run.manifest, records)),
        ),
        first_ten=tuple(name for query in ranked.queries if query in shown for name in shown[query].ids[:FIRST]),
        ndcg=by_query[NDCG],
        rankings=None if arm.pipeline and isinstance(arm.pipeline.identified.source.stage, Fuse) else rankings,
    )


def _figures(
    judgments: Grades,
    answers: ArmAnswers,
    rankings: Rankings,
    queries: tuple[str, ...],
    metrics: tuple[str, ...],
    depth: int,
) -> PerQuery:
    return within_depth(measure_answers(judgments, answers, rankings, queries, metrics), depth)


def _models(arm: RankedArm, manifest: Manifest, records: Sequence[AnswerRecord]) -> Iterator[str]:
    """Yields the models of what a pipeline reads, then those that re-ranked, without the hashes of their weights."""
    reranked = (model for record in records for model in record.models.values())
    models = chain(stored_models(arm.pipeline, manifest.backends), reranked)
    yield from dict.fromkeys(name.partition("@")[0] for name in models)


def served_figures(runs: Mapping[str, AnalysedRun]) -> dict[str, ServedFigures]:
    """Returns the figures by pipeline, of those whose run has a report and was not imported."""
    figures = {}
    for name, run in runs.items():
        report = _report(run)
        outcome = None if report is None else report.pipelines.get(name)
        if outcome is not None and outcome.imported is None:
            figures[name] = ServedFigures(
                p50_ms=outcome.latency_ms.p50.unchecked_ms,
                p95_ms=outcome.latency_ms.p95.unchecked_ms,
                times_hold=outcome.latency_ms.valid is not False,
                cpu_ms=None if outcome.cost is None else outcome.cost.cpu_ms,
                index_bytes=outcome.index_bytes,
            )
    return figures


def process_figures(runs: Mapping[str, AnalysedRun]) -> Iterator[ProcessFigures]:
    """Yields the figures of each named process of each run."""
    for run in {run.folder.path: run for run in runs.values()}.values():
        report = _report(run)
        if report is None:
            continue
        memory = {
            name: process.memory_bytes
            for outcome in report.pipelines.values()
            if outcome.cost is not None
            for name, process in outcome.cost.processes.items()
        }
        for name, memory_bytes in memory.items():
            yield ProcessFigures(
                run=run.folder.name,
                process=name,
                cpu_ms_a_document=None if report.ingest is None else report.ingest.cpu_ms_a_document(name),
                memory_bytes=memory_bytes,
            )


def _report(run: AnalysedRun) -> Report | None:
    """Returns the report of a run; None: there is none, or a file that it was made from changed since."""
    try:
        return run.folder.read("report.json", Report)
    except EvaluationError:
        return None
