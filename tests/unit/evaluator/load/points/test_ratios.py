import math
import random

import pytest

from evaluator.load.points.ratios import percentile_ratios, repeated_figure


def requests(seed: int, factor: float = 1.0, count: int = 600) -> list[float]:
    """Returns requests whose times have a common part, as of one machine, and a part of their own."""
    common, own = random.Random(1), random.Random(seed)
    return [factor * common.lognormvariate(3, 0.4) * own.lognormvariate(0, 0.1) for _ in range(count)]


def slices(times: list[float], count: int = 12) -> list[list[float]]:
    return [times[number * len(times) // count : (number + 1) * len(times) // count] for number in range(count)]


def width(interval: tuple[float, float] | None) -> float:
    assert interval is not None
    return interval[1] - interval[0]


def test_the_interval_of_a_ratio_holds_the_true_one_and_is_narrower_than_without_pairs() -> None:
    samples = {"bm25": slices(requests(2)), "slower": slices(requests(3, factor=1.15))}
    paired = {ratio.percentile: ratio for ratio in percentile_ratios("20", samples, seed=1)}
    assert paired["p50"].ratio == pytest.approx(1.15, rel=0.05)
    assert paired["p50"].interval is not None
    assert paired["p50"].interval[0] < 1.15 < paired["p50"].interval[1]
    assert paired["p50"].interval[0] > 1.05
    samples["slower"] = slices(random.Random(4).sample(requests(3, factor=1.15), 600))
    apart = {ratio.percentile: ratio for ratio in percentile_ratios("20", samples, seed=1)}
    assert width(paired["p50"].interval) < width(apart["p50"].interval)


def test_slices_that_differ_as_a_whole_widen_the_interval_of_two_equal_pipelines() -> None:
    missed = 0
    for seed in range(10):
        dice = random.Random(seed)
        # Each slice of each pipeline met a machine of another speed.
        times = {
            name: [[dice.lognormvariate(3, 0.3) * speed for _ in range(60)]
                   for speed in (dice.lognormvariate(0, 0.2) for _ in range(12))]
            for name in ("a", "b")
        }  # fmt: skip
        (p50, _) = percentile_ratios("20", times, seed)
        assert p50.interval is not None
        missed += not p50.interval[0] <= 1 <= p50.interval[1]
    assert missed <= 2


def test_fewer_than_eight_slices_give_a_ratio_without_an_interval() -> None:
    few = percentile_ratios("20", {"a": slices(requests(2), 7), "b": slices(requests(3), 7)}, seed=1)
    assert [ratio.interval for ratio in few] == [None, None]
    assert few[0].ratio == pytest.approx(1.0, rel=0.05)


def test_ratios_with_a_pipeline_of_doubtful_times_say_so() -> None:
    samples = {name: slices(requests(seed)) for seed, name in enumerate("abc")}
    ratios = percentile_ratios("20", samples, seed=1, doubtful={"b"})
    assert {(ratio.first, ratio.second) for ratio in ratios if ratio.timing_valid} == {("a", "c")}


def test_every_two_pipelines_with_the_same_requests_are_compared() -> None:
    samples = {name: slices(requests(seed)) for seed, name in enumerate("abc")}
    samples["fewer"] = slices(requests(5, count=500))
    pairs = {(ratio.first, ratio.second) for ratio in percentile_ratios("20", samples, seed=1)}
    assert pairs == {("a", "b"), ("a", "c"), ("b", "c")}
    assert percentile_ratios("20", {"a": [requests(2, count=19)], "b": [requests(3, count=19)]}, seed=1) == ()


@pytest.mark.parametrize(("repeats", "confidence"), [(2, 0.5), (5, 0.9375)])
def test_few_repeats_show_their_least_and_greatest_value_with_its_confidence(repeats: int, confidence: float) -> None:
    values = [10.0, 12.0, 11.0, 30.0, 10.5][:repeats]
    figure = repeated_figure(values)
    assert figure.interval == (min(values), max(values))
    assert figure.confidence == confidence


@pytest.mark.parametrize("repeats", [6, 40])
def test_the_interval_of_a_repeated_figure_holds_the_true_median_in_95_of_100_runs(repeats: int) -> None:
    dice = random.Random(repeats)
    inside = 0
    for _ in range(300):
        figure = repeated_figure([dice.expovariate(1.0) for _ in range(repeats)])
        inside += figure.interval[0] <= math.log(2) <= figure.interval[1]
    assert figure.confidence >= 0.95
    assert inside / 300 >= 0.93
