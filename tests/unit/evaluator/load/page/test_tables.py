"""The sentences beside the table of a load."""

import re

import pytest

from evaluator.client.cached_results import CacheUse
from evaluator.load.page.charts import stages_chart
from evaluator.load.page.load_page import render_load_page
from evaluator.load.page.tables import load_rows, load_warnings, percentile_rows, ratio_rows, repeat_rows
from evaluator.load.points.ratios import PercentileRatio, repeated_figure
from evaluator.pages.cost_tables import number_cell
from evaluator.runs.latency import Timed
from tests.support.load_points import load_point, load_report


def test_hit_rates_and_degraded_answers_stand_beside_the_table() -> None:
    used = {"dense": CacheUse(hits=3, of=4, rate=0.75)}
    point = load_point(n=5)
    counts = point.counts.model_copy(update={"degraded": 3, "degraded_by_stage": {"rerank: deadline": 3}})
    changed = point.model_copy(update={"cached": used, "counts": counts, "timing_faults": ()})
    assert list(load_warnings(load_report(changed))) == [
        "hybrid at 20/s: 3 answers were degraded (rerank: deadline 3)",
        "hybrid at 20/s: dense had 75.0% of 4 results in its cache",
    ]


def test_the_table_tells_the_shares_of_degraded_answers_and_of_candidates_that_were_re_ranked() -> None:
    point = load_point(n=5)
    cut = point.quality.model_copy(update={"degraded_share": 0.25, "reranked_share": 0.8})
    for quality, shown in (
        (cut, ["25.0%", "80.0%"]),
        (cut.model_copy(update={"reranked_share": None}), ["25.0%", "–"]),
    ):
        assert load_rows(load_report(point.model_copy(update={"quality": quality})))[-1][-3:-1] == shown
    assert load_rows(load_report(load_point(n=5, lost=5)))[-1][-3:-1] == ["–", "–"]


def test_a_time_that_does_not_hold_is_marked_and_so_are_the_ends_of_its_interval() -> None:
    header, row = percentile_rows(load_report(load_point(cpu=0.9)))
    cells = dict(zip(header, row, strict=True))
    assert re.fullmatch(r"[\d.]+\? \([\d.]+\? to [\d.]+\?\)", cells["p99"]), cells["p99"]
    assert "?" not in "".join(percentile_rows(load_report(load_point()))[1])


@pytest.mark.parametrize(("cpu", "mark"), [(0.1, ""), (0.9, "?")])
def test_every_time_of_a_point_whose_times_are_not_valid_is_marked(cpu: float, mark: str) -> None:
    point = load_point(cpu=cpu)
    times = [cell for cell in load_rows(load_report(point))[-1][3:7] if cell != "–"]
    assert {cell.endswith("?") for cell in times} == {bool(mark)}
    repeated = {"nDCG@10": repeated_figure([0.7, 0.7]), "p50": repeated_figure([20.0, 21.0])}
    rows = repeat_rows(load_report(point.model_copy(update={"repeats": repeated})))[-2:]
    assert "?" not in "".join(rows[0])
    assert rows[1][3:6] == [f"20.5{mark}", f"20{mark}", f"21{mark}"]


@pytest.mark.parametrize("cpu", [0.1, 0.9])
def test_the_stages_of_the_slowest_answers_and_of_the_chart_are_marked_as_the_answers_are(cpu: float) -> None:
    report = load_report(load_point(cpu=cpu))
    section = render_load_page("scifact", report, []).split("## The slowest answers")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if "hybrid" in line]
    times = [time for row in rows for time in (row[3], *(stage.split()[1] for stage in row[4].split(", ")))]
    assert times
    assert {time.endswith("?") for time in times} == {cpu > 0.5}
    chart = stages_chart(report)
    assert chart is not None
    assert ("? ms" in chart) == (cpu > 0.5)


def test_a_ratio_with_a_point_whose_times_are_not_valid_is_marked() -> None:
    ratio = PercentileRatio(
        traffic="20", first="a", second="b", percentile="p50", ratio=1.5, interval=(1.4, 1.6), n=700, block=60,
        timing_valid=False,
    )  # fmt: skip
    report = load_report(load_point(n=5)).model_copy(update={"ratios": (ratio,)})
    assert ratio_rows(report)[-1][3:] == ["1.50?", "1.40?", "1.60?"]
    without = ratio.model_copy(update={"interval": None, "timing_valid": True})
    assert ratio_rows(report.model_copy(update={"ratios": (without,)}))[-1][3:] == ["1.50", "–", "–"]


@pytest.mark.parametrize("ms", [-0.0, -0.04])
def test_what_rounds_to_zero_has_no_sign(ms: float) -> None:
    assert (Timed(ms, True).cell(), number_cell(ms)) == ("0.0", "0.0")


def test_a_time_that_other_work_disturbed_is_shown_with_the_interval_that_it_lies_in() -> None:
    report = load_report(load_point(disturbed=0.02))
    header, row = percentile_rows(report)
    assert re.fullmatch(r"[\d.]+ to [\d.]+\?", dict(zip(header, row, strict=True))["p99"])
    (warning,) = load_warnings(report)
    assert "other work disturbed 2% of the requests" in warning


def test_the_page_tells_foreign_load_and_throttling() -> None:
    page = render_load_page("scifact", load_report(load_point()), [])
    header, _, row = [line for line in page.splitlines() if line.startswith("|")][-3:]
    told = dict(
        zip((cell.strip() for cell in header.split("|")), (cell.strip() for cell in row.split("|")), strict=True)
    )
    assert (told["foreign CPU"], told["throttling"], told["busy windows"]) == ("2.0%", "0.0%", "0 of 0")
