"""Commands that exchange run files with other systems."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from evaluator.commands.options import (
    RUNS,
    SKIP_UNSENDABLE,
    AddedFiles,
    Metrics,
    Run,
    Runs,
    collection_directory,
    metric_names,
    reporting_errors,
)
from evaluator.commands.steps import print_outcome
from evaluator.progress import say, show
from evaluator.report.evaluation import quality_step
from evaluator.report.report_step import report_step
from evaluator.runs.manifest import Manifest
from evaluator.runs.run_folder import LATEST, RunFolder
from evaluator.steps.run_export import export_run
from evaluator.steps.run_import import ImportReport, import_runs, named_files


def import_(
    dataset: Annotated[
        str, typer.Argument(help="The collection that the files are of: a directory or a set of the catalogue.")
    ],
    files: Annotated[list[str], typer.Argument(help="TREC run files: FILE or NAME=FILE, also compressed (.gz).")],
    split: Annotated[str, typer.Option(help="Which judgments.")] = "test",
    name: Annotated[str | None, typer.Option(help="The experiment's name; without it, the directory's.")] = None,
    depth: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Hits a query; without it, those of the shallowest file.")
    ] = None,
    metrics: Metrics = None,
    skip_unsendable: Annotated[bool, SKIP_UNSENDABLE] = False,
    runs: Runs = RUNS,
) -> None:
    """Makes a run of another system's run files, measures it and writes its report. Exit status as of `run`."""
    with reporting_errors():
        chosen = metric_names(metrics)
        directory = collection_directory(dataset)
        folder = import_runs(
            runs,
            named_files(files),
            directory,
            split=split,
            name=name,
            depth=depth,
            metrics=chosen,
            skip_unsendable=skip_unsendable,
        )
        _say_decisions(folder.read("imported.json", ImportReport), folder.experiment.depth)
        if missing := folder.read("manifest.json", Manifest).counts.judged_documents_missing:
            say(f"{directory}: {missing} judged documents are not in the corpus; they stay in the denominators.")
        quality_step(folder)
        print_outcome(folder, report_step(folder))


def export(
    runs: Runs = RUNS,
    run: Run = None,
    to: Annotated[Path | None, typer.Option(help="Where; without it, `export` in the folder of the run.")] = None,
    judgments: AddedFiles = None,
) -> None:
    """Writes rankings and judgments of a run for trec_eval (the latest run unless --run says which)."""
    with reporting_errors():
        folder = RunFolder.open(run or runs / LATEST)
        done = export_run(folder, to or folder.path / "export", judgments or ())
        for path in done.runs:
            show(shlex.join(["trec_eval", "-c", "-m", "all_trec", str(done.qrels), str(path)]))
        if done.escaped:
            say(
                "An id has white space: in all these files, `%` and white space of ids are percent-encoded. The second "
                "column says so, and commands that read the files decode them."
            )
        if done.unjudged:
            say(f"{done.unjudged} measured queries have no judgment that counts; trec_eval's means leave them out.")


def _say_decisions(report: ImportReport, depth: int) -> None:
    for name, file in report.arms.items():
        say(
            f"{name}: {file.file}: {file.hits} hits, at most {depth} a query; {file.queries_missing} judged queries "
            f"missing, {file.queries_cut} cut, {file.queries_unknown} queries not in the collection, "
            f"{file.hits_not_in_corpus} hits not in the corpus, {file.hits_tied} tied (by ascending id), "
            f"{file.excluded_self} self-retrieved left out"
        )
