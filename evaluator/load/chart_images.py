"""Shows the charts in `load/` as images of a page of the run's folder. Draws none of them."""

from collections.abc import Collection, Mapping, Sequence

from evaluator.load.capacity_page import capacity_file
from evaluator.load.report import LoadReport
from evaluator.page_blocks import Block, ChartImage, FoldedBlocks

CHARTS_SHOWN = 4


def chart_images(report: LoadReport, files: Collection[str]) -> list[Block]:
    """Returns the images of those charts that are there. `files`: paths within the run's folder."""

    def images(charts: Mapping[str, str]) -> list[Block]:
        return [ChartImage(f"load/{name}", shows) for name, shows in charts.items() if f"load/{name}" in files]

    capacities = [one.pipeline for one in report.capacities]
    spectra = {f"spectrum-{point.traffic}.svg": f"Latency by percentile: {point.traffic}" for point in report.points}
    found = images(spectra)
    return [
        *images({"rates.svg": "nDCG@10 and p99 against the offered rate"}),
        *images({capacity_file(one): f"Goodput and latency around the capacity: {one}" for one in capacities}),
        *(found if len(found) <= CHARTS_SHOWN else [FoldedBlocks("Latency by percentile", tuple(found))]),
        *images({"stages.svg": "Where the time goes"}),
    ]


def folded(parts: Sequence[str], summary: str) -> list[str]:
    """Returns the parts, behind a summary where they would fill several screens."""
    if len(parts) <= CHARTS_SHOWN:
        return list(parts)
    return [f"<details><summary>{summary}</summary>", *parts, "</details>"]
