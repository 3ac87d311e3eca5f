"""The chart of a load that runs."""

from evaluator.load.page.live_chart import live_chart
from evaluator.load.sending.live import LiveFigures
from tests.support.svg_reading import elements, texts


def second(p50_ms: float | None, lost: int = 0) -> LiveFigures:
    p99_ms = None if p50_ms is None else p50_ms * 2
    return LiveFigures(
        traffic="bm25 at 20/s", seconds=1, rate=20, in_flight=1, p50_ms=p50_ms, p99_ms=p99_ms, degraded=0, lost=lost
    )


def test_the_newest_second_stands_at_now_and_names_its_traffic() -> None:
    shown = texts(live_chart([second(10.0), second(20.0)]))
    assert {"Latest seconds: bm25 at 20/s", "p50", "p99", "now"} <= set(shown)


def test_a_line_does_not_cross_a_second_without_an_answer() -> None:
    svg = live_chart([second(10.0), second(10.0), second(None, lost=3), second(10.0), second(10.0)])
    assert elements(svg, "line c0") == 2
    assert elements(svg, "line c1") > 2  # and the cross of the lost requests


def test_the_turn_of_another_pipeline_is_not_drawn_under_the_name_of_this_one() -> None:
    before = second(500.0).model_copy(update={"traffic": "dense at 20/s"})
    assert live_chart([before, before, second(10.0), second(20.0)]) == live_chart([second(10.0), second(20.0)])


def test_before_the_first_answer_there_is_no_chart() -> None:
    assert live_chart([]) is None
    assert live_chart([second(None)]) is None
