"""Kinds of traffic of a plan, and which of them take turns."""

from evaluator.experiments.load_plan import LoadPlan
from evaluator.load.sending.kinds import planned_traffic, slice_count
from evaluator.load.sending.loading_figures import SliceLoading, loading_faults, loading_figures


def test_each_rate_takes_turns_with_itself_while_loading() -> None:
    plan = LoadPlan(rates=(10, 20), while_loading=True)
    groups = planned_traffic(plan)
    assert [[one.label for one in group] for group in groups] == [["10", "10-loading"], ["20", "20-loading"]]


def test_other_kinds_take_no_turns_with_each_other() -> None:
    plan = LoadPlan(rates=(10, 20), in_flight=(4,))
    groups = planned_traffic(plan)
    assert [[one.label for one in group] for group in groups] == [["10"], ["20"], ["inflight4"]]


def test_a_rate_while_loading_is_cut_into_slices_also_of_one_pipeline() -> None:
    plan = LoadPlan(rates=(20,), seconds=60, slice_seconds=15, while_loading=True)
    assert slice_count(plan, 1) == 4
    assert slice_count(plan.model_copy(update={"slice_seconds": 60.0}), 1) == 2


def test_the_words_of_traffic_name_rate_and_loading() -> None:
    (group,) = planned_traffic(LoadPlan(rates=(20,), while_loading=True))
    assert [one.asked_through("bm25") for one in group] == ["bm25 at 20/s", "bm25 at 20/s while loading"]


def test_a_slice_in_which_nothing_was_loaded_is_a_fault_and_its_seconds_count() -> None:
    slices = [SliceLoading(64, 10.0, None), SliceLoading(0, 6.0, None)]
    assert list(loading_faults(slices)) == [
        "no document was loaded in 1 of 2 slices; longer ones hold more (--slice-seconds)"
    ]
    figures = loading_figures(slices)
    assert figures is not None
    assert (figures.documents, figures.documents_a_second) == (64, 4.0)
    assert list(loading_faults(slices[:1])) == []
    assert loading_figures([]) is None
