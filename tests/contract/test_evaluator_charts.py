"""The charts of a report: readable on light and on dark pages."""

import re
from pathlib import Path

from evaluator.pages.svg_chart import COLOURS, DARK, LIGHT
from evaluator.report.sections import report_charts
from tests.support.gateway_stub import GatewayStub
from tests.support.small_runs import evaluated, planned
from tests.support.svg_reading import texts

COLOURED = tuple(f"c{number}" for number in range(COLOURS))


async def test_a_chart_is_drawn_for_light_and_for_dark_pages_on_a_background_of_its_own(tmp_path: Path) -> None:
    experiment = planned(tmp_path, pipelines=["bm25", "dense", "hybrid"])
    report, _ = await evaluated(GatewayStub(approximate_misses=1), experiment, tmp_path)
    charts = report_charts(report)
    quality_latency, differences = charts["charts/quality-latency.svg"], charts["charts/differences.svg"]
    for chart in (quality_latency, differences):
        style = re.search(r"<style>(.*?)</style>", chart)
        assert style is not None
        light, dark = style[1].split("@media (prefers-color-scheme:dark)")
        assert f"--paper:{LIGHT['paper']}" in light
        assert f"--paper:{DARK['paper']}" in dark.partition("@media print")[0]
        assert '<rect class="paper" width="100%" height="100%"' in chart
        # What takes its colour from none of the palette's classes is black on a dark page too.
        looks = [look.split() for look in re.findall(r'class="([^"]+)"', chart)]
        assert [look for look in looks if {"line", "mark"} & set(look) and not set(COLOURED) & set(look)] == []
    assert {"bm25", "dense", "hybrid"} <= {text.split(" ")[0] for text in texts(quality_latency)}
    assert {"hybrid against bm25", "dense against bm25"} <= set(texts(differences))
