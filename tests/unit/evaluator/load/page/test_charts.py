"""The charts of a load show what load.json holds, and say what it does not hold."""

import pytest

from evaluator.load.page.charts import drawn_share, rates_chart, spectrum_chart, stages_chart
from evaluator.load.page.load_page import render_load_page
from evaluator.load.points.point_report import LoadPointReport
from tests.support.load_points import load_point, load_report
from tests.support.svg_reading import texts

pytestmark = pytest.mark.usefixtures("laid_out")


def closed(point: LoadPointReport) -> LoadPointReport:
    return point.model_copy(update={"loop": "closed", "rate": None, "in_flight": 8})


def test_the_chart_of_rates_names_each_pipeline_and_says_which_times_are_missing_or_do_not_hold() -> None:
    points = [load_point(rate=5, n=300), load_point(rate=20, cpu=0.9), load_point("bm25", rate=40)]
    shown = texts(rates_chart(load_report(*points)))
    assert {"hybrid ?", "bm25", "No p99: fewer than 662 requests.", "Dashed, ?: times that do not hold."} <= set(shown)
    valid = texts(rates_chart(load_report(load_point())))
    assert "hybrid" in valid
    assert not [text for text in valid if "?" in text or "No p99" in text]


def test_a_closed_loop_is_in_no_chart_of_rates() -> None:
    assert rates_chart(load_report(closed(load_point()))) is None


def test_a_percentile_is_drawn_only_with_seven_requests_beyond_it() -> None:
    assert drawn_share(load_point(n=662)) == 0.99
    assert drawn_share(load_point(n=6)) == 0
    assert drawn_share(load_point(cpu=0.9)) == drawn_share(load_point())
    assert drawn_share(closed(load_point())) == 0.95


def test_the_spectrum_of_times_that_are_not_valid_is_marked() -> None:
    points = [load_point("bm25"), load_point("dense", cpu=0.9)]
    spectra = {"bm25": [(0.0, 5.0), (0.99, 50.0)], "dense": [(0.0, 6.0), (0.95, 40.0)]}
    assert {"bm25", "dense ?", "0 %", "50 %", "90 %", "99 %"} <= set(texts(spectrum_chart("20/s", points, spectra)))


def test_every_point_has_a_bar_of_its_pieces_with_its_mean() -> None:
    point = load_point(mean_ms=100.0, cpu=0.9)
    shown = texts(stages_chart(load_report(point)))
    assert f"{sum(point.path_ms.values()):.3g} ms ?" in shown or f"{sum(point.path_ms.values()):,.0f} ms ?" in shown
    assert {"hybrid at 20/s", "rerank", "30%", "gap", "10%"} <= set(shown)


def test_the_page_names_what_is_not_valid_before_the_figures_and_lists_request_ids() -> None:
    point = load_point(cpu=0.9, lost=3)
    page = render_load_page("shop", load_report(point), ["load/rates.svg"])
    assert page.index("hybrid at 20/s: times marked with ?, because a generator") < page.index("| pipeline")
    assert "hybrid at 20/s: 3 requests failed (timeout 3)" in page
    assert "(load/rates.svg)" in page
    assert all(str(answer.request_id) in page for answer in point.slowest[:5])


@pytest.mark.parametrize(("high", "ticks"), [(60, {"5", "10", "20", "50"}), (40_000, {"10", "1,000"})])
def test_a_logarithmic_axis_has_round_numbers(high: float, ticks: set[str]) -> None:
    spectra = {"hybrid": [(0.0, 5.0), (0.9, high)]}
    shown = set(texts(spectrum_chart("20/s", [load_point()], spectra)))
    assert ticks <= shown
    assert ("20" in shown) == ("20" in ticks)


def test_the_charts_of_nine_pipelines_at_ten_rates_take_less_than_half_a_megabyte() -> None:
    def at_rate(rate: float, name: str) -> LoadPointReport:
        return load_point().model_copy(update={"rate": rate, "traffic": f"{rate:g}", "pipeline": name})

    points = [at_rate(rate, f"pipeline-{number}") for number in range(9) for rate in range(10, 110, 10)]
    report, spectrum = load_report(*points), [(1 - 0.01 ** (at / 160), 20.0 + at) for at in range(161)]
    drawn = spectrum_chart("10/s", points[::10], {point.pipeline: spectrum for point in points[::10]})
    assert sum([len(rates_chart(report) or ""), len(stages_chart(report) or ""), *[len(drawn)] * 10]) < 500_000
