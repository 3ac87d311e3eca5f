"""The charts of a load show what load.json holds, and say what it does not hold."""

from itertools import pairwise

from evaluator.load.load_report import LoadReport
from evaluator.load.page.charts import drawn_share, rates_chart, spectrum_chart, stages_chart
from evaluator.load.page.load_page import render_load_page
from evaluator.load.points.best_under import QualityDifference, best_rows
from evaluator.load.points.point_report import LoadPointReport
from evaluator.pages.svg_chart import Scale, spread
from tests.support.load_points import load_point, load_report
from tests.support.svg_reading import elements, texts


def closed(point: LoadPointReport) -> LoadPointReport:
    return point.model_copy(update={"loop": "closed", "rate": None, "in_flight": 8})


def best_of(report: LoadReport) -> list[list[str]]:
    return best_rows(report.points, report.quality_differences, report.plan.rates)


def test_a_point_without_p99_stands_in_the_band_and_one_of_doubtful_times_is_dashed() -> None:
    few, foreign = load_point(rate=5, n=300), load_point(rate=20, foreign=0.4)
    svg = rates_chart(load_report(few, load_point(rate=10), foreign, load_point(rate=40)))
    assert elements(svg, "hollow c0") == 2  # the point in the band, and the doubtful one
    assert elements(svg, "line c0 dashed") == 2  # to it and from it
    assert elements(svg, "line thin c0 dashed") == 1  # its interval
    legend = "No p99: fewer than 662 requests. Dashed, ?: times that do not hold (load.md has the reasons)."
    assert {legend, "no p99", "hybrid ?"} <= set(texts(svg))


def test_a_load_whose_times_are_not_valid_still_shows_its_quality() -> None:
    svg = rates_chart(load_report(load_point(foreign=0.4, lost=70)))
    assert elements(svg, "mark c0") == 3  # the point, its name, and the name of its p99
    assert elements(svg, "hollow c0") == 1


def test_a_closed_loop_is_in_no_chart_of_rates() -> None:
    assert rates_chart(load_report(closed(load_point()))) is None


def test_a_percentile_is_drawn_only_with_seven_requests_beyond_it() -> None:
    assert drawn_share(load_point(n=662)) == 0.99
    assert drawn_share(load_point(n=6)) == 0
    assert drawn_share(load_point(foreign=0.4)) == drawn_share(load_point())
    assert drawn_share(closed(load_point())) == 0.95


def test_the_spectrum_of_times_that_are_not_valid_is_dashed_and_marked() -> None:
    points = [load_point("bm25"), load_point("dense", foreign=0.4)]
    spectra = {"bm25": [(0.0, 5.0), (0.99, 50.0)], "dense": [(0.0, 6.0), (0.95, 40.0)]}
    svg = spectrum_chart("20/s", points, spectra)
    assert elements(svg, "line c1 dashed") == 1
    assert {"bm25", "dense ?", "0 %", "50 %", "90 %", "99 %"} <= set(texts(svg))


def test_every_point_has_a_bar_of_its_pieces_with_its_mean() -> None:
    point = load_point(mean_ms=100.0, foreign=0.4)
    shown = texts(stages_chart(load_report(point)))
    assert f"{sum(point.path_ms.values()):.3g} ms ?" in shown or f"{sum(point.path_ms.values()):,.0f} ms ?" in shown
    assert {"hybrid", "20/s", "rerank 30%", "gap 10%"} <= set(shown)


def test_the_page_names_what_is_not_valid_before_the_figures_and_lists_request_ids() -> None:
    point = load_point(foreign=0.4, lost=3)
    page = render_load_page("shop", load_report(point), ["rates.svg"])
    assert page.index("hybrid at 20/s: times marked with ?, because other processes") < page.index("| pipeline")
    assert "hybrid at 20/s: 3 requests failed (timeout 3)" in page
    assert "(load/rates.svg)" in page
    assert all(str(one.request_id) in page for one in point.slowest[:5])


def test_names_are_moved_apart_within_their_panel() -> None:
    for wanted in ([50.0, 10.0, 12.0, 11.0], [59.0, 60.0]):
        moved = spread(wanted, 16, 0, 60)
        places = sorted(moved)
        assert sorted(range(len(wanted)), key=wanted.__getitem__) == sorted(range(len(moved)), key=moved.__getitem__)
        assert min(after - before for before, after in pairwise(places)) >= 16
        assert 0 <= places[0] <= places[-1] <= 60


def test_a_logarithmic_axis_over_many_decades_shows_powers_of_ten() -> None:
    assert Scale(0.5, 20_000, 0, 100, logarithmic=True).ticks() == [1, 10, 100, 1_000, 10_000]
    assert Scale(4, 60, 0, 100, logarithmic=True).ticks() == [5, 10, 20, 50]


def test_the_best_pipeline_under_each_bound_is_listed_for_every_rate() -> None:
    fast, good = load_point("bm25", 10, 8.0, lost=0), load_point("hybrid", 10, 90.0)
    worse = fast.model_copy(update={"quality": fast.quality.model_copy(update={"ndcg_at_10": 0.5})})
    differing = QualityDifference(
        traffic="10", first="bm25", second="hybrid", difference=0.5, interval=(0.4, 0.6), queries=50
    )
    told = load_report(worse, good).model_copy(update={"quality_differences": (differing,)})
    row = ["10/s", *["bm25 (0.5000)"] * 2, "cannot tell", *["hybrid (1.0000)"] * 2]
    assert best_of(told)[1] == row
    row[-2:] = ["hybrid (1.0000), not told apart from bm25"] * 2
    assert best_of(load_report(worse, good))[1] == row


def test_a_rate_at_which_every_pipeline_is_too_slow_has_no_best_one() -> None:
    assert best_of(load_report(load_point(mean_ms=5_000.0)))[1] == ["20/s", *["none"] * 5]


def test_a_better_pipeline_without_p99_leaves_the_best_one_open() -> None:
    lossy, unknown = load_point("bm25", mean_ms=8.0, lost=5), load_point(foreign=0.4)
    assert best_of(load_report(lossy, unknown))[1][1:] == ["cannot tell"] * 5
