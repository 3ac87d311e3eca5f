"""Every chart of a page stands beside a table of what it shows; a large report stays a file to mail."""

import math

import pytest

from evaluator.load.load_report import LoadReport
from evaluator.load.page.blocks import load_blocks
from evaluator.load.page.charts import rates_chart, spectrum_chart, stages_chart
from evaluator.load.points.point_report import LoadPointReport
from evaluator.pages.page_blocks import ChartImage, tables_of
from evaluator.pages.stacked_times_chart import StackedTimes, piece_rows
from tests.support.charted_blocks import charts_without_table, flat
from tests.support.load_points import load_point, load_report
from tests.unit.evaluator.load.page.test_capacity_section import found


def at_rate(point: LoadPointReport, rate: float, name: str | None = None) -> LoadPointReport:
    return point.model_copy(update={"rate": rate, "traffic": f"{rate:g}", "pipeline": name or point.pipeline})


@pytest.fixture(scope="module")
def load() -> LoadReport:
    both = [load_point(name) for name in ("bm25", "hybrid")]
    points = [at_rate(one, rate) for one in both for rate in (10, 20, 40, 80, 160)]
    return load_report(*points).model_copy(update={"capacities": (found(),)})


def test_every_chart_of_a_load_has_a_table_beside_it(load: LoadReport) -> None:
    spectra = [f"load/spectrum-{traffic}.svg" for traffic in ("10", "20", "40", "80", "160")]
    files = ["load/rates.svg", "load/capacity-bm25.svg", "load/stages.svg", *spectra]
    blocks = load_blocks(load, files)
    assert sorted(one.path for one in flat(blocks) if isinstance(one, ChartImage)) == sorted(files)
    assert charts_without_table(blocks) == []
    tables = {one.name: one for one in tables_of(blocks)}
    assert tables["load-capacity-bm25"].rows[4][:3] == ("1.5x", "120/s", "120.0")
    assert tables["load-percentiles"].rows[1][:2] == ["bm25", "10/s"]
    path = [row for row in tables["load-path"].body if row[:2] == ["hybrid", "40/s"]]
    assert math.fsum(float(row[3]) for row in path) == pytest.approx(sum(load.points[7].path_ms.values()), abs=0.1)


def test_pieces_of_the_latency_are_told_with_their_share() -> None:
    bar = StackedTimes("", "bm25", {"bm25": 30.0, "gap": 10.0}, True)
    assert list(piece_rows(bar)) == [["bm25", "30.00", "75.0%"], ["gap", "10.00", "25.0%"]]
    assert next(piece_rows(StackedTimes("", "bm25", {"bm25": 30.0}, False)))[1] == "30.00?"


def test_the_charts_of_nine_pipelines_at_ten_rates_take_less_than_half_a_megabyte() -> None:
    one = load_point()
    points = [at_rate(one, rate, f"pipeline-{number}") for number in range(9) for rate in range(10, 110, 10)]
    report = load_report(*points)
    spectrum = [(1 - 0.01 ** (at / 160), 20.0 + at) for at in range(161)]
    some = points[::10]
    drawn = spectrum_chart("10/s", some, {one.pipeline: spectrum for one in some})
    sizes = [len(rates_chart(report) or ""), len(stages_chart(report) or ""), *[len(drawn)] * 10]
    assert max(sizes) < 150_000
    assert sum(sizes) < 500_000
