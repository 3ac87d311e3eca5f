"""Figures of each step of changing rates."""

from evaluator.experiments.load_plan import TrafficStep
from evaluator.load.page.tables import step_rows
from evaluator.load.points.point_parts import step_figures
from tests.support.load_points import load_point, load_report
from tests.support.load_samples import load_sample

STEPS = (TrafficStep(rate=2, seconds=2), TrafficStep(rate=2, to=6, seconds=1))
# Planned after a warm-up of a second; the third one is lost.
PLANNED_S = (1.0, 1.9, 2.5, 3.0, 3.9)


def test_each_request_counts_in_the_step_in_which_it_was_planned() -> None:
    samples = [
        load_sample(number, planned_s=at_s, latency_ms=None if number == 2 else 10.0 + number, ids=("good",))
        for number, at_s in enumerate(PLANNED_S)
    ]
    first, second = step_figures(STEPS, 1.0, 1, samples, {"q": {"good": 1}})
    assert (first.step, first.begin_s, first.requests, first.goodput) == ("2/s", 0.0, 3, 1.0)
    assert (first.p50_ms.unchecked_ms, first.p95_ms.unchecked_ms, first.ndcg_at_10) == (11.0, 10_000.0, 2 / 3)
    assert (second.step, second.begin_s, second.requests, second.goodput) == ("2 to 6/s", 2.0, 2, 2.0)
    assert step_figures(STEPS, 1.0, 2, samples, {"q": {"good": 1}})[1].goodput == 1.0


def test_a_step_without_a_request_has_no_figures_and_each_step_has_a_row() -> None:
    steps = step_figures(STEPS, 1.0, 1, [], {})
    assert (steps[0].p50_ms.unchecked_ms, steps[0].ndcg_at_10, steps[0].goodput) == (None, None, 0.0)
    report = load_report(load_point(n=5).model_copy(update={"by_step": steps}))
    assert step_rows(report)[-1] == ["hybrid", "2 to 6/s", "2", "0.0", "–", "–", "–", "0", "0"]
    assert len(step_rows(load_report(load_point(n=5)))) == 1
