"""The bounds of a metric over the orders of tied documents, against every order of small cases."""

import random
from collections.abc import Iterator, Sequence
from itertools import permutations, product
from statistics import fmean

import pytest

from evaluator.metrics.metric_formulas import TiedRanking
from evaluator.metrics.metric_table import FAMILIES
from evaluator.metrics.quality import Bounds, bounds_of_ties, mean_bounds, means, measure, tied_groups
from tests.support.rankings import adversarial_cases

METRICS = sorted(
    {
        form.replace("@k", f"@{k}").replace(".p", f".{p:02}")
        for form in FAMILIES
        for k, p in ((1, 20), (3, 80), (10, 99))
    }
)
GRADES = {"a": 3, "b": 1, "c": 0, "d": 0, "e": 2, "f": -1, "missing": 2}
ANYWHERE = {"other": {"x": 1, "c": 0}}


def bounds(grades: dict[str, dict[str, int]], groups: TiedRanking, metrics: Sequence[str]) -> dict[str, Bounds | None]:
    """Returns the bounds of query `q` by metric."""
    ranking = [name for group in groups for name in group]
    found = bounds_of_ties(grades, {"q": groups}, measure(grades, {"q": ranking}, ["q"], metrics))
    return {metric: of_queries["q"] for metric, of_queries in found.items()}


def every_order(groups: list[tuple[str, ...]]) -> Iterator[list[str]]:
    for orders in product(*(permutations(group) for group in groups)):
        yield [name for group in orders for name in group]


def small_cases() -> Iterator[list[tuple[str, ...]]]:
    """Yields seeded rankings of at most seven documents, with at most 720 orders."""
    dice = random.Random(20_250_601)
    for _ in range(12):
        names = dice.sample("abcdefxyz", dice.randint(1, 7))
        groups = []
        while names:
            size = dice.randint(1, min(5, len(names)))
            groups.append(tuple(names[:size]))
            names = names[size:]
        yield groups
    yield [("a", "b", "c", "d", "e", "x")]
    yield [("x",), ("c", "a", "y", "b"), ("d", "e")]


@pytest.mark.parametrize("groups", list(small_cases()), ids=lambda groups: " ".join(map("".join, groups)))
def test_the_bounds_are_those_of_every_order_and_the_expectation_is_its_mean(groups: list[tuple[str, ...]]) -> None:
    orders = {f"q{number}": ranking for number, ranking in enumerate(every_order(groups))}
    figures = measure(dict.fromkeys(orders, GRADES) | ANYWHERE, orders, list(orders), METRICS)
    found = bounds({"q": GRADES} | ANYWHERE, groups, METRICS)
    for metric in METRICS:
        values = [value for value in figures[metric].values() if value is not None]
        of_metric = found[metric]
        assert of_metric is not None
        worst, expected, best = of_metric
        assert (min(worst, best), max(worst, best)) == (min(values), max(values)), metric
        assert expected == pytest.approx(fmean(values), abs=1e-12), metric


@pytest.mark.parametrize("what", adversarial_cases())
def test_the_order_that_was_measured_lies_within_the_bounds_of_any_ranking(what: str) -> None:
    judgments, scored = adversarial_cases()[what]
    queries = list(judgments)
    groups = {query: tied_groups(hits) for query, hits in scored.items()}
    rankings = {query: [name for name, _ in hits] for query, hits in scored.items()}
    figures = measure(judgments, rankings, queries, METRICS)
    every = bounds_of_ties(judgments, groups, figures)
    for metric, values in figures.items():
        for query, value in values.items():
            found = every[metric][query]
            assert (found is None) == (value is None)
            if found is not None and value is not None:
                worst, expected, best = found
                assert 0 <= min(worst, best) <= min(value, expected) <= max(value, expected) <= max(worst, best) <= 1


def test_without_ties_the_bounds_are_the_figure_itself() -> None:
    judgments, scored = adversarial_cases()["random"]
    rankings = {query: [name for name, _ in hits] for query, hits in scored.items()}
    figures = measure(judgments, rankings, list(judgments), METRICS)
    every = bounds_of_ties(judgments, {query: tied_groups(hits) for query, hits in scored.items()}, figures)
    for metric, mean in means(figures).items():
        interval = mean_bounds(every[metric])
        assert interval is not None
        assert (interval.worst, interval.expected, interval.best, interval.queries) == (mean, mean, mean, 0)


def test_fewer_holes_are_the_better_order() -> None:
    assert bounds({"q": {"a": 1}}, [("x", "a")], ["hole@1"]) == {"hole@1": (1.0, 0.5, 0.0)}


def test_a_query_that_shows_nothing_has_no_bounds_where_it_has_no_value() -> None:
    found = bounds({"q": {"a": 1}}, (), ["judged@10", "P@10"])
    assert found == {"judged@10": None, "P@10": (0.0, 0.0, 0.0)}
    assert mean_bounds({"q": None}) is None
