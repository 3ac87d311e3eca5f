"""Defines quality.json and the lines of quality/<arm>.jsonl, what `quality` leaves for the report."""

from pydantic import FiniteFloat

from evaluator.datasets.added_judgments import AddedJudgments
from evaluator.runs.run_folder import StepFile
from evaluator.steps.quality_figures import QualityFigure
from services.contracts.base import Count, Wire

CHANGE_METRICS = ("nDCG@10", "judged@10")  # shown before and after a merge of judgments


class JudgmentChange(Wire):
    """What merging files over the dataset's judgments changed. Figures: means by arm and metric of CHANGE_METRICS.

    null where the rankings are cut above 10, or no query has a value.
    """

    files: tuple[AddedJudgments, ...]
    before: dict[str, dict[str, FiniteFloat | None]]  # by the dataset's judgments alone
    after: dict[str, dict[str, FiniteFloat | None]]


class QualityReport(StepFile):
    """quality.json: unrounded means per arm over `judged` queries, and what belongs to each of them."""

    made_from: dict[str, str]
    arms: dict[str, dict[str, FiniteFloat | None]]  # null: no query has a value
    figures: dict[str, dict[str, QualityFigure]]  # by arm, then metric
    judged: Count
    run_queries_not_judged: dict[str, Count]  # in the run file, but not among the judged ones: ignored
    deep_differs: dict[str, Count] = {}  # queries whose deeper answer does not begin as the timed one
    added_judgments: JudgmentChange | None = None  # null: measured by the dataset's judgments alone


class QueryFigures(Wire):
    """A line of quality/<arm>.jsonl."""

    query: str
    # null: the query has none (judged@k where nothing is shown), or the rankings were cut above the cutoff
    figures: dict[str, FiniteFloat | None]
