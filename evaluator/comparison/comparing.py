"""Compares pairs of pipelines from the files of their runs: verdicts, other metrics, slices, examples.

Reads run folders; writes nothing, prints nothing. The page is left to `comparison_page`.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, FiniteFloat

from evaluator.comparison.compared_rankings import ComparedRanking, rankings_of, resolve_compared
from evaluator.comparison.examples import QueryExample, examples_of, texts_of, with_texts
from evaluator.comparison.shared_queries import Rankings, SharedQueries, find_shared_queries
from evaluator.datasets.added_judgments import AddedJudgments
from evaluator.datasets.ids import read_id
from evaluator.datasets.queries import queries_file
from evaluator.datasets.text_files import HashedLines, json_objects
from evaluator.errors import EvaluationError
from evaluator.metrics.metric_table import MetricName, expect_higher_is_better, parse_metric
from evaluator.metrics.paired_differences import interval, mean, sorted_differences
from evaluator.metrics.quality import Grades, PerQuery, measure
from evaluator.metrics.verdict import (
    MARGIN,
    NoWorseGate,
    PairedComparison,
    ScoredPair,
    compare_pairs,
    no_worse_gate,
    scored_pair,
)
from evaluator.steps.run_judgments import JudgmentsOrigin, judgments_of_all
from services.contracts.base import Count, Wire

# A field of `metadata` with more values is an identifier or a measurement, and no grouping.
MOST_VALUES = 12
Margin = Annotated[float, Field(gt=0.0, le=1.0)]


class ComparisonSettings(Wire):
    """Options of a comparison."""

    metric: MetricName = "nDCG@10"  # the one that has a verdict
    margin: Margin = MARGIN  # within it, two pipelines are the same
    no_worse_than: Margin | None = None  # the gate: how much worse none may be
    seed: Count = 20_250_601
    examples: Annotated[int, Field(strict=True, ge=0, le=100)] = 3  # gains and losses shown, each


class MetricDifference(Wire):
    """A metric of a pair, without a test: its verdict would need a family of its own."""

    queries: Count  # that have a value in both
    first_mean: FiniteFloat
    second_mean: FiniteFloat
    difference: FiniteFloat
    interval: tuple[FiniteFloat, FiniteFloat] | None  # null for a single query


class PairReport(Wire):
    """Everything about one pair."""

    verdict: PairedComparison
    depth: Count
    metrics: dict[str, MetricDifference]  # by label: MAP@100
    overlap_at_10: FiniteFloat  # mean over the queries
    gate: NoWorseGate | None
    differences: tuple[FiniteFloat, ...] = ()  # of the queries, as in report.json
    gains: tuple[QueryExample, ...]
    losses: tuple[QueryExample, ...]


class SliceDifference(MetricDifference):
    """The difference of a pair on some of the queries, without a test."""

    first: str
    second: str


class SliceReport(Wire):
    """The pairs on the queries whose metadata has a value."""

    field: str
    value: str
    differences: tuple[SliceDifference, ...]


class ComparisonReport(Wire):
    """Outcome of a comparison. Within a version, fields are only added."""

    schema_version: Literal[2] = 2
    dataset: str
    split: str
    metric: str  # with its depth: MAP@100
    seed: Count
    notes: tuple[str, ...]  # what was left out or may mislead
    pairs: tuple[PairReport, ...]
    slices: tuple[SliceReport, ...]
    no_worse: bool | None  # every gate passed; null: `no_worse_than` was not given
    added_judgments: tuple[AddedJudgments, ...] = ()  # files merged over the judgments of the dataset
    judgments: JudgmentsOrigin  # all files behind the figures


@dataclass(frozen=True, slots=True)
class _MeasuredPair:
    first: ComparedRanking
    second: ComparedRanking
    shared: SharedQueries
    rankings: tuple[Rankings, Rankings]
    figures: tuple[PerQuery, PerQuery]

    def values(self, metric: str, queries: Sequence[str] | None = None) -> tuple[dict[str, float], dict[str, float]]:
        """Returns query → value of both sides, for the queries that have a value in both."""
        wanted = self.shared.queries if queries is None else queries
        first, second = (
            {query: value for query in wanted if (value := side[metric].get(query)) is not None}
            for side in self.figures
        )
        both = [query for query in first if query in second]
        return {query: first[query] for query in both}, {query: second[query] for query in both}

    def scored(self, metric: str, queries: Sequence[str] | None = None) -> ScoredPair:
        """Returns the values of both sides, in the order of the queries."""
        return scored_pair(self.first.label, self.second.label, *self.values(metric, queries))


def compare(
    words: Sequence[str],
    runs: Path,
    settings: ComparisonSettings,
    dataset: Path | None = None,
    split: str | None = None,
    added: Sequence[Path] = (),
    baseline: str | None = None,
) -> ComparisonReport:
    """Compares what the words name (see `resolve_compared`). Raises EvaluationError.

    `added`: qrels files that are merged over the judgments of the dataset; without: those that `quality` merged.
    `baseline`: the pipeline of the first word that the others are set against.
    """
    expect_higher_is_better(settings.metric)
    with tempfile.TemporaryDirectory(prefix="compare-") as imports:
        pairs = resolve_compared(words, runs, Path(imports), dataset, split, baseline)
        first = pairs[0][0]
        folders = {ranking.folder.path: ranking.folder for pair in pairs for ranking in pair}
        merged = judgments_of_all(list(folders.values()), added)
        judgments = merged.grades
        measured = [_measured(ranking, other, judgments, settings.metric) for ranking, other in pairs]
        label = _label(settings.metric, measured)
        verdicts = _verdicts(measured, judgments, label, settings)
        reports = [
            _pair_report(pair, verdict, judgments, settings) for pair, verdict in zip(measured, verdicts, strict=True)
        ]
        every = tuple(dict.fromkeys(query for pair in measured for query in pair.shared.queries))
        fields = query_slices(queries_file(first.experiment.directory), every)
        return ComparisonReport(
            dataset=first.experiment.dataset_name,
            split=first.experiment.split,
            metric=label,
            seed=settings.seed,
            notes=(
                *(file.sentence for file in merged.origin.added),
                *dict.fromkeys(note for pair in measured for note in pair.shared.notes),
                *_not_sliced(fields, len(every)),
            ),
            pairs=_with_texts(first, reports),
            slices=tuple(chain(*(_slices_of_field(measured, *item, settings) for item in fields.items()))),
            no_worse=all(pair.gate.passed for pair in reports if pair.gate) if settings.no_worse_than else None,
            added_judgments=merged.origin.added,
            judgments=merged.origin,
        )


def _verdicts(
    pairs: Sequence[_MeasuredPair], judgments: Grades, label: str, settings: ComparisonSettings
) -> tuple[PairedComparison, ...]:
    """Returns the verdict of each pair. Of pipelines of one run, the family is all pairs of it, as in its report."""
    family = [pair.scored(settings.metric) for pair in pairs]
    first = pairs[0].first
    if len({ranking.folder.path for pair in pairs for ranking in (pair.first, pair.second)}) == 1:
        named = [{pair.first.arm, pair.second.arm} for pair in pairs]
        for ranking, other in combinations(rankings_of(first.folder, first.run, None, first.run), 2):
            if {ranking.arm, other.arm} not in named:
                family.append(_measured(ranking, other, judgments, settings.metric).scored(settings.metric))
    return compare_pairs(family, label, settings.margin)[: len(pairs)]


def _label(metric: str, pairs: Sequence[_MeasuredPair]) -> str:
    """Returns the metric's name with its depth (MAP@100), where it is the same for all pairs."""
    labels = {parse_metric(metric).label(pair.shared.depth) for pair in pairs}
    return labels.pop() if len(labels) == 1 else metric


