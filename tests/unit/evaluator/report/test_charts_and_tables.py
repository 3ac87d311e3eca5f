"""Every chart of a page stands beside a table of what it shows."""

import math

import pytest

from evaluator.load.load_report import LoadReport
from evaluator.load.page.blocks import load_blocks
from evaluator.load.points.point_report import LoadPointReport
from evaluator.pages.page_blocks import ChartImage
from evaluator.report.report_page import STEPS
from evaluator.report.run_report import Report
from tests.support.charted_blocks import charts_without_table, flat, tables_of
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


def test_a_step_fills_the_field_of_its_name_with_its_file() -> None:
    assert STEPS
    for step in STEPS:
        assert Report.model_fields[step.name].annotation == step.model | None
