"""What a load says before it is sent."""

import pytest

from evaluator.experiments.load_plan import CapacityPlan, LoadPlan
from evaluator.load.sending.traffic import against_work, duration, planned_work, too_few_requests

PLAN = LoadPlan(rates=(10,), warmup_seconds=5)


def test_rates_pipelines_warm_up_and_duration_are_told() -> None:
    said = "Load: 1 rate x 4 pipelines, each after 5 s of warm-up, about 5 min"
    assert planned_work(PLAN, 4) == said
    plan = LoadPlan(rates=(10, 20), in_flight=(1,), warmup_seconds=0, repeat=2)
    assert planned_work(plan, 1) == "Load: 2 rates, 1 closed loop x 1 pipeline, 2 times, about 7 min"


def test_a_search_has_no_known_end() -> None:
    search = LoadPlan(capacity=CapacityPlan(p99_ms=500))
    said = "Load: a search for the capacity of 2 pipelines: measurements of at most 120 s each until it is found"
    assert planned_work(search, 2) == said


def test_two_gateways_take_twice_as_long() -> None:
    said = "Against: 1 rate x 2 pipelines x 2 gateways, each after 5 s of warm-up, about 6 min"
    assert against_work(PLAN, 20, 2) == said


def test_a_duration_is_rounded_up() -> None:
    assert [duration(89.0), duration(90.0), duration(121.0)] == ["about 89 s", "about 2 min", "about 3 min"]


def test_a_rate_with_too_few_requests_is_told_with_the_seconds_that_it_needs() -> None:
    assert list(too_few_requests(LoadPlan(rates=(10, 12)))) == [
        "--rate 10 --seconds 60 gives about 600 requests; a p99 needs 662: send --seconds 75 or more"
    ]


@pytest.mark.parametrize(
    "plan",
    [
        LoadPlan(rates=(10,), seconds=75),
        LoadPlan(rates=(10,), seconds=30, repeat=3),
        LoadPlan(rates=(10,), seconds=66.2, arrivals="constant"),
        LoadPlan(in_flight=(2,)),
    ],
)
def test_traffic_with_enough_requests_or_without_a_p99_is_not_told(plan: LoadPlan) -> None:
    assert list(too_few_requests(plan)) == []


def test_the_repeats_count_together() -> None:
    (said,) = too_few_requests(LoadPlan(rates=(1.5,), repeat=2))
    assert said.startswith("--rate 1.5 --seconds 60 --repeat 2 gives about 180 requests")
    assert said.endswith("send --seconds 235 or more")
