"""Puts beside every mean what it is a mean of, what was not judged, and what ties could make it; defines quality.json.

Reads the answers of an arm, because run files hold no scores. Metrics themselves are left to
`evaluator.metrics.quality`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import FiniteFloat

from evaluator.datasets.added_judgments import AddedJudgments
from evaluator.metrics.metric_table import parse_metric
from evaluator.metrics.quality import (
    Grades,
    PerQuery,
    Rankings,
    TieInterval,
    bounds_of_ties,
    mean_bounds,
    means,
    measure,
    tied_groups,
)
from evaluator.runs.answers import AnswerRecord, records_of
from evaluator.runs.run_folder import StepFile
from services.contracts.base import Count, Wire

CHANGE_METRICS = ("nDCG@10", "judged@10")  # shown before and after a merge of judgments


class QualityFigure(Wire):
    """The mean of a metric over the judged queries that were asked for."""

    label: str  # the name with its depth: MAP@100
    mean: FiniteFloat | None  # unrounded; null: no query has a value, or the rankings were cut above the cutoff
    ties: TieInterval | None  # null where `mean` is
    depth: Count  # documents of each ranking that the metric looks at, at most
    judged: Count  # judged queries that were asked for
    queries: Count  # those of `judged` that have a value: the denominator
    lost: Count  # of `judged`, without a usable answer: their rankings are empty
    no_hits: Count  # of `judged`, answered with an empty ranking
    excluded_self: Count  # of `judged`, those whose own document was excluded
    unjudged: FiniteFloat | None  # share of all documents shown down to `depth` that has no judgment for its query


@dataclass(frozen=True, slots=True)
class ArmAnswers:
    """The answers of an arm by query: the timed ones, and those of deeper requests (the same where there were none)."""

    timed: Mapping[str, AnswerRecord]
    deep: Mapping[str, AnswerRecord]
    timed_top: int  # hits that a timed request asked for
    depth: int  # hits that a deeper one asked for

    def of(self, metric: str) -> Mapping[str, AnswerRecord]:
        """Returns the answers that a metric is computed from: the timed ones wherever it looks no deeper."""
        return self.timed if (parse_metric(metric).cutoff or self.depth) <= self.timed_top else self.deep

    @property
    def differing(self) -> int:
        """Queries whose deeper answer does not begin as the timed one, where neither is degraded."""
        both = [(self.timed[query], deep) for query, deep in self.deep.items() if deep.error is None]
        whole = [(timed, deep) for timed, deep in both if not (timed.degraded or deep.degraded)]
        return sum(timed.ids != deep.ids[: self.timed_top] for timed, deep in whole)


def arm_answers(records: Sequence[AnswerRecord], timed_top: int | None, depth: int) -> ArmAnswers:
    """Sorts the records of an arm. `timed_top`: None where nothing was timed (imported)."""
    timed, top = records_of(records, "measured"), depth if timed_top is None else timed_top
    return ArmAnswers(timed, records_of(records, "deep") if top < depth else timed, top, depth)


def measure_answers(
    judgments: Grades, answers: ArmAnswers, rankings: Rankings, queries: Sequence[str], metrics: Sequence[str]
) -> PerQuery:
    """Computes metrics as `quality.measure` does, each from the answers that it belongs to.

    `rankings`: of the run file, which holds the deeper answers.
    """
    timed = [metric for metric in metrics if answers.of(metric) is answers.timed]
    shallow = measure(judgments, {query: answer.ids for query, answer in answers.timed.items()}, queries, timed)
    deep = measure(judgments, rankings, queries, [metric for metric in metrics if metric not in timed])
    return {metric: shallow[metric] if metric in timed else deep[metric] for metric in metrics}


def quality_figures(
    judgments: Grades, answers: ArmAnswers, figures: PerQuery, queries: Sequence[str]
) -> dict[str, QualityFigure]:
    """Returns the figures of one arm by metric. `figures`: of `answers`."""
    depth = answers.depth
    # Ties are looked up in the deeper answers: a document tied with one within the cutoff may stand below it.
    rankings = {query: tied_groups(answer.ranking) for query, answer in answers.deep.items() if answer.error is None}
    bounds = bounds_of_ties(judgments, rankings, figures)
    excluded = sum(record.excluded_self for record in _asked(answers.timed, queries))
    by_metric = {}
    for name, mean in means(figures).items():
        metric = parse_metric(name)
        reached = metric.cutoff or depth
        answered = [record for record in _asked(answers.of(name), queries) if record.error is None]
        by_metric[name] = QualityFigure(
            label=metric.label(depth),
            mean=mean,
            ties=mean_bounds(bounds[name]),
            depth=reached,
            judged=len(queries),
            queries=sum(value is not None for value in figures[name].values()),
            lost=len(queries) - len(answered),
            no_hits=sum(not record.ranking for record in answered),
            excluded_self=excluded,
            unjudged=_unjudged_share(judgments, answered, reached),
        )
    return by_metric


def _asked(records: Mapping[str, AnswerRecord], queries: Sequence[str]) -> list[AnswerRecord]:
    return [records[query] for query in queries if query in records]


def _unjudged_share(judgments: Grades, answered: Sequence[AnswerRecord], depth: int) -> float | None:
    shown = [judgments[record.query].get(name, -1) for record in answered for name in record.ids[:depth]]
    return sum(grade < 0 for grade in shown) / len(shown) if shown else None


class JudgmentChange(Wire):
    """Changes by files merged over the dataset's judgments. Figures: means by arm and metric of CHANGE_METRICS.

    null where the rankings are cut above 10, or no query has a value.
    """

    files: tuple[AddedJudgments, ...]
    before: dict[str, dict[str, FiniteFloat | None]]  # by the dataset's judgments alone
    after: dict[str, dict[str, FiniteFloat | None]]


class QualityReport(StepFile):
    """quality.json: unrounded means per arm over `judged` queries, and what belongs to each of them."""

    made_from: dict[str, str]
    arms: dict[str, dict[str, FiniteFloat | None]]  # null: no query has a value
    figures: dict[str, dict[str, QualityFigure]]  # by arm, then metric
    judged: Count
    run_queries_not_judged: dict[str, Count]  # in the run file, but not among the judged ones: ignored
    deep_differs: dict[str, Count] = {}  # queries whose deeper answer does not begin as the timed one
    added_judgments: JudgmentChange | None = None  # null: measured by the dataset's judgments alone


class QueryFigures(Wire):
    """A line of quality/<arm>.jsonl."""

    query: str
    # null: the query has none (judged@k where nothing is shown), or the rankings were cut above the cutoff
    figures: dict[str, FiniteFloat | None]
