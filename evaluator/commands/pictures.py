"""Command that makes the pictures of a run for a document."""

from pathlib import Path
from typing import Annotated

import typer

from evaluator.commands.options import RUNS, Runs, reporting_errors
from evaluator.errors import EvaluationError
from evaluator.progress import show
from evaluator.report.pictures import write_pictures
from evaluator.runs.run_folder import RunFolder, named_place


def pictures(
    run: Annotated[str, typer.Argument(help="A run: its name or path, or latest.")],
    pipeline: Annotated[str, typer.Argument(help="The one whose differences from the first pipeline are drawn.")],
    to: Annotated[Path, typer.Option(help="The folder; files of the same names are replaced.")],
    runs: Runs = RUNS,
) -> None:
    """Writes two charts of a run as SVG, light and dark in one file, and a README.md with their tables and the run.

    Quality against latency, and the differences of a pipeline from the first one, query by query. A run that is not
    valid, or whose times are not, is refused.
    """
    with reporting_errors():
        found = named_place(run, runs)
        if found is None or found[1] is not None:
            raise EvaluationError(f"{run}: no run folder, here or in {runs}")
        show(str(write_pictures(RunFolder.open(found[0]), pipeline, to)))
