"""Mean latencies as stacked shares."""

from evaluator.pages.stacked_times_chart import StackedTimes, stacked_times_chart
from tests.support.svg_reading import texts


def test_a_bar_has_its_name_its_pieces_and_the_mean_latency() -> None:
    svg = stacked_times_chart("Where the time goes", [StackedTimes("", "bm25", {"bm25": 30.0, "gap": 10.0}, True)])
    assert {"bm25", "bm25 75%", "gap 25%", "40 ms"} <= set(texts(svg))


def test_a_doubtful_time_is_marked() -> None:
    svg = stacked_times_chart("Where the time goes", [StackedTimes("bm25", "20/s", {"bm25": 30.0}, False)])
    assert "30 ms ?" in texts(svg)


def test_without_times_there_is_no_chart() -> None:
    assert stacked_times_chart("Where the time goes", [StackedTimes("", "bm25", {}, True)]) is None
