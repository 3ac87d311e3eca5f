"""Puts beside every mean what it is a mean of, what was not judged, and what the order of tied documents could make it.

Reads the answers of an arm, because run files hold no scores. Metrics themselves are left to `evaluator.quality`.
"""

from collections.abc import Sequence

from pydantic import FiniteFloat

from evaluator.answers import AnswerRecord
from evaluator.metric_table import parse_metric
from evaluator.quality import Grades, PerQuery, means
from evaluator.tie_intervals import TieInterval, bounds_of_ties, mean_bounds, tied_groups
from services.contracts.base import Count, Wire


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


def quality_figures(
    judgments: Grades, records: Sequence[AnswerRecord], figures: PerQuery, queries: Sequence[str], depth: int
) -> dict[str, QualityFigure]:
    """Returns the figures of one arm by metric. `figures`: of the rankings in `records`, which were cut at `depth`."""
    measured = {record.query: record for record in records if record.phase == "measured"}
    asked = [measured[query] for query in queries if query in measured]
    answered = [record for record in asked if record.error is None]
    bounds = bounds_of_ties(judgments, {record.query: tied_groups(record.ranking) for record in answered}, figures)
    found = {}
    for name, mean in means(figures).items():
        metric = parse_metric(name)
        reached = metric.cutoff or depth
        found[name] = QualityFigure(
            label=metric.label(depth),
            mean=mean,
            ties=mean_bounds(bounds[name]),
            depth=reached,
            judged=len(queries),
            queries=sum(value is not None for value in figures[name].values()),
            lost=len(queries) - len(answered),
            no_hits=sum(not record.ranking for record in answered),
            excluded_self=sum(record.excluded_self for record in asked),
            unjudged=_unjudged_share(judgments, answered, reached),
        )
    return found


def _unjudged_share(judgments: Grades, answered: Sequence[AnswerRecord], depth: int) -> float | None:
    shown = [judgments[record.query].get(name, -1) for record in answered for name in record.ids[:depth]]
    return sum(grade < 0 for grade in shown) / len(shown) if shown else None
