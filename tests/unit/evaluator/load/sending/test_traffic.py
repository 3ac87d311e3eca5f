"""What a load asks and when: arrivals, one draw of queries for all rates and slices, and what is said before."""

from collections import Counter
from itertools import islice, pairwise

import pytest

from evaluator.experiments.load_plan import CapacityPlan, LoadPlan, QueryDraw
from evaluator.load.export import exported_traffic
from evaluator.load.points.ratios import LEAST_PAIRS
from evaluator.load.sending.traffic import (
    LoadTarget,
    PlannedSlice,
    against_work,
    arrival_times,
    drawn_queries,
    duration,
    open_slices,
    planned_work,
    slice_count,
    too_few_requests,
)

QUERIES = tuple(f"q{number}" for number in range(40))
PLAN = LoadPlan(rates=(10,), warmup_seconds=5)


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


@pytest.mark.parametrize("count", [7, 30, 44])
def test_uniform_asks_each_query_equally_often_but_for_one(count: int) -> None:
    queries = [f"q{number}" for number in range(30)]
    asked = Counter(dict.fromkeys(queries, 0))
    asked.update(drawn(queries, "uniform", count))
    assert max(asked.values()) - min(asked.values()) <= 1


def slices(rate: float, count: int = 8, draw: QueryDraw = "uniform", repeat: int = 0) -> list[PlannedSlice]:
    plan = LoadPlan(rates=(rate,), seconds=16, draw=draw)
    return list(open_slices(QUERIES, rate, plan.seconds / count, count, plan, 7, repeat))


def measured(planned: list[PlannedSlice]) -> list[str]:
    return [query for part in planned for at_s, query in part.queries if at_s >= part.warmup_s]


@pytest.mark.parametrize("draw", ["uniform", "zipf"])
def test_a_higher_rate_begins_with_the_queries_of_a_lower_one_however_it_is_cut(draw: QueryDraw) -> None:
    lower, higher = measured(slices(5, draw=draw)), measured(slices(20, 3, draw))
    assert 50 < len(lower) < len(higher)
    assert higher[: len(lower)] == lower


def test_times_differ_by_rate_and_slice_and_queries_by_repeat() -> None:
    planned = slices(20)
    assert len({tuple(at_s for at_s, _ in part.queries) for part in (*planned, *slices(5))}) == 16
    assert measured(planned) != measured(slices(20, repeat=1))


def test_the_first_slice_alone_has_the_warm_up_and_its_queries_are_of_a_draw_of_their_own() -> None:
    planned = slices(20)
    assert [part.warmup_s for part in planned] == [5.0, *[0.0] * 7]
    warmup = [query for at_s, query in planned[0].queries if at_s < 5]
    assert len(warmup) == pytest.approx(100, rel=0.5)
    assert warmup != measured(planned)[: len(warmup)]


def test_an_exported_script_asks_the_queries_of_the_load_in_their_order() -> None:
    bodies = {("bm25", query): query.encode() for query in QUERIES}
    target = LoadTarget("http://h/search", 10, 900, QUERIES, bodies, frozenset(), {}, caches=False)
    task = exported_traffic(target, "bm25", 20, LoadPlan(rates=(20,), seconds=16), 7).task
    asked = [task.bodies[pick].decode() for pick in task.picks]
    of_load = measured(slices(20))
    both = min(len(asked), len(of_load))
    assert len(asked) == 320
    assert asked[:both] == of_load[:both]


@pytest.mark.parametrize(("arms", "expected"), [(1, 1), (2, 4)])
def test_several_pipelines_share_the_time_in_slices(arms: int, expected: int) -> None:
    assert slice_count(LoadPlan(rates=(20,), seconds=60, slice_seconds=15), arms) == expected


def test_the_defaults_cut_enough_slices_for_the_intervals_of_ratios() -> None:
    assert slice_count(LoadPlan(rates=(20,)), 2) == LEAST_PAIRS


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (planned_work(PLAN, 4), "Load: 1 rate x 4 pipelines, each after 5 s of warm-up, about 5 min"),
        (
            planned_work(LoadPlan(rates=(10, 20), in_flight=(1,), warmup_seconds=0, repeat=2), 1),
            "Load: 2 rates, 1 closed loop x 1 pipeline, 2 times, about 7 min",
        ),
        (
            planned_work(LoadPlan(capacity=CapacityPlan(p99_ms=500)), 2),
            "Load: a search for the capacity of 2 pipelines: measurements of at most 120 s each until it is found",
        ),
        (
            against_work(PLAN, 20, 2),
            "Against: 1 rate x 2 pipelines x 2 gateways, each after 5 s of warm-up, about 6 min",
        ),
        (duration(121.0), "about 3 min"),
    ],
)
def test_what_is_sent_and_how_long_it_takes_is_said_before(said: str, expected: str) -> None:
    assert said == expected


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (LoadPlan(rates=(10, 12)), "gives about 600 requests; a p99 needs 662: send --seconds 75 or more"),
        (LoadPlan(rates=(1.5,), repeat=2), "--repeat 2 gives about 180 requests; a p99 needs 662: send --seconds 235"),
        (LoadPlan(rates=(10,), seconds=75), ""),
        (LoadPlan(rates=(10,), seconds=66.2, arrivals="constant"), ""),
    ],
)
def test_a_rate_with_too_few_requests_is_told_with_the_seconds_that_it_needs(plan: LoadPlan, said: str) -> None:
    sentences = list(too_few_requests(plan))
    assert len(sentences) == bool(said)
    assert said in "".join(sentences)
