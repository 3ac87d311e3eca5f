"""Which changes of settings parity tries, and which of those that fit it names."""

from evaluator.parity.figure_settings import FigureSettings, changed, changes_to_try, minimal

SERVED = FigureSettings(fields="best_fields", k1=1.2, b=0.75, tie_breaker=0.5)


def test_what_the_source_documents_is_tried_first_and_in_every_combination() -> None:
    documented = changed(SERVED, {"k1": 1.37, "ties": "descending"})
    assert changes_to_try(SERVED, documented)[:3] == (
        {"k1": 1.37},
        {"ties": "descending"},
        {"k1": 1.37, "ties": "descending"},
    )


def test_a_served_setting_is_not_tried_again() -> None:
    for change in changes_to_try(SERVED, SERVED):
        assert all(value != getattr(SERVED, name) for name, value in change.items())


def test_no_result_is_tried_twice() -> None:
    results = [changed(SERVED, change) for change in changes_to_try(SERVED, changed(SERVED, {"k1": 0.9, "b": 0.4}))]
    assert len({(one.preset.name, one.self_retrieved, one.missing, one.ties, one.depth) for one in results}) == len(
        results
    )


def test_a_tie_breaker_is_tried_only_where_two_fields_compete() -> None:
    flat = FigureSettings(fields="flat", k1=0.9, b=0.4, tie_breaker=0.0)
    assert {"tie_breaker": 0.3} not in changes_to_try(flat, flat)
    assert {"fields": "best_fields", "tie_breaker": 0.5} in changes_to_try(flat, flat)


def test_a_change_that_contains_another_one_is_not_named() -> None:
    assert minimal([{"k1": 0.9}, {"k1": 0.9, "b": 0.4}, {"b": 0.4, "ties": "descending"}]) == (
        {"k1": 0.9},
        {"b": 0.4, "ties": "descending"},
    )
