"""Runs a preset or an encoder over a dataset, and compares its figures and settings with the published ones."""

from pathlib import Path

from pydantic import FiniteFloat

from evaluator.client.client import GatewayClient
from evaluator.datasets.reader import Dataset, read_dataset
from evaluator.datasets.training_sets import trained_on
from evaluator.errors import EvaluationError
from evaluator.experiments.experiment import Experiment
from evaluator.metrics.quality import means, measure
from evaluator.parity.answers import Answers, ask_every_query, load, served_settings
from evaluator.parity.published import METRICS, PublishedFigures, decimals, encoders, equals_published
from evaluator.progress import in_thread
from services.contracts.base import Count, Wire
from services.contracts.pipelines import Pipeline, Retrieve

_ORDINALS = {3: "3rd", 4: "4th", 5: "5th", 6: "6th"}


class OtherSetting(Wire):
    """A setting in which this stack or its evaluation differs from the source of the published figure."""

    setting: str
    served: str
    published: str


class ParityReport(Wire):
    """parity.json: the figures as served, the published ones, and the settings that differ."""

    system: str  # a preset or an encoder
    dataset: str  # the directory
    split: str
    generation: str
    engine: str
    queries: Count
    published: PublishedFigures
    figures: dict[str, FiniteFloat]
    equal: bool
    differing: tuple[OtherSetting, ...]


def parity_experiment(
    directory: Path, *, split: str = "test", collection: str | None = None, pipeline: str = "bm25"
) -> Experiment:
    """Returns the experiment that declares the dataset's collection as every other experiment does by default."""
    # The pipeline is not asked, and decides where the collection lives: parity sends its own, one retrieve.
    return Experiment(name="parity", dataset=str(directory), collection=collection, split=split, pipelines=(pipeline,))


async def compare_with_published(
    client: GatewayClient, experiment: Experiment, system: str, published: PublishedFigures
) -> ParityReport:
    """Loads the dataset and asks every judged query: a preset, or an encoder by an exact search of the pipeline.

    Raises EvaluationError for anything lost, as a figure with a lost query is no parity. For an encoder also if the
    experiment's pipeline is not one retrieve.
    """
    is_encoder = system in encoders()
    backend = await _searched_backend(client, experiment) if is_encoder else None
    dataset = await in_thread(read_dataset, experiment.directory, experiment.split, strict=experiment.strict)
    served = await load(client, experiment, dataset, backend)
    settings = {"passages": "off", **served.state.stamp} if is_encoder else served_settings(served.state, system).named
    answers = await ask_every_query(client, served, None if is_encoder else system, dataset, list(dataset.judgments))
    measured = await in_thread(figures, dataset, answers)
    return ParityReport(
        system=system,
        dataset=experiment.dataset,
        split=dataset.split,
        generation=served.state.generation,
        engine=served.state.engine,
        queries=len(answers),
        published=published,
        figures=measured,
        equal=all(equals_published(measured[metric], printed) for metric, printed in published.figures.items()),
        differing=tuple(
            OtherSetting(setting=name, served=settings.get(name, "unknown"), published=value)
            for name, value in published.documented.items()
            if settings.get(name) != value
        ),
    )


async def _searched_backend(client: GatewayClient, experiment: Experiment) -> str:
    (name,) = experiment.pipelines
    pipeline = name if isinstance(name, Pipeline) else (await client.pipeline(name)).pipeline
    (stage, *others) = pipeline.stages
    if others or not isinstance(stage, Retrieve):
        raise EvaluationError(
            f"--pipeline {pipeline.name}: an encoder is compared by a pipeline of one retrieve, as `dense` is"
        )
    return stage.backend


def figures(dataset: Dataset, answers: Answers) -> dict[str, float]:
    """Returns the mean of each metric over all queries; a document that is the query itself is left out."""
    rankings = {
        query: tuple(name for name, _ in hits if name != query or query not in dataset.self_retrieved)
        for query, hits in answers.items()
    }
    measured = means(measure(dataset.judgments, rankings, list(rankings), METRICS))
    return {metric: measured.get(metric) or 0.0 for metric in METRICS}


def render_parity(report: ParityReport) -> str:
    """Renders figures and verdict."""
    published = report.published.figures
    served = [f"{metric} {report.figures[metric]:.{_places(printed)}f}" for metric, printed in published.items()]
    lines = [
        f"{report.system} on {report.dataset} ({report.split}): {report.queries} queries, "
        f"{report.generation} on {report.engine}",
        f"served:    {', '.join(served)}",
        f"published: {', '.join(map(' '.join, published.items()))} ({report.published.source})",
    ]
    if report.system in encoders():
        lines.append(f"trained on: {trained_on(report.system)}")
    return "\n".join([*lines, "", verdict(report)])


def verdict(report: ParityReport) -> str:
    """Returns whether the figures are the published ones, and the settings that differ."""
    published = report.published.figures
    if report.equal:
        sentences = [f"Equal to the {_ORDINALS[min(map(decimals, published.values()))]} decimal."]
    else:
        gaps = (
            f"{report.figures[metric] - float(printed):+.{_places(printed)}f} {metric}"
            for metric, printed in published.items()
        )
        sentences = [f"Off by {', '.join(gaps)}."]
    if report.differing:
        listed = "; ".join(
            f"{other.setting} ('{other.served}' instead of '{other.published}')" for other in report.differing
        )
        sentences.append(f"Settings unlike those of the source: {listed}.")
    else:
        sentences.append("No setting differs from those of the source.")
    if not report.equal and report.system not in encoders() and not report.engine.startswith("elasticsearch"):
        sentences.append(
            f"The engine is {report.engine}; the published figures are Lucene's, whose document lengths are rounded."
        )
    return " ".join(sentences)


def _places(printed: str) -> int:
    return max(4, decimals(printed))
