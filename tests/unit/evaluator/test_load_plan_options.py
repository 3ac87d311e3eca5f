"""Options of `load` over the plan of an experiment's file."""

from evaluator.commands.load_plan_options import overridden_load
from evaluator.load_plan import LoadPlan

DEFAULTS = {"slice_seconds": 3.0}


def test_a_default_of_the_command_yields_to_the_file_and_the_file_to_an_option() -> None:
    silent, outspoken = LoadPlan(rates=(10,)), LoadPlan(rates=(10,), slice_seconds=5)
    assert overridden_load(silent, {}, DEFAULTS).slice_seconds == 3
    assert overridden_load(outspoken, {}, DEFAULTS).slice_seconds == 5
    assert overridden_load(outspoken, {"slice_seconds": 2.0}, DEFAULTS).slice_seconds == 2


def test_other_traffic_leaves_out_what_only_the_rates_of_the_file_can_have() -> None:
    of_file = LoadPlan(rates=(10,), best_under_ms=250, while_loading=True, seconds=7)
    assert overridden_load(of_file, {"in_flight": [2]}, {}) == LoadPlan(in_flight=(2,), seconds=7)
    assert overridden_load(of_file, {"rates": [20]}, {}) == of_file.model_copy(update={"rates": (20.0,)})
