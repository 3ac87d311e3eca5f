"""Command of parity: a lexical preset or an encoder against its published figure."""

from pathlib import Path
from typing import Annotated

import typer

from evaluator.commands.options import RUNS, Gateway, Runs, Wait, reporting_errors, with_gateway
from evaluator.datasets.catalogue import load_catalogue
from evaluator.datasets.corpus import CORPUS
from evaluator.datasets.reader import corpus_file
from evaluator.datasets.text_files import find_one
from evaluator.errors import GATEWAY, EvaluationError, command_line
from evaluator.parity.comparison import compare_with_published, parity_experiment, render_parity
from evaluator.parity.published import PublishedFigures, encoders, given_figure, presets, published_figures
from evaluator.progress import show
from evaluator.runs.measurement_lock import measuring
from services.files.disk_writes import write_whole

# Exit status: the figure is not the published one.
OFF = 4
PUBLISHED_SPLIT = "test"


def parity(
    preset: Annotated[str, typer.Argument(help=f"{', '.join(presets())}, or an encoder: {', '.join(encoders())}.")],
    dataset: Annotated[str, typer.Argument(metavar="NAME|DIR", help="A name from `datasets list`, or a directory.")],
    published: Annotated[
        str | None, typer.Option(help="Compare with this figure instead of the published one: 0.1234.")
    ] = None,
    metric: Annotated[str, typer.Option(help="Metric of --published: nDCG@10 or Recall@100.")] = "nDCG@10",
    split: Annotated[
        str, typer.Option(envvar="SPLIT", help="The judgments: qrels/<split>.tsv; published figures are of test.")
    ] = PUBLISHED_SPLIT,
    pipeline: Annotated[str, typer.Option(help="For an encoder: the pipeline with one retrieve stage.")] = "dense",
    collection: Annotated[str | None, typer.Option(help="Name of the collection. Default: the directory's.")] = None,
    gateway: Gateway = GATEWAY,
    runs: Runs = RUNS,
    wait: Wait = 120.0,
) -> None:
    """Compares a preset or encoder with its published figure, and lists settings that differ. Exit status 4 if off."""
    with reporting_errors():
        directory, name = _directory_and_name(dataset)
        reference = _reference(preset, name, split, metric, published)
        searched = pipeline if preset in encoders() else "bm25"
        experiment = parity_experiment(directory, split=split, collection=collection, pipeline=searched)
        with measuring(runs) as lock:
            lock.name(f"parity of {dataset}")
            report = with_gateway(
                gateway, wait, lambda client: compare_with_published(client, experiment, preset, reference)
            )
            write_whole(runs / "parity.json", report.model_dump_json(indent=1))
        show(render_parity(report))
        if not report.equal:
            raise typer.Exit(OFF)


def _reference(system: str, name: str, split: str, metric: str, published: str | None) -> PublishedFigures:
    if published is not None:
        return given_figure(system, metric, published)
    if split != PUBLISHED_SPLIT:
        raise EvaluationError(
            f"the published figures are of the split {PUBLISHED_SPLIT}, not {split}; give one with --published 0.1234"
        )
    return published_figures(system, name)


def _directory_and_name(dataset: str) -> tuple[Path, str]:
    """Returns where a dataset lies, and its name among the published figures."""
    catalogue = load_catalogue()
    catalogue.expect_known(dataset)
    directory = Path(dataset)
    if dataset not in catalogue.sets or find_one(directory, (CORPUS,)):
        corpus_file(directory)
        return directory, catalogue.name_of(directory)
    first, *others = catalogue.parts(dataset)
    if others:
        raise EvaluationError(
            f"{dataset} holds {1 + len(others)} collections; parity takes one: {first.name} for example"
        )
    place = catalogue.directory(dataset)
    if place is None:
        raise EvaluationError(f"{dataset} is not here; `{command_line('datasets', 'fetch', dataset)}` fetches it")
    return place, dataset
