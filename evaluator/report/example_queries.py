"""Chooses three queries of a run that show how another pipeline differs from its baseline, and shows them."""

from collections.abc import Iterator

from evaluator.comparison.comparison_page import example_parts
from evaluator.comparison.examples import PairExamples, examples_of, texts_of, with_texts
from evaluator.metrics.metric_table import parse_metric
from evaluator.metrics.paired_tests import ROUNDING
from evaluator.pages.page_blocks import Block, Heading, Sentence
from evaluator.report.ranked_run import RankedRun
from evaluator.report.run_report import Report
from evaluator.runs.manifest import dataset_directory
from evaluator.runs.run_folder import RunFolder
from evaluator.runs.trec_runs import read_run
from evaluator.steps.run_judgments import judgments_as_measured

SHOWN = 3


def example_queries(folder: RunFolder, run: RankedRun, report: Report) -> PairExamples | None:
    """Returns the queries on which the recommended pipeline gains and loses most against the baseline, with texts.

    Where the baseline is recommended, or nothing is, it is the other pipeline with the highest mean. None of one
    pipeline, and where no query differs. Reads the corpus once. Raises EvaluationError where the dataset is not there,
    or has changed.
    """
    compared = [outcome.against_first for outcome in report.pipelines.values() if outcome.against_first is not None]
    if not compared:
        return None
    advised = report.recommendation.pipeline if report.recommendation is not None else None
    pair = next(
        (verdict for verdict in compared if verdict.second == advised),
        max(compared, key=lambda verdict: verdict.second_mean),
    )
    metric = next(name for name in run.figures[pair.first] if parse_metric(name).label(report.depth) == pair.metric)
    values = tuple(
        {query: value for query, value in run.figures[arm][metric].items() if value is not None}
        for arm in (pair.first, pair.second)
    )
    first, second = values
    differences = {query: second[query] - first[query] for query in first if query in second}
    differences = {query: value for query, value in differences.items() if abs(value) >= ROUNDING}
    if not differences:
        return None
    dataset_directory(folder)  # raises where it is not found from here
    rankings = (read_run(folder.run_file(pair.first)), read_run(folder.run_file(pair.second)))
    judgments = judgments_as_measured(folder).grades
    gains, losses = examples_of(differences, (first, second), rankings, judgments, SHOWN)
    # One of the three is a loss where there is one.
    chosen = [*gains[:2], *losses[:1], *gains[2:], *losses[1:]][:SHOWN]
    ordered = sorted(chosen, key=lambda example: -example.difference)
    texts, titles = texts_of(run.experiment, ordered)
    return PairExamples(
        first=pair.first, second=pair.second, metric=pair.metric, examples=with_texts(ordered, texts, titles)
    )


def example_query_blocks(report: Report) -> Iterator[Block]:
    """Yields the example queries, or why there are none."""
    if report.examples_reason is not None:
        yield Heading("Example queries")
        yield Sentence(f"None, because {report.examples_reason}.")
    if report.examples is None:
        return
    pair = report.examples
    yield Heading("Example queries")
    yield Sentence(f"Among those on which {pair.second} differs most from {pair.first} in {pair.metric}.")
    for number, example in enumerate(pair.examples, start=1):
        yield from example_parts(pair.first, pair.second, example, number)
