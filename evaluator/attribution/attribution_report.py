"""Defines attribution.json and builds it: fates of relevant documents, and nDCG after each stage."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from pydantic import FiniteFloat

from evaluator.attribution.candidates import QueryCandidates
from evaluator.attribution.losses import ANSWER, FATES, DocumentVerdict, QueryFates
from evaluator.metrics.metric_formulas import RELEVANCE_LEVEL
from evaluator.metrics.quality import Grades, means, measure
from evaluator.runs.run_folder import StepFile
from evaluator.steps.run_judgments import JudgmentsOrigin
from services.contracts.base import Count, Wire
from services.contracts.pipelines import Pipeline, Retrieve

ATTRIBUTION = "attribution.json"


class DocumentFate(Wire):
    """A line of attribution/<arm>.jsonl: a relevant document of a query, and its fate."""

    query: str
    document: str
    grade: int
    fate: str
    stage: str
    ranks: dict[str, Count]  # by stage that had it
    passed_by: tuple[str, ...] = ()
    only_unjudged: bool = False  # a demotion by documents that all have no judgment


class WaterfallStep(Wire):
    """nDCG after a stage, and what that stage added. The first step is the best leg: it adds all it has."""

    stage: str
    ndcg: FiniteFloat
    added: FiniteFloat


class ArmAttribution(Wire):
    """Relevant documents of an arm by fate; they add up to `relevant`. `waterfall`: its `added` add up to `ndcg`."""

    relevant: Count
    fates: dict[str, Count]
    stages: dict[str, dict[str, Count]]  # fate → stage → documents
    only_unjudged: dict[str, Count]  # fate → of these demotions, those by unjudged documents alone
    legs: dict[str, FiniteFloat]  # nDCG of every leg alone
    waterfall: tuple[WaterfallStep, ...]
    ndcg: FiniteFloat
    run_ndcg: FiniteFloat | None  # of the run's own answers
    otherwise: Count  # queries whose first hits are not those of the run
    degraded: Count
    lost: Count  # queries without an answer


class AttributionReport(StepFile):
    """attribution.json."""

    schema_version: Literal[1] = 1
    made_from: dict[str, str]
    experiment: str
    dataset: str
    judgments: JudgmentsOrigin  # those that quality.json was measured by
    metric: str  # of the waterfall
    top: Count
    queries: Count
    failed: Count  # requests for deep legs or scores without an answer: documents may count as `in no leg`
    arms: dict[str, ArmAttribution]


class ArmFates:
    """Collects the fates of an arm's relevant documents, query by query."""

    def __init__(self, name: str, pipeline: Pipeline, top: int) -> None:
        self._name, self._pipeline, self._top = name, pipeline, top
        self.lines: list[DocumentFate] = []
        self._rankings: dict[str, dict[str, tuple[str, ...]]] = {}  # stage → query → ids
        self._answers: dict[str, tuple[str, ...]] = {}  # apart: a stage may be called `answer`
        self._degraded = self._lost = 0

    def add(self, given: QueryCandidates, grades: Mapping[str, int]) -> None:
        """Adds a query. `grades`: its judgments by document."""
        own = given.arms[self._name]
        self._lost += own.error is not None
        self._degraded += bool(own.degraded)
        fates = QueryFates(self._pipeline, given, self._name, self._top)
        for document, grade in grades.items():
            if grade >= RELEVANCE_LEVEL:
                self.lines.append(_line(given.query, document, grade, fates.of(document), grades))
        for stage, candidates in own.stages.items():
            ids = tuple(hit.id for hit in candidates.ranking[: self._top])
            self._rankings.setdefault(stage, {})[given.query] = ids
        self._answers[given.query] = own.hits[: self._top]

    def attribution(
        self, judgments: Grades, queries: Sequence[str], metric: str, run: Mapping[str, Sequence[str]]
    ) -> ArmAttribution:
        """Returns the figures. `run`: the rankings of the run's own answers, by query."""
        ndcg = {stage: _mean(judgments, rankings, queries, metric) for stage, rankings in self._rankings.items()}
        legs = {leg.id: ndcg.get(leg.id, 0.0) for leg in self._pipeline.identified if isinstance(leg.stage, Retrieve)}
        final = _mean(judgments, self._answers, queries, metric)
        fates = Counter(line.fate for line in self.lines)
        stages: dict[str, Counter[str]] = {fate: Counter() for fate in FATES}
        for line in self.lines:
            stages[line.fate][line.stage] += 1
        return ArmAttribution(
            relevant=len(self.lines),
            fates={fate: fates[fate] for fate in FATES},
            stages={fate: dict(counts) for fate, counts in stages.items() if counts and fate != "found"},
            only_unjudged=dict(Counter(line.fate for line in self.lines if line.only_unjudged)),
            legs=legs,
            waterfall=_waterfall(self._pipeline, legs, ndcg, final),
            ndcg=final,
            run_ndcg=_mean(judgments, {query: run.get(query, ())[: self._top] for query in queries}, queries, metric),
            otherwise=sum(tuple(run.get(query, ())[: self._top]) != self._answers.get(query, ()) for query in queries),
            degraded=self._degraded,
            lost=self._lost,
        )


def _line(query: str, document: str, grade: int, verdict: DocumentVerdict, grades: Mapping[str, int]) -> DocumentFate:
    return DocumentFate(
        query=query,
        document=document,
        grade=grade,
        fate=verdict.fate,
        stage=verdict.stage,
        ranks=dict(verdict.ranks),
        passed_by=verdict.passed_by,
        only_unjudged=bool(verdict.passed_by) and not any(name in grades for name in verdict.passed_by),
    )


def _waterfall(
    pipeline: Pipeline, legs: Mapping[str, float], ndcg: Mapping[str, float], final: float
) -> tuple[WaterfallStep, ...]:
    """Returns the steps from the best leg through the source's fusion and the later stages to the answer."""
    best = max(legs, key=lambda leg: legs[leg])
    source = pipeline.identified.source.id
    later = [stage.id for stage in pipeline.identified.later if stage.id in ndcg]
    steps, before = [], 0.0
    for stage in dict.fromkeys((best, source, *later)):
        after = ndcg.get(stage, 0.0)
        steps.append(WaterfallStep(stage=stage, ndcg=after, added=after - before))
        before = after
    if final != before:
        steps.append(WaterfallStep(stage=ANSWER, ndcg=final, added=final - before))
    return tuple(steps)


def _mean(judgments: Grades, rankings: Mapping[str, Iterable[str]], queries: Sequence[str], metric: str) -> float:
    mean = means(measure(judgments, {query: tuple(ids) for query, ids in rankings.items()}, queries, [metric]))[metric]
    return 0.0 if mean is None else mean
