"""What is said of rates that give too few requests for a p99, before they are sent."""

import pytest

from evaluator.experiments.load_plan import LoadPlan
from evaluator.load.enough_requests import too_few_requests


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
