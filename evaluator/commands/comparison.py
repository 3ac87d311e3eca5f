"""Command that compares pipelines."""

from typing import Annotated

import typer
from pydantic import ValidationError

from evaluator.commands.options import RUNS, AddedFiles, Junit, Runs, collection_directory, reporting_errors
from evaluator.comparison.comparing import ComparisonSettings
from evaluator.comparison.comparing import compare as compared
from evaluator.comparison.comparison_page import render_comparison
from evaluator.comparison.verdict import MARGIN
from evaluator.errors import EvaluationError, WrongOption
from evaluator.pages.junit import GateCase, write_junit
from evaluator.progress import show

# Exit status of the gate. 1 to 3 are those of the steps.
WORSE = 4


def compare(
    names: Annotated[
        list[str], typer.Argument(help="Each a run folder, RUN:PIPELINE or a TREC run file ([NAME=]FILE).")
    ],
    metric: Annotated[str, typer.Option(help="The metric of the verdict.")] = "nDCG@10",
    margin: Annotated[float, typer.Option(help="Differences within it count as the same.")] = MARGIN,
    no_worse_than: Annotated[
        float | None, typer.Option(help="Gate: exit status 4 unless every other is shown to lose less than this.")
    ] = None,
    examples: Annotated[int, typer.Option(help="How many of the biggest gains and losses are shown.")] = 3,
    seed: Annotated[int, typer.Option(help="Seed of tests and intervals.")] = 20_250_601,
    dataset: Annotated[
        str | None, typer.Option(help="The collection of run files: a directory or a set of the catalogue.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Which judgments of --dataset; without it, test.")] = None,
    judgments: AddedFiles = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    junit: Junit = None,
    runs: Runs = RUNS,
) -> None:
    """Says of pipelines whether they are better, worse or the same as the first, or that the collection cannot tell."""
    with reporting_errors():
        try:
            settings = ComparisonSettings(
                metric=metric, margin=margin, no_worse_than=no_worse_than, seed=seed, examples=examples
            )
        except ValidationError as error:
            first = error.errors()[0]
            raise EvaluationError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
        if junit is not None and no_worse_than is None:
            raise WrongOption("--junit writes the outcome of --no-worse-than; give both")
        directory = collection_directory(dataset) if dataset else None
        report = compared(names, runs, settings, directory, split, judgments or ())
        show(report.model_dump_json(indent=2) if as_json else render_comparison(report))
        if junit is not None:
            gates = [pair.gate for pair in report.pairs if pair.gate is not None]
            names = [f"{pair.verdict.second} no worse than {pair.verdict.first}" for pair in report.pairs]
            write_junit(
                junit,
                report.dataset,
                [GateCase(name, gate.passed, gate.sentence) for name, gate in zip(names, gates, strict=True)],
            )
        if report.no_worse is False:
            raise typer.Exit(WORSE)
