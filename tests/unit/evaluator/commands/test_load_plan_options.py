"""Options of `load` over the plan of an experiment's file."""

import pytest

from evaluator.commands.load_plan_options import overridden_load
from evaluator.errors import WrongOption
from evaluator.experiments.load_plan import LoadPlan
from evaluator.load.export import unexported_fields

DEFAULTS = {"slice_seconds": 3.0}


def test_a_default_of_the_command_yields_to_the_file_and_the_file_to_an_option() -> None:
    silent, outspoken = LoadPlan(rates=(10,)), LoadPlan(rates=(10,), slice_seconds=5)
    assert overridden_load(silent, {}, DEFAULTS).slice_seconds == 3
    assert overridden_load(outspoken, {}, DEFAULTS).slice_seconds == 5
    assert overridden_load(outspoken, {"slice_seconds": 2.0}, DEFAULTS).slice_seconds == 2


def test_other_traffic_leaves_out_what_only_the_rates_of_the_file_can_have() -> None:
    of_file = LoadPlan(rates=(10,), best_under_ms=250, seconds=7)
    assert overridden_load(of_file, {"in_flight": [2]}, {}) == LoadPlan(in_flight=(2,), seconds=7)
    assert overridden_load(of_file, {"rates": [20]}, {}) == of_file.model_copy(update={"rates": (20.0,)})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"in_flight": [2], "arrivals": "poisson"}, "--in-flight .*--arrivals"),
        ({"capacity": {"p99_ms": 500}, "slice_seconds": 3.0}, "--find-capacity .*--slice-seconds"),
    ],
)
def test_an_option_that_none_of_the_traffic_heeds_is_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(WrongOption, match=said):
        overridden_load(None, given, {})
    overridden_load(None, {"rates": [10], **given, "arrivals": "poisson"}, {})


def test_a_field_of_the_file_that_other_traffic_does_not_heed_is_no_fault() -> None:
    of_file = LoadPlan(rates=(10,), seconds=7, arrivals="constant")
    assert overridden_load(of_file, {"in_flight": [2]}, {}).seconds == 7


def test_a_capacity_is_searched_with_poisson_arrivals_alone() -> None:
    with pytest.raises(WrongOption, match=r"--find-capacity .*--arrivals"):
        overridden_load(None, {"capacity": {"p99_ms": 500}, "arrivals": "constant"}, {})


def test_an_export_names_the_fields_of_a_plan_that_scripts_leave_out() -> None:
    assert unexported_fields(LoadPlan(rates=(10,), seconds=7)) == []
    assert unexported_fields(LoadPlan(rates=(10,), in_flight=(2,), repeat=3)) == ["in_flight", "repeat"]
