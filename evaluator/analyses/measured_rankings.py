"""Measures one pipeline over one set from the files of its run, as the step `quality` does."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from evaluator.analyses.analysed_runs import AnalysedRun
from evaluator.analyses.analysis_report import RankingFigures, RejudgedFigures
from evaluator.datasets.text_files import sha256
from evaluator.metrics.quality import Grades, PerQuery, Rankings, means, within_depth
from evaluator.report.pipeline_report import stored_models
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
    found = _figures(own, answers, rankings, ranked.queries, METRICS, ranked.depth)
    figures = means(found)
    after = None
    if added is not None:
        again = means(_figures(added, answers, rankings, ranked.queries, (NDCG, HOLE), ranked.depth))
        after = RejudgedFigures(ndcg_at_10=again[NDCG], hole_at_10=again[HOLE])
    arm = next(one for one in ranked.arms if one.name == pipeline)
    imported = folder.read(IMPORTED, ImportReport).arms.get(pipeline) if folder.has(IMPORTED) else None
    shown = answers.of(NDCG)
    asked = set(ranked.queries)
    return MeasuredRanking(
        figures=RankingFigures(
            run=folder.name,
            run_file_sha256=sha256(file),
            depth=ranked.depth,
            lost=len({one.query for one in records if one.error is not None and one.phase != "warmup"} & asked),
            degraded=len({one.query for one in records if one.degraded and one.phase != "warmup"} & asked),
            faults=tuple(arm_faults(pipeline, arm, run.manifest, records, imported)),
            ndcg_at_10=figures[NDCG],
            recall_at_100=figures[RECALL],
            capped_recall_at_100=figures[CAPPED_RECALL],
            hole_at_10=figures[HOLE],
            after=after,
            models=tuple(_models(arm, run.manifest, records)),
        ),
        first_ten=tuple(name for query in ranked.queries if query in shown for name in shown[query].ids[:FIRST]),
        ndcg=found[NDCG],
        rankings=None if _fuses(arm) else rankings,
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


def _fuses(arm: RankedArm) -> bool:
    return arm.pipeline is not None and isinstance(arm.pipeline.identified.source.stage, Fuse)


def _models(arm: RankedArm, manifest: Manifest, records: Sequence[AnswerRecord]) -> Iterator[str]:
    """Yields the models of what a pipeline reads, then those that re-ranked, without the hashes of their weights."""
    reranked = (model for record in records for model in record.models.values())
    found = chain(stored_models(arm.pipeline, manifest.backends), reranked)
    yield from dict.fromkeys(name.partition("@")[0] for name in found)
