"""Mean latencies as stacked shares."""

import pytest

from evaluator.pages.time_breakdown import StackedTimes, piece_rows, stacked_times_chart
from tests.support.svg_reading import texts

pytestmark = pytest.mark.usefixtures("laid_out")


def test_a_bar_has_its_name_its_pieces_and_the_mean_latency() -> None:
    bar = StackedTimes("", "bm25", {"bm25": 30.0, "gap": 10.0}, True)
    assert {"bm25", "75%", "25%", "gap", "40 ms"} <= set(texts(stacked_times_chart("Where the time goes", [bar])))
    assert list(piece_rows(bar)) == [["bm25", "30.00", "75.0%"], ["gap", "10.00", "25.0%"]]


def test_a_doubtful_time_is_marked() -> None:
    bar = StackedTimes("bm25", "20/s", {"bm25": 30.0}, False)
    assert {"bm25 at 20/s", "30 ms ?"} <= set(texts(stacked_times_chart("Where the time goes", [bar])))
    assert next(piece_rows(bar))[1] == "30.00?"


def test_without_times_there_is_no_chart() -> None:
    assert stacked_times_chart("Where the time goes", [StackedTimes("", "bm25", {}, True)]) is None
