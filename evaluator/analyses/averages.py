"""Averages figures over sets, and compares pipelines with a baseline. Pure.

A set of several parts counts once, with the mean of its parts, and MS MARCO is in no mean: models are trained on it
(Thakur et al. 2021, table 2).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from evaluator.analyses.analysis_report import PipelineSummary, RankingFigures, SetAnalysis
from evaluator.datasets.catalogue import Catalogue

IN_DOMAIN = frozenset({"msmarco"})

Pick = Callable[[RankingFigures], float | None]
Differences = Mapping[str, Mapping[str, float]]  # label of the set → pipeline → nDCG@10 less that of the baseline


@dataclass(frozen=True, slots=True)
class SetRow:
    """A row of a table over sets: one set, or the mean of the parts of one."""

    name: str
    label: str
    members: tuple[SetAnalysis, ...]
    counted: bool  # in means over sets

    def figure(self, pipeline: str, pick: Pick) -> float | None:
        """Returns a figure of a pipeline; of several parts their mean, None where one of them lacks it."""
        values = [pick(member.pipelines[pipeline]) if pipeline in member.pipelines else None for member in self.members]
        known = [value for value in values if value is not None]
        return fmean(known) if len(known) == len(values) else None


def set_rows(sets: Sequence[SetAnalysis], catalogue: Catalogue) -> tuple[SetRow, ...]:
    """Returns the rows: every set, and below the last part of a set the whole. `catalogue`: how many parts it has."""
    rows: list[SetRow] = []
    for at, analysed in enumerate(sets):
        name, whole = analysed.name, analysed.part_of
        rows.append(SetRow(name, name, (analysed,), whole is None and name not in IN_DOMAIN))
        if whole is not None and all(later.part_of != whole for later in sets[at + 1 :]):
            members = tuple(other for other in sets if other.part_of == whole)
            label = f"{whole} (mean of {len(members)} of {len(catalogue.parts(whole))} parts)"
            rows.append(SetRow(whole, label, members, True))
    return tuple(rows)


def common_rows(rows: Sequence[SetRow], pipelines: Sequence[str], pick: Pick) -> tuple[SetRow, ...]:
    """Returns the counted rows on which every pipeline has a figure: the only ones whose means can be compared."""
    return tuple(row for row in rows if row.counted and all(row.figure(name, pick) is not None for name in pipelines))


def mean_of(rows: Sequence[SetRow], pipeline: str, pick: Pick) -> float | None:
    """Returns the mean of a pipeline over rows that have it, each with the same weight; None without rows."""
    values = [value for row in rows if (value := row.figure(pipeline, pick)) is not None]
    return fmean(values) if values else None


def ndcg_at_10(figures: RankingFigures) -> float | None:
    """Picks nDCG@10."""
    return figures.ndcg_at_10


def differences_of(rows: Sequence[SetRow], pipelines: Sequence[str], baseline: str) -> Differences:
    """Returns the differences on the sets that have the baseline and another pipeline."""
    differences: dict[str, dict[str, float]] = {}
    for row in rows:
        base = row.figure(baseline, ndcg_at_10)
        for name in pipelines:
            figure = row.figure(name, ndcg_at_10)
            if name != baseline and figure is not None and base is not None:
                differences.setdefault(row.label, {})[name] = figure - base
    return differences


def summarise(rows: Sequence[SetRow], pipelines: Sequence[str], baseline: str) -> tuple[PipelineSummary, ...]:
    """Returns means of nDCG@10 over sets, and the comparison of each pipeline with the baseline."""
    common = common_rows(rows, pipelines, ndcg_at_10)
    return tuple(_summary(rows, common, name, baseline) for name in pipelines)


def _summary(rows: Sequence[SetRow], common: Sequence[SetRow], pipeline: str, baseline: str) -> PipelineSummary:
    own = [row for row in rows if row.counted and row.figure(pipeline, ndcg_at_10) is not None]
    differences: dict[str, float] = {}
    changes: dict[str, float] = {}
    for row in own:
        figure, base = row.figure(pipeline, ndcg_at_10), row.figure(baseline, ndcg_at_10)
        if pipeline == baseline or figure is None or base is None:
            continue
        differences[row.name] = figure - base
        if base:  # a percentage of 0 is undefined
            changes[row.name] = 100 * (figure - base) / base
    changed = [row for row in own if row.name in changes]
    mean, base_mean = (mean_of(changed, name, ndcg_at_10) for name in (pipeline, baseline))
    return PipelineSummary(
        pipeline=pipeline,
        mean=mean_of(own, pipeline, ndcg_at_10),
        mean_of=tuple(row.name for row in own),
        common_mean=mean_of(common, pipeline, ndcg_at_10),
        percent_of_means=None if mean is None or base_mean is None else 100 * (mean - base_mean) / base_mean,
        mean_percent=fmean(changes.values()) if changes else None,
        percent_of=tuple(changes),
        better=tuple(name for name, difference in differences.items() if difference > 0),
        worse=tuple(name for name, difference in differences.items() if difference < 0),
        equal=tuple(name for name, difference in differences.items() if difference == 0),
    )
