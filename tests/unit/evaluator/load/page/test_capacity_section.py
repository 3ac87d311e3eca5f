"""The capacity's section of load.md and its chart show what capacity.json holds, and say what it does not hold."""

import functools

import pytest

from evaluator.load.capacity import CapacityReport, FoundCapacity, MeasuredRate, capacity_report
from evaluator.load.page.blocks import load_blocks
from evaluator.load.page.charts import capacity_chart
from evaluator.load.page.load_page import render_load_page
from evaluator.load.page.tables import overview_rows
from evaluator.pages.markdown_page import markdown_parts
from tests.support.load_points import load_point, load_report
from tests.support.svg_reading import texts

pytestmark = pytest.mark.usefixtures("laid_out")

BOUND = 500.0


def measured(rate: float, p99_ms: float | None) -> MeasuredRate:
    outcome = "carried" if p99_ms is not None and p99_ms <= BOUND else "not carried"
    return MeasuredRate.model_validate(
        {"rate": rate, "seconds": 20, "requests": 1_000, "over": 0, "lost": 0, "p99_ms": p99_ms, "outcome": outcome,
         "reasons": ()}
    )  # fmt: skip


@functools.cache
def found(points: bool = True) -> CapacityReport:
    """Returns the report of a pipeline that carries 80/s. Beyond it a share of the requests has no answer."""
    rates = [measured(160, 900), *[measured(80, 90)] * 6]
    capacity = FoundCapacity(bound_ms=BOUND, outcome="found", rate=80, reasons=(), measured=tuple(rates))
    swept = [
        (0.1, load_point("bm25", 8, 20.0, n=300)),
        (0.8, load_point("bm25", 64, 30.0)),
        (1.0, load_point("bm25", 80, 40.0)),
        (1.5, load_point("bm25", 120, 90.0, cpu=0.9)),
        (2.0, load_point("bm25", 160, 90.0, lost=350)),
        (4.0, load_point("bm25", 320, 90.0, lost=500)),
    ]
    return capacity_report("bm25", capacity, swept if points else [])


def unknown() -> CapacityReport:
    capacity = FoundCapacity(bound_ms=BOUND, outcome="cannot tell", rate=None, reasons=("at 10/s: steal",), measured=())
    return capacity_report("dense", capacity, [])


def test_capacity_and_knee_are_marked_in_the_chart() -> None:
    report = found()
    shown = [text.strip() for text in texts(capacity_chart(report))]
    assert {"capacity 80/s", f"knee {report.knee:g}/s", "in time", "nDCG@10", "p95", "p99"} <= set(shown)
    assert {"No p99: fewer than 662 requests.", "Dashed, ?: times that do not hold."} <= set(shown)


def test_a_search_without_a_capacity_has_no_chart_and_its_sentence_stands_in_the_section() -> None:
    assert capacity_chart(unknown()) is None
    page = render_load_page("shop", load_report(load_point()).model_copy(update={"capacities": (unknown(),)}), ())
    assert "This machine cannot tell which rate dense carries with p99 <= 500 ms: at 10/s: steal." in page
    assert overview_rows([unknown()])[1][2] == "cannot tell"


def test_the_section_has_a_row_a_pipeline_with_what_is_answered_at_multiples() -> None:
    report = found()
    header, row, _ = overview_rows([report, unknown()])
    shown = dict(zip(header, row, strict=True))
    assert (shown["capacity"], shown["verified"]) == ("80/s", "5 of 5")
    # At twice the capacity half of the requests were lost, so that half of the nDCG@10 is left.
    assert (shown["1x"], shown["2x"]) == ("80.0 (80.0)", "80.0 (80.0)")
    assert shown["1.5x"] == "120.0 (120.0)"


def test_the_page_of_a_search_that_found_nothing_has_no_empty_tables() -> None:
    report = load_report(load_point()).model_copy(update={"points": (), "capacities": (unknown(),)})
    page = render_load_page("shop", report, [])
    assert "## Capacity" in page
    assert "## Percentiles" not in page
    assert "send lag" not in page


def test_the_report_of_a_run_tells_each_capacity_and_shows_the_charts_that_are_there() -> None:
    report = found()
    load = load_report(load_point("bm25", 80)).model_copy(update={"capacities": (report, unknown())})
    files = {f"load/{name}.svg" for name in ("capacity-bm25", "rates", "spectrum-80", "other")}
    section = list(markdown_parts(load_blocks(load, files)))
    assert [part for part in section if part in (report.sentence, unknown().sentence)] == [
        report.sentence, unknown().sentence,
    ]  # fmt: skip
    assert [part.partition("](")[2] for part in section if part.startswith("![")] == [
        "load/capacity-bm25.svg)", "load/rates.svg)", "load/spectrum-80.svg)",
    ]  # fmt: skip
    nothing = load.model_copy(update={"points": (), "capacities": (unknown(),)})
    assert not any(part.startswith("|") for part in markdown_parts(load_blocks(nothing, ())))