def _measured(first: ComparedRanking, second: ComparedRanking, judgments: Grades, metric: str) -> _MeasuredPair:
    shared = find_shared_queries(first, second)
    cutoff = parse_metric(metric).cutoff
    if cutoff is not None and cutoff > shared.depth:
        raise EvaluationError(
            f"{metric} looks at {cutoff} hits, but {first.label} and {second.label} are compared {shared.depth} deep: "
            f"give --metric a cutoff of at most {shared.depth}, or name runs and run files that are ranked deeper"
        )
    metrics = [
        name
        for name in dict.fromkeys((metric, *first.experiment.metrics))
        if (parse_metric(name).cutoff or 1) <= shared.depth
    ]
    rankings = shared.cut(first.rankings), shared.cut(second.rankings)
    figures = [measure(judgments, side, shared.queries, metrics) for side in rankings]
    pair = _MeasuredPair(first, second, shared, rankings, (figures[0], figures[1]))
    if not pair.values(metric)[0]:
        raise EvaluationError(f"{metric}: no query has a value in both {first.label} and {second.label}")
    return pair


def _pair_report(
    pair: _MeasuredPair, verdict: PairedComparison, judgments: Grades, settings: ComparisonSettings
) -> PairReport:
    scored = pair.scored(settings.metric)
    values, difference = (scored.first_values, scored.second_values), scored.differences
    gains, losses = examples_of(difference, values, pair.rankings, judgments, settings.examples)
    lists = [(pair.rankings[0][query], pair.rankings[1][query]) for query in pair.shared.queries]
    return PairReport(
        verdict=verdict,
        depth=pair.shared.depth,
        metrics=_metrics(pair, settings.seed),
        overlap_at_10=mean([overlap_of_top_10(before, after) for before, after in lists]),
        gate=None
        if settings.no_worse_than is None
        else no_worse_gate(verdict, settings.no_worse_than, pair.shared.losses),
        differences=sorted_differences(tuple(difference.values())),
        gains=gains,
        losses=losses,
    )


