"""Builds the section of a report that tells of its load. Pure; the page of the load alone is left to page.py."""

from collections.abc import Collection, Iterator

from evaluator.load.best_under import BestUnder, best_under_rows
from evaluator.load.chart_images import chart_images
from evaluator.load.cost_table import cost_rows
from evaluator.load.report import LoadReport
from evaluator.load.table import (
    load_rows,
    load_warnings,
    loading_rows,
    ratio_rows,
    repeat_rows,
    step_rows,
)
from evaluator.page_blocks import Block, Caution, Heading, Prose, Sentence, Table, filled

LOAD = (
    "Requests at planned times, whether or not earlier ones were answered. Times count from the planned send time; a "
    "request without an answer in time counts with its deadline and as an empty ranking. Stages, slowest "
    "answers and more: [load.md](load.md). Figures: load.json."
)


def load_blocks(load: LoadReport, charts: Collection[str]) -> list[Block]:
    """Returns the capacities, tables, charts and warnings of a load. `charts`: paths within the run's folder."""
    tables: list[Block] = []
    if load.points:
        tables = [
            Table("load", "Every pipeline under each kind of traffic", load_rows(load)),
            *(block for number, one in enumerate(load.best_under, start=1) for block in _best(number, one)),
            *filled(Table("load-steps", "Steps of changing rates", step_rows(load))),
            *filled(Table("load-loading", "Documents loaded while searches were timed", loading_rows(load))),
            *filled(Table("load-ratios", "How many times as long one pipeline takes as another", ratio_rows(load))),
            *filled(Table("load-repeats", "Medians over the repeats of the load", repeat_rows(load))),
            *filled(Table("load-costs", "CPU time of a request under load", cost_rows(load))),
        ]
    return [
        Heading("Load"),
        Prose(LOAD),
        *(Sentence(one.sentence) for one in load.capacities),
        *tables,
        *chart_images(load, charts),
        *(Caution(line) for line in load_warnings(load)),
    ]


def _best(number: int, found: BestUnder) -> Iterator[Block]:
    yield Sentence(found.sentence)
    yield Table(f"load-best-{number}", f"p99 within {found.bound_ms:g} ms at {found.rate:g}/s", best_under_rows(found))
