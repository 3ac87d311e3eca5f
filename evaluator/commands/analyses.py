"""Command that makes the tables and figures of the BEIR paper from runs."""

from pathlib import Path
from typing import Annotated

import typer

from evaluator.analyses.analysing import BASELINE
from evaluator.analyses.analysing import analyse as analysed
from evaluator.analyses.analysis_files import new_analysis_folder, write_analysis
from evaluator.commands.options import RUNS, Runs, reporting_errors
from evaluator.progress import say, show


def analyse(
    names: Annotated[
        list[str], typer.Argument(metavar="RUN", help="Each a run, a suite (all its runs) or RUN:PIPELINE.")
    ],
    out: Annotated[Path | None, typer.Option(help="Where; without it, analyses/<utc> in the folder of runs.")] = None,
    baseline: Annotated[str, typer.Option(help="The pipeline that the others are set against.")] = BASELINE,
    judgments: Annotated[
        list[str] | None,
        typer.Option(
            help="A qrels file merged over a set's judgments, [SET=]FILE; SET where there are several sets; may be "
            "given several times."
        ),
    ] = None,
    runs: Runs = RUNS,
) -> None:
    """Makes the tables and figures of the BEIR paper from any runs: a page, JSON, CSV, LaTeX and SVG."""
    with reporting_errors():
        folder = new_analysis_folder(out, runs)
        analysis = analysed(names, runs, baseline, judgments or ())
        write_analysis(analysis, folder)
        for note in analysis.notes:
            say(f"Note: {note}")
        show(str(folder / "analysis.md"))