def overlap_of_top_10(first: Sequence[str], second: Sequence[str]) -> float:
    """Returns the share of the longer top 10 that both rankings hold, 0 to 1; two empty rankings are equal."""
    mine, theirs = set(first[:10]), set(second[:10])
    longer = max(len(mine), len(theirs))
    return len(mine & theirs) / longer if longer else 1.0


def _metrics(pair: _MeasuredPair, seed: int) -> dict[str, MetricDifference]:
    return {
        parse_metric(metric).label(pair.shared.depth): MetricDifference(**_figures(scored, seed))
        for metric in pair.figures[0]
        if (scored := pair.scored(metric)).first_values
    }


def _figures(scored: ScoredPair, seed: int) -> dict[str, Any]:
    values = tuple(scored.differences.values())
    return {
        "queries": len(values),
        "first_mean": mean(tuple(scored.first_values.values())),
        "second_mean": mean(tuple(scored.second_values.values())),
        "difference": mean(values),
        "interval": interval(values, seed),
    }


def query_slices(path: Path, queries: Sequence[str]) -> dict[str, dict[str, tuple[str, ...]]]:
    """Returns field → value → queries, for fields with 2 to 12 values; TREC topics have none.

    Raises DatasetError for a line that is not an object.
    """
    if ".jsonl" not in path.suffixes:
        return {}
    fields: dict[str, dict[str, list[str]]] = {}
    metadata = dict(_metadata(path))
    for query in queries:
        for field, value in metadata.get(query, {}).items():
            fields.setdefault(field, {}).setdefault(value, []).append(query)
    return {
        field: {value: tuple(members) for value, members in sorted(values.items())}
        for field, values in fields.items()
        if 2 <= len(values) <= MOST_VALUES
    }


def _metadata(path: Path) -> Iterator[tuple[str, Mapping[str, str]]]:
    for place, value, _ in json_objects(path, HashedLines(path)):
        given = value.get("metadata")
        if isinstance(given, dict):
            plain = {str(name): str(text) for name, text in given.items() if isinstance(text, str | int | bool)}
            yield read_id(value.get("_id"), place)[0], plain


def _not_sliced(fields: Mapping[str, Mapping[str, Sequence[str]]], every: int) -> Iterator[str]:
    for field, values in fields.items():
        held = sum(map(len, values.values()))
        if held < every:
            yield f"{held} of {every} queries have `{field}`; its slices leave out the others"


def _slices_of_field(
    pairs: Sequence[_MeasuredPair], field: str, values: Mapping[str, Sequence[str]], settings: ComparisonSettings
) -> list[SliceReport]:
    return [
        SliceReport(
            field=field,
            value=value,
            differences=tuple(
                SliceDifference(first=scored.first, second=scored.second, **_figures(scored, settings.seed))
                for pair in pairs
                if (scored := pair.scored(settings.metric, queries)).first_values
            ),
        )
        for value, queries in values.items()
    ]


def _with_texts(first: ComparedRanking, reports: Sequence[PairReport]) -> tuple[PairReport, ...]:
    every = [example for report in reports for example in (*report.gains, *report.losses)]
    if not every:
        return tuple(reports)
    queries, titles = texts_of(first.experiment, every)
    return tuple(
        report.model_copy(
            update={
                "gains": with_texts(report.gains, queries, titles),
                "losses": with_texts(report.losses, queries, titles),
            }
        )
        for report in reports
    )
