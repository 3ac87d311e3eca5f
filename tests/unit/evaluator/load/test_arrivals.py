from collections import Counter
from itertools import pairwise

import pytest

from evaluator.load.arrivals import arrival_times, drawn_queries
from evaluator.load_plan import TrafficStep


def test_constant_arrivals_are_evenly_spaced_across_steps() -> None:
    steps = [TrafficStep(rate=2, seconds=2), TrafficStep(rate=4, seconds=1)]
    assert arrival_times(steps, "constant", "") == pytest.approx([0, 0.5, 1, 1.5, 2, 2.25, 2.5, 2.75])


def test_poisson_arrivals_have_exponential_gaps_and_follow_the_seed() -> None:
    step = [TrafficStep(rate=50, seconds=400)]
    times = arrival_times(step, "poisson", "1")
    gaps = [later - earlier for earlier, later in pairwise(times)]
    mean = sum(gaps) / len(gaps)
    assert mean == pytest.approx(1 / 50, rel=0.03)
    # The deviation of an exponential distribution is its mean.
    assert (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5 == pytest.approx(mean, rel=0.05)
    assert times == arrival_times(step, "poisson", "1")
    assert times != arrival_times(step, "poisson", "2")


@pytest.mark.parametrize("process", ["poisson", "constant"])
def test_a_ramp_sends_as_many_as_its_mean_rate_and_more_of_them_later(process: str) -> None:
    times = arrival_times([TrafficStep(rate=10, to=90, seconds=100)], process, "1")  # type: ignore[arg-type]
    assert len(times) == pytest.approx(5_000, rel=0.05)
    # The integral of 10 + 0.8 t up to the middle.
    assert sum(time < 50 for time in times) == pytest.approx(1_500, rel=0.1)
    assert times == sorted(times)


def test_zipf_draws_the_first_twice_as_often_as_the_second_and_uniform_all_alike() -> None:
    queries = [f"q{number}" for number in range(10)]
    zipf = Counter(drawn_queries(queries, "zipf", 1.0, 20_000, "1")).most_common()
    assert zipf[0][1] / zipf[1][1] == pytest.approx(2, rel=0.1)
    assert zipf[0][1] / zipf[9][1] == pytest.approx(10, rel=0.2)
    uniform = Counter(drawn_queries(queries, "uniform", 1.0, 20_000, "1"))
    assert max(uniform.values()) / min(uniform.values()) < 1.15
