"""Defines the table of quality metrics: name, definition, formula, and the names that ranx and trec_eval have for it.

Reads names such as `nDCG@10`. Computing figures of whole runs is left to `evaluator.metrics.quality`.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator

from evaluator.errors import EvaluationError
from evaluator.metrics import metric_formulas as formulas
from evaluator.metrics.metric_formulas import RELEVANCE_LEVEL, Formula, QueryJudgments
from services.contracts.base import Count, Wire

Favours = Callable[[QueryJudgments, str], float]


def relevance(query: QueryJudgments, document: str) -> float:
    """Orders by grade, then unjudged documents, then those judged non-relevant (bpref counts them)."""
    return float(query.gain(document)) or (-1.0 if document in query.grades else 0.0)


def judged_share(query: QueryJudgments, document: str) -> float:
    """Orders documents judged for this query first."""
    return float(document in query.grades)


def judged_anywhere(query: QueryJudgments, document: str) -> float:
    """Orders documents judged for any query first."""
    return float(document in query.anywhere)


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """A row of the table. `{}` in the names of ranx and trec_eval stands for the number of the metric's name.

    `ranx`: computes the figures; None where it lacks the metric or computes another one, and `formula` does.
    `most_grade`: a higher grade is an error, because the gain of one would leave the range of floats.
    `favours`: the documents with the highest values first are the best order of tied documents, for this metric.
    """

    definition: str
    formula: Formula
    ranx: str | None = None
    trec_eval: str | None = None
    favours: Favours = relevance
    lower_is_better: bool = False
    most_grade: int | None = None


# `@k`: a cutoff, 1 to 1000. `.p`: a persistence in hundredths, 01 to 99. Without either: as deep as the ranking.
# -M: trec_eval's option that cuts the run at a depth.
FAMILIES: dict[str, MetricFamily] = {
    "nDCG@k": MetricFamily(
        "sum of grade / log2(rank + 1) over the first k, divided by that of the ideal order of all judged documents",
        formulas.ndcg,
        ranx="ndcg@{}",
        trec_eval="ndcg_cut.{}",
    ),
    "nDCG_exp@k": MetricFamily(
        "nDCG@k with the gain 2^grade - 1 in place of the grade; equal to it for grades 0 and 1",
        formulas.ndcg_exp,
        ranx="ndcg_burges@{}",
        most_grade=1000,
    ),
    "MRR@k": MetricFamily(
        "1 / rank of the first relevant document; 0 if none is among the first k",
        formulas.reciprocal_rank,
        ranx="mrr@{}",
        trec_eval="-M {} recip_rank",
    ),
    "MAP": MetricFamily(
        "mean over all relevant documents of the precision at their ranks (0 if not found); as deep as the ranking",
        formulas.average_precision,
        ranx="map",
        trec_eval="map",
    ),
    "MAP@k": MetricFamily(
        "MAP over the first k; divided by all relevant documents, not by min(k, all)",
        formulas.average_precision,
        ranx="map@{}",
        trec_eval="map_cut.{}",
    ),
    "P@k": MetricFamily(
        "relevant documents among the first k, divided by k however many are shown",
        formulas.precision,
        ranx="precision@{}",
        trec_eval="P.{}",
    ),
    "Recall@k": MetricFamily(
        "relevant documents among the first k, divided by all relevant ones",
        formulas.recall,
        ranx="recall@{}",
        trec_eval="recall.{}",
    ),
    "R_cap@k": MetricFamily(
        "relevant documents among the first k, divided by min(k, all relevant ones)", formulas.capped_recall
    ),
    "success@k": MetricFamily(
        "1 if a relevant document is among the first k, else 0",
        formulas.success,
        ranx="hit_rate@{}",
        trec_eval="success.{}",
    ),
    "judged@k": MetricFamily(
        "share of the first k shown that was judged for the query; no value where nothing is shown",
        formulas.judged,
        favours=judged_share,
    ),
    "hole@k": MetricFamily("1 - judged@k; lower is better", formulas.hole, favours=judged_share, lower_is_better=True),
    "hole_beir@k": MetricFamily(
        "documents among the first k that were judged for no query at all, divided by k; lower is better",
        formulas.hole_beir,
        favours=judged_anywhere,
        lower_is_better=True,
    ),
    # Not by ranx: it is NaN for a query without judged non-relevant documents, where trec_eval has a figure.
    "bpref": MetricFamily(
        "mean over relevant documents of 1 - (judged non-relevant ones above it, at most R) / min(R, N); R and N: "
        "documents judged relevant and not; unjudged ones are passed over; as deep as the ranking",
        formulas.bpref,
        trec_eval="bpref",
    ),
    # Not by ranx: it takes the grade where the definition has 1, and exceeds 1 on graded judgments.
    "RBP.p": MetricFamily(
        "(1 - p) × sum of p^(rank - 1) over relevant documents, p in hundredths (RBP.95: 0.95); as deep as the ranking",
        formulas.rank_biased_precision,
    ),
    "RBP": MetricFamily("RBP.80", lambda query, ranking, _: formulas.rank_biased_precision(query, ranking, 80)),
}

DEFAULT_METRICS = ("nDCG@10", "MRR@10", "MAP", "Recall@100", "P@10", "R_cap@100", "judged@10")


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric by its full name. `number`: the k or p of the name, 0 without one."""

    name: str
    form: str  # its key in FAMILIES
    number: int

    @property
    def family(self) -> MetricFamily:
        """The metric's row of the table."""
        return FAMILIES[self.form]

    @property
    def cutoff(self) -> int | None:
        """The depth at which the metric cuts a ranking; None: it is as deep as the ranking."""
        return self.number if self.form.endswith("@k") else None

    def label(self, depth: int) -> str:
        """Returns the name with the depth that a ranking of `depth` documents gives it: MAP@100."""
        return self.name if self.cutoff else f"{self.name}@{depth}"


def parse_metric(name: str) -> Metric:
    """Reads the name of a metric. Raises ValueError with the known forms."""
    cut, persistent = re.fullmatch(r"(.+)@([1-9][0-9]{0,3})", name), re.fullmatch(r"(.+)\.([0-9][0-9])", name)
    if cut and int(cut[2]) <= 1000:
        metric = Metric(name, f"{cut[1]}@k", int(cut[2]))
    elif persistent and int(persistent[2]):
        metric = Metric(name, f"{persistent[1]}.p", int(persistent[2]))
    else:
        metric = Metric(name, name, 0)
    if metric.form not in FAMILIES or (metric.form == name and name.endswith(("@k", ".p"))):
        forms = ", ".join(FAMILIES)
        raise ValueError(f"no metric {name!r}; there are {forms}, with k from 1 to 1000 and p from 01 to 99")
    return metric


def expect_higher_is_better(name: str) -> None:
    """Raises EvaluationError for a metric that has no verdict: an unknown one, or one of which less is better."""
    try:
        metric = parse_metric(name)
    except ValueError as error:
        raise EvaluationError(str(error)) from error
    if metric.family.lower_is_better:
        raise EvaluationError(f"{name}: lower is better; compare judged@k, which is 1 less it")


def _known(name: str) -> str:
    return parse_metric(name).name


MetricName = Annotated[str, AfterValidator(_known)]


class MetricConvention(Wire):
    """The meaning of a metric's name. `ranx`, `trec_eval`: their names for it; null where they lack it."""

    label: str  # the name with its depth
    depth: Count  # documents of each ranking that the metric looks at, at most
    definition: str
    ranx: str | None
    trec_eval: str | None


class Conventions(Wire):
    """The rules by which the figures of a report are computed."""

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
