from collections import Counter
from itertools import islice, pairwise

import pytest

from evaluator.experiments.load_plan import QueryDraw
from evaluator.load.sending.traffic import arrival_times, drawn_queries


def test_constant_arrivals_are_evenly_spaced() -> None:
    assert arrival_times(4, 1.5, "constant", "") == pytest.approx([0, 0.25, 0.5, 0.75, 1, 1.25])


def test_poisson_arrivals_have_exponential_gaps_and_follow_the_seed() -> None:
    times = arrival_times(50, 400, "poisson", "1")
    gaps = [later - earlier for earlier, later in pairwise(times)]
    mean = sum(gaps) / len(gaps)
    assert mean == pytest.approx(1 / 50, rel=0.03)
    # The deviation of an exponential distribution is its mean.
    assert (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5 == pytest.approx(mean, rel=0.05)
    assert times == arrival_times(50, 400, "poisson", "1")
    assert times != arrival_times(50, 400, "poisson", "2")


def drawn(queries: list[str], draw: QueryDraw, count: int, part: str = "") -> list[str]:
    return list(islice(drawn_queries(queries, draw, 1, part), count))


def test_zipf_draws_the_first_twice_as_often_as_the_second_and_the_same_first_in_every_part() -> None:
    queries = [f"q{number}" for number in range(10)]
    zipf = Counter(drawn(queries, "zipf", 20_000)).most_common()
    assert zipf[0][1] / zipf[1][1] == pytest.approx(2, rel=0.1)
    assert zipf[0][1] / zipf[9][1] == pytest.approx(10, rel=0.2)
    warmup = drawn(queries, "zipf", 2_000, "warm-up")
    assert warmup != drawn(queries, "zipf", 2_000)
    assert [name for name, _ in Counter(warmup).most_common(2)] == [name for name, _ in zipf[:2]]


@pytest.mark.parametrize("count", [7, 30, 44, 300])
def test_uniform_asks_each_query_equally_often_but_for_one(count: int) -> None:
    queries = [f"q{number}" for number in range(30)]
    asked = Counter(dict.fromkeys(queries, 0))
    asked.update(drawn(queries, "uniform", count))
    assert max(asked.values()) - min(asked.values()) <= 1
    assert drawn(queries, "uniform", 30) != drawn(queries, "uniform", 60)[30:]
