"""Commands that compare pipelines, the runs of an experiment, and runs over several sets."""

from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from evaluator.analyses.analysing import BASELINE
from evaluator.analyses.analysing import analyse as analysed
from evaluator.analyses.analysis_files import new_analysis_folder, write_analysis
from evaluator.analyses.systems_tables import systems_summary
from evaluator.commands.options import RUNS, AddedFiles, Baseline, Runs, collection_directory, reporting_errors
from evaluator.comparison.comparing import ComparisonSettings
from evaluator.comparison.comparing import compare as compared
from evaluator.comparison.comparison_page import render_comparison
from evaluator.errors import EvaluationError
from evaluator.experiments.suite import read_plan
from evaluator.metrics.verdict import MARGIN
from evaluator.progress import say, show
from evaluator.report.history import history as read_history
from evaluator.report.history import render_history

# Exit status of the gate. 1 to 3 are those of the steps.
WORSE = 4


def compare(
    names: Annotated[list[str], typer.Argument(help="Run folders, RUN:PIPELINE or TREC run files ([NAME=]FILE).")],
    metric: Annotated[str, typer.Option(help="The metric of the verdict.")] = "nDCG@10",
    margin: Annotated[float, typer.Option(help="Smaller differences count as the same.")] = MARGIN,
    no_worse_than: Annotated[
        float | None, typer.Option(help="Gate: exit status 4 unless all are shown to lose less than this.")
    ] = None,
    examples: Annotated[int, typer.Option(help="Number of biggest gains and losses to show.")] = 3,
    seed: Annotated[int, typer.Option(help="Seed of tests and intervals.")] = 20_250_601,
    dataset: Annotated[
        str | None, typer.Option(help="The collection of the run files: a directory or a name from `datasets list`.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="The split of --dataset. Default: test.")] = None,
    judgments: AddedFiles = None,
    baseline: Baseline = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    runs: Runs = RUNS,
) -> None:
    """Compares pipelines with a baseline: each is better, worse or the same, or the collection cannot tell.

    The first argument is the baseline; where it is a run, --baseline chooses the pipeline.
    """
    with reporting_errors():
        try:
            settings = ComparisonSettings(
                metric=metric, margin=margin, no_worse_than=no_worse_than, seed=seed, examples=examples
            )
        except ValidationError as error:
            first = error.errors()[0]
            raise EvaluationError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
        directory = collection_directory(dataset) if dataset else None
        report = compared(names, runs, settings, directory, split, judgments or (), baseline)
        show(report.model_dump_json(indent=2) if as_json else render_comparison(report))
        if report.no_worse is False:
            raise typer.Exit(WORSE)


def analyse(
    names: Annotated[list[str], typer.Argument(metavar="RUN", help="Runs, suites (all their runs) or RUN:PIPELINE.")],
    out: Annotated[Path | None, typer.Option(help="Folder to write. Default: analyses/<utc> in --runs.")] = None,
    baseline: Annotated[str, typer.Option(help="The pipeline to compare the others with.")] = BASELINE,
    judgments: Annotated[
        list[str] | None,
        typer.Option(
            help="Qrels file that adds to or replaces a dataset's judgments; may be repeated. FILE, or SET=FILE where "
            "there are several datasets."
        ),
    ] = None,
    runs: Runs = RUNS,
) -> None:
    """Makes the tables and figures of the BEIR paper from any runs: a page, JSON and SVG."""
    with reporting_errors():
        folder = new_analysis_folder(out, runs)
        analysis = analysed(names, runs, baseline, judgments or ())
        write_analysis(analysis, folder)
        for note in analysis.notes:
            say(f"Note: {note}")
        for part in systems_summary(analysis):
            say(f"\n{part}")
        show(str(folder / "analysis.md"))


def history(
    experiment: Annotated[str, typer.Argument(help="The name of an experiment, or its YAML file.")],
    metric: Annotated[str, typer.Option(help="The metric of the verdicts.")] = "nDCG@10",
    runs: Runs = RUNS,
) -> None:
    """Lists the runs of an experiment, and compares each with the previous, the best and the first one."""
    with reporting_errors():
        name = read_plan(Path(experiment)).name if Path(experiment).suffix else experiment
        show(render_history(read_history(runs, name, metric)))
