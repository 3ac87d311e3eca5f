"""What the slices of a rate ask: one draw of queries, whatever the rate and the number of slices."""

import pytest

from evaluator.experiments.load_plan import LoadPlan, QueryDraw
from evaluator.load.export import exported_traffic
from evaluator.load.sending.traffic import LoadTarget, PlannedSlice, open_slices

QUERIES = tuple(f"q{number}" for number in range(40))


def slices(rate: float, count: int = 8, draw: QueryDraw = "uniform", repeat: int = 0) -> list[PlannedSlice]:
    plan = LoadPlan(rates=(rate,), seconds=16, draw=draw)
    return list(open_slices(QUERIES, rate, plan.seconds / count, count, plan, 7, repeat))


def measured(planned: list[PlannedSlice]) -> list[str]:
    return [query for one in planned for at_s, query in one.asked if at_s >= one.warmup_s]


@pytest.mark.parametrize("draw", ["uniform", "zipf"])
def test_a_higher_rate_begins_with_the_queries_of_a_lower_one_however_it_is_cut(draw: QueryDraw) -> None:
    lower, higher = measured(slices(5, draw=draw)), measured(slices(20, 3, draw))
    assert 50 < len(lower) < len(higher)
    assert higher[: len(lower)] == lower


def test_times_differ_by_rate_and_slice_and_queries_by_repeat() -> None:
    planned = slices(20)
    times = [[at_s for at_s, _ in one.asked] for one in (*planned, *slices(5))]
    assert len({tuple(one) for one in times}) == 16
    assert measured(planned) != measured(slices(20, repeat=1))


def test_the_first_slice_alone_has_the_warm_up_and_its_queries_are_of_a_draw_of_their_own() -> None:
    planned = slices(20)
    assert [one.warmup_s for one in planned] == [5.0, *[0.0] * 7]
    warmup = [query for at_s, query in planned[0].asked if at_s < 5]
    assert len(warmup) == pytest.approx(100, rel=0.5)
    assert warmup != measured(planned)[: len(warmup)]


def test_all_pipelines_have_the_same_times_and_queries() -> None:
    (one,) = slices(20, 1)
    first, second = one.through("bm25"), one.through("dense")
    assert {request.pipeline for request in second} == {"dense"}
    assert [request._replace(pipeline="dense") for request in first] == second


def test_an_exported_script_asks_the_queries_of_the_load_in_their_order() -> None:
    bodies = {("bm25", query): query.encode() for query in QUERIES}
    target = LoadTarget("http://h/search", 10, 900, QUERIES, bodies, frozenset(), {}, caches=False)
    task = exported_traffic(target, "bm25", 20, LoadPlan(rates=(20,), seconds=16), 7).task
    asked = [task.bodies[pick].decode() for pick in task.picks]
    of_load = measured(slices(20))
    both = min(len(asked), len(of_load))
    assert len(asked) == 320
    assert asked[:both] == of_load[:both]
