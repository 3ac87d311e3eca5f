"""Computes what a report states beside its figures: intervals of means, and verdicts against the baseline.

Pure. Takes the values of each query; which files they come from is left to the caller.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from evaluator.comparison.paired_tests import differences, interval, sorted_differences
from evaluator.comparison.verdict import PairedComparison, ScoredPair, compare_pairs
from evaluator.metrics.metric_table import parse_metric
from evaluator.metrics.quality import PerQuery


@dataclass(frozen=True, slots=True)
class ArmStatistics:
    """Intervals by metric, and the comparison with the baseline (None for the baseline itself).

    `differences`: of the queries in that comparison, as `sorted_differences` has them.
    """

    intervals: Mapping[str, tuple[float, float] | None]
    against_first: PairedComparison | None
    differences: tuple[float, ...]


def statistics_of_arms(
    figures: Mapping[str, PerQuery], baseline: str, depth: int, seed: int
) -> dict[str, ArmStatistics]:
    """Returns the statistics of each arm. `figures`: arm → metric → query → value, None where a query has none.

    The metric compared is the first one that has a value and of which more is better.
    """
    others = [arm for arm in figures if arm != baseline]
    compared: dict[str, PairedComparison] = {}
    shown: dict[str, tuple[float, ...]] = {}
    for metric in figures[baseline]:
        pairs = [_scored(figures, baseline, arm, metric) for arm in others]
        if all(pair.first_values for pair in pairs) and not parse_metric(metric).family.lower_is_better:
            found = compare_pairs(pairs, parse_metric(metric).label(depth), seed)
            compared = dict(zip(others, found, strict=True))
            shown = {
                pair.second: sorted_differences(differences(pair.first_values, pair.second_values)) for pair in pairs
            }
            break
    intervals = {arm: _intervals(of_arm, seed) for arm, of_arm in figures.items()}
    return {arm: ArmStatistics(intervals[arm], compared.get(arm), shown.get(arm, ())) for arm in figures}


def _intervals(figures: PerQuery, seed: int) -> dict[str, tuple[float, float] | None]:
    known = {metric: [one for one in values.values() if one is not None] for metric, values in figures.items()}
    return {metric: interval(values, seed) for metric, values in known.items() if values}


def _scored(figures: Mapping[str, PerQuery], first: str, second: str, metric: str) -> ScoredPair:
    one, other = figures[first][metric], figures[second][metric]
    both = [(one[query], other.get(query)) for query in one]
    known = [(a, b) for a, b in both if a is not None and b is not None]
    return ScoredPair(first, second, [a for a, _ in known], [b for _, b in known])
