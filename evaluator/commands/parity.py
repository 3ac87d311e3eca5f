"""Command of parity: a lexical preset or an encoder against its published figure."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from evaluator.client.client import GatewayClient
from evaluator.commands.options import GATEWAY, RUNS, Gateway, Runs, Wait, reporting_errors, with_gateway
from evaluator.datasets.catalogue import load_catalogue
from evaluator.datasets.corpus import CORPUS
from evaluator.datasets.reader import corpus_file
from evaluator.datasets.text_files import find_one
from evaluator.errors import EvaluationError, command_line
from evaluator.machine.measurement_lock import measuring
from evaluator.parity.comparison import ParityReport, parity_experiment
from evaluator.parity.comparison import parity as compare_with_published
from evaluator.parity.encoder_parity import EncoderParityReport, encoder_parity, render_encoder_parity
from evaluator.parity.published import (
    PublishedEncoder,
    PublishedFigures,
    encoders,
    given_encoder_figure,
    given_figure,
    presets,
    published_encoder,
    published_figures,
)
from evaluator.parity.verdict import render_parity
from evaluator.progress import show
from services.files.disk_writes import write_whole

Report = TypeVar("Report", ParityReport, EncoderParityReport)

# Exit status: the figure is not the published one, explained or not.
OFF = 4
PUBLISHED_SPLIT = "test"


def parity(
    preset: Annotated[str, typer.Argument(help=f"{', '.join(presets())}, or an encoder: {', '.join(encoders())}.")],
    dataset: Annotated[str, typer.Argument(metavar="NAME|DIR", help="A set of the catalogue, or a directory.")],
    published: Annotated[
        str | None, typer.Option(help="Compare with this figure instead of the published one: 0.1234.")
    ] = None,
    metric: Annotated[str, typer.Option(help="What --published is: nDCG@10 or Recall@100.")] = "nDCG@10",
    split: Annotated[
        str, typer.Option(envvar="SPLIT", help="Which qrels/<split>.tsv; published figures are of test.")
    ] = PUBLISHED_SPLIT,
    pipeline: Annotated[str, typer.Option(help="The pipeline of one retrieve that searches an encoder.")] = "dense",
    collection: Annotated[str | None, typer.Option(help="The collection's name; without it, the directory's.")] = None,
    gateway: Gateway = GATEWAY,
    runs: Runs = RUNS,
    wait: Wait = 120.0,
) -> None:
    """Compares a preset with its published figure and names the setting that explains a gap. Exit status 4 if off."""
    with reporting_errors():
        directory, name = _directory_and_name(dataset)
        if preset in encoders():
            encoder = _encoder_reference(preset, name, split, metric, published)
            experiment = parity_experiment(directory, split=split, collection=collection, pipeline=pipeline)
            of_encoder = _measured(
                runs, dataset, gateway, wait, lambda client: encoder_parity(client, experiment, preset, encoder)
            )
            equal, shown = of_encoder.equal, render_encoder_parity(of_encoder)
        else:
            reference = _reference(preset, name, split, metric, published)
            experiment = parity_experiment(directory, split=split, collection=collection)
            of_preset = _measured(
                runs,
                dataset,
                gateway,
                wait,
                lambda client: compare_with_published(client, experiment, preset, reference),
            )
            equal, shown = of_preset.equal, render_parity(of_preset)
        show(shown)
        if not equal:
            raise typer.Exit(OFF)


def _measured(
    runs: Path, dataset: str, gateway: str, wait: float, compare: Callable[[GatewayClient], Awaitable[Report]]
) -> Report:
    """Compares under the lock on measurements, and writes parity.json."""
    with measuring(runs) as lock:
        lock.name(f"parity of {dataset}")
        report = with_gateway(gateway, wait, compare)
        write_whole(runs / "parity.json", report.model_dump_json(indent=1))
    return report


def _encoder_reference(system: str, name: str, split: str, metric: str, published: str | None) -> PublishedEncoder:
    if published is not None:
        return given_encoder_figure(system, metric, published)
    _expect_published_split(split)
    return published_encoder(system, name)


def _expect_published_split(split: str) -> None:
    if split != PUBLISHED_SPLIT:
        raise EvaluationError(
            f"the published figures are of the split {PUBLISHED_SPLIT}, not {split}; give one with --published 0.1234"
        )


def _reference(preset: str, name: str, split: str, metric: str, published: str | None) -> PublishedFigures:
    if published is not None:
        return given_figure(preset, metric, published)
    _expect_published_split(split)
    return published_figures(preset, name)


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
