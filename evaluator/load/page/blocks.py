"""Builds the section of a report about its load. Pure; the page of the load alone is left to load_page.py."""

from collections.abc import Collection, Iterator, Mapping

from evaluator.load.capacity import CapacityReport, multiple_rows
from evaluator.load.load_report import LOAD, LoadReport
from evaluator.load.page.charts import CHARTS_SHOWN, path_rows
from evaluator.load.page.tables import (
    PERCENTILES,
    cost_rows,
    load_rows,
    load_warnings,
    percentile_rows,
    ratio_rows,
    repeat_rows,
)
from evaluator.load.points.best_under import BestUnder, best_under_rows
from evaluator.pages.page_blocks import (
    Block,
    Caution,
    ChartImage,
    FoldedBlocks,
    Heading,
    Prose,
    Sentence,
    Table,
    filled,
)
from evaluator.pages.step_page import ShownStep
from evaluator.pages.time_breakdown import PATH

SPECTRUM_SHOWS = "Latency by percentile"
CAPACITY_SHOWS = "Goodput and latency around the capacity"
PLANNED = (
    "Requests leave at planned times, whether or not earlier ones were answered. Latency counts from the planned send "
    "time. A request without an answer in time counts with its deadline and as an empty ranking. "
    "[load.md](load.md) has stages, slowest answers and more; load.json has all figures."
)


def load_blocks(load: LoadReport, charts: Collection[str]) -> list[Block]:
    """Returns the capacities, tables, charts and warnings of a load. `charts`: paths within the run's folder."""
    return [
        Heading("Load"),
        Prose(PLANNED),
        *(block for capacity in load.capacities for block in capacity_blocks(capacity, charts)),
        *(_points(load, charts) if load.points else ()),
        *(Caution(line) for line in load_warnings(load)),
    ]


LOAD_STEP = ShownStep("load", LOAD, LoadReport, load_blocks)


def capacity_file(pipeline: str) -> str:
    """Returns the name of the chart of a pipeline's capacity in load/."""
    return f"capacity-{pipeline}.svg"


def capacity_blocks(capacity: CapacityReport, charts: Collection[str]) -> Iterator[Block]:
    """Yields the capacity of a pipeline, and its figures at multiples of it."""
    name = capacity.pipeline
    yield Sentence(capacity.sentence)
    yield from _chart_images({capacity_file(name): f"{CAPACITY_SHOWS}: {name}"}, charts)
    caption = f"{name} at multiples of its capacity"
    yield from filled(Table(f"load-capacity-{name}", caption, multiple_rows(capacity)))


def _points(load: LoadReport, charts: Collection[str]) -> Iterator[Block]:
    yield from figure_blocks(load, charts)
    yield from percentile_blocks(load, charts)
    yield from path_blocks(load, charts)


def figure_blocks(load: LoadReport, charts: Collection[str]) -> Iterator[Block]:
    """Yields one row per point, the best pipelines, and what else the points have: ratios, repeats, costs.

    A point whose times are not valid is marked, and so is each of its times.
    """
    yield Table("load", "Every pipeline under each kind of traffic", load_rows(load))
    yield from _chart_images({"rates.svg": "nDCG@10 and p99 against the offered rate"}, charts)
    for number, best in enumerate(load.best_under, start=1):
        yield from _best(number, best)
    yield from filled(Table("load-ratios", "How many times as long one pipeline takes as another", ratio_rows(load)))
    yield from filled(Table("load-repeats", "Medians over the repeats of the load", repeat_rows(load)))
    yield from filled(Table("load-costs", "CPU time of a request under load", cost_rows(load)))


def percentile_blocks(load: LoadReport, charts: Collection[str]) -> Iterator[Block]:
    """Yields the percentiles of each point, and their spectra."""
    yield Prose(PERCENTILES)
    yield Table("load-percentiles", "Milliseconds by percentile, with 95 % intervals", percentile_rows(load))
    spectra = {f"spectrum-{point.traffic}.svg": f"{SPECTRUM_SHOWS}: {point.traffic}" for point in load.points}
    images = _chart_images(spectra, charts)
    yield from images if len(images) <= CHARTS_SHOWN else (FoldedBlocks(SPECTRUM_SHOWS, tuple(images)),)


def path_blocks(load: LoadReport, charts: Collection[str]) -> Iterator[Block]:
    """Yields where the mean latency of each point went."""
    if path := filled(Table("load-path", PATH, path_rows(load))):
        yield from _chart_images({"stages.svg": "Where the time goes"}, charts)
        yield FoldedBlocks("Where the time goes, in figures", path)


def _best(number: int, best: BestUnder) -> Iterator[Block]:
    yield Sentence(best.sentence)
    yield Table(f"load-best-{number}", f"p99 within {best.bound_ms:g} ms at {best.rate:g}/s", best_under_rows(best))


def _chart_images(charts: Mapping[str, str], files: Collection[str]) -> list[Block]:
    """Returns the images of those charts that are there. `charts`: what each shows, by its name in `load/`.

    `files`: paths within the run's folder.
    """
    return [ChartImage(f"load/{name}", shows) for name, shows in charts.items() if f"load/{name}" in files]
