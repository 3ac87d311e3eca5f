"""Defines quality.json and the lines of quality/<arm>.jsonl, what `quality` leaves for the report."""

from pydantic import FiniteFloat

from evaluator.quality_figures import QualityFigure
from evaluator.run_folder import StepFile
from services.contracts.base import Count, Wire


class QualityReport(StepFile):
    """quality.json: unrounded means per arm over `judged` queries, and what belongs to each of them."""

    made_from: dict[str, str]
    arms: dict[str, dict[str, FiniteFloat | None]]  # null: no query has a value
    figures: dict[str, dict[str, QualityFigure]]  # by arm, then metric
    judged: Count
    run_queries_not_judged: dict[str, Count]  # in the run file, but not among the judged ones: ignored
    deep_differs: dict[str, Count] = {}  # queries whose deeper answer does not begin as the timed one


class QueryFigures(Wire):
    """A line of quality/<arm>.jsonl."""

    query: str
    # null: the query has none (judged@k where nothing is shown), or the rankings were cut above the cutoff
    figures: dict[str, FiniteFloat | None]
