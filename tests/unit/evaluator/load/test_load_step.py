import pytest

from evaluator.load.kinds import Traffic, slice_count
from evaluator.load_plan import LoadPlan, TrafficStep
from evaluator.measured_processes import is_this_machine


@pytest.mark.parametrize(("arms", "slices"), [(1, 1), (2, 4), (5, 4)])
def test_several_pipelines_share_the_time_in_slices(arms: int, slices: int) -> None:
    plan = LoadPlan(rates=(20,), seconds=60, slice_seconds=15)
    assert slice_count(Traffic("20", rate=20), plan, arms) == slices


def test_steps_are_not_cut() -> None:
    steps = (TrafficStep(rate=10, seconds=90),)
    assert slice_count(Traffic("steps", steps=steps), LoadPlan(steps=steps), 5) == 1


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://127.0.0.1:8000/v1", True),
        ("http://localhost:8000", True),
        ("http://[::1]:8000", True),
        ("http://10.0.0.7:8000", False),
        ("http://gateway.example.org", False),
    ],
)
def test_a_loopback_address_is_this_machine(url: str, here: bool) -> None:
    assert is_this_machine(url) == here
