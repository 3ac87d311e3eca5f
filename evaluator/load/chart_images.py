"""Shows the charts in `load/` as images of a page of the run's folder. Draws none of them."""

from collections.abc import Collection, Mapping, Sequence

from evaluator.load.capacity_page import capacity_file
from evaluator.load.report import LoadReport

CHARTS_SHOWN = 4


def chart_images(report: LoadReport, files: Collection[str]) -> list[str]:
    """Returns the images of those charts that are there. `files`: names of files in load/."""

    def images(charts: Mapping[str, str]) -> list[str]:
        return [f"![{shows}](load/{name})" for name, shows in charts.items() if name in files]

    capacities = [one.pipeline for one in report.capacities]
    spectra = {f"spectrum-{point.traffic}.svg": f"Latency by percentile: {point.traffic}" for point in report.points}
    return [
        *images({"rates.svg": "nDCG@10 and p99 against the offered rate"}),
        *images({capacity_file(one): f"Goodput and latency around the capacity: {one}" for one in capacities}),
        *folded(images(spectra), "Latency by percentile"),
        *images({"stages.svg": "Where the time goes"}),
    ]


def folded(parts: Sequence[str], summary: str) -> list[str]:
    """Returns the parts, behind a summary where they would fill several screens."""
    if len(parts) <= CHARTS_SHOWN:
        return list(parts)
    return [f"<details><summary>{summary}</summary>", *parts, "</details>"]
