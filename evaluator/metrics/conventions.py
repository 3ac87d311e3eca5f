"""States the conventions behind the figures of a report, for readers and for tools that compare reports."""

from collections.abc import Sequence

from evaluator.metrics.metric_formulas import RELEVANCE_LEVEL
from evaluator.metrics.metric_table import parse_metric
from services.contracts.base import Count, Wire


class MetricConvention(Wire):
    """What a metric's name stands for. `ranx`, `trec_eval`: their names for it; null where they lack it."""

    label: str  # the name with its depth
    depth: Count  # documents of each ranking that the metric looks at, at most
    definition: str
    ranx: str | None
    trec_eval: str | None


class Conventions(Wire):
    """How the figures of a report are computed."""

    gain: str
    discount: str
    ideal: str
    relevance_level: Count  # the lowest grade that counts as relevant
    negative_judgments: str
    order: str
    ties: str
    denominators: str
    depth: Count  # of the rankings
    metrics: dict[str, MetricConvention]


def state_conventions(metrics: Sequence[str], depth: int) -> Conventions:
    """Returns the conventions of a report with these metrics, over rankings of that depth."""
    return Conventions(
        gain="the grade; in nDCG_exp 2^grade - 1",
        discount="log2(rank + 1), ranks from 1",
        ideal="all judged documents, best first, cut at k",
        relevance_level=RELEVANCE_LEVEL,
        negative_judgments="count as unjudged",
        order="that of the answer; of imported run files descending score, then ascending id",
        ties="worst, expected, best: means with each run of equal scores in its worst order, over its orders, in its "
        "best order; documents below the depth are not considered",
        denominators="every judged query that was asked for; one that was lost, shows nothing or has no relevant "
        "document counts as 0; judged@k and hole@k have no value for one that shows nothing, and leave it out",
        depth=depth,
        metrics={name: _convention(name, depth) for name in metrics},
    )


def _convention(name: str, depth: int) -> MetricConvention:
    metric = parse_metric(name)
    ranx, trec_eval = (
        None if form is None else form.format(metric.number) for form in (metric.family.ranx, metric.family.trec_eval)
    )
    return MetricConvention(
        label=metric.label(depth),
        depth=metric.cutoff or depth,
        definition=metric.family.definition,
        ranx=ranx,
        trec_eval=trec_eval,
    )
