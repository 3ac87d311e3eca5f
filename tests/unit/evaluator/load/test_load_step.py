import pytest

from evaluator.experiments.load_plan import LoadPlan
from evaluator.load.points.ratios import LEAST_PAIRS
from evaluator.load.sending.traffic import slice_count


@pytest.mark.parametrize(("arms", "slices"), [(1, 1), (2, 4), (5, 4)])
def test_several_pipelines_share_the_time_in_slices(arms: int, slices: int) -> None:
    plan = LoadPlan(rates=(20,), seconds=60, slice_seconds=15)
    assert slice_count(plan, arms) == slices


def test_the_defaults_cut_enough_slices_for_the_intervals_of_ratios() -> None:
    assert slice_count(LoadPlan(rates=(20,)), 2) == LEAST_PAIRS
