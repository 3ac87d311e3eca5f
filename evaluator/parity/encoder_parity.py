"""Compares an encoder with its published figure, and names the settings in which the served one differs."""

from collections.abc import Mapping

from pydantic import FiniteFloat

from evaluator.client.client import GatewayClient
from evaluator.datasets.reader import Dataset, read_dataset
from evaluator.datasets.training_sets import trained_on
from evaluator.errors import EvaluationError
from evaluator.experiments.experiment import Experiment
from evaluator.metrics.quality import means, measure
from evaluator.parity.answers import Answers, ask_every_query, load
from evaluator.parity.published import METRICS, PublishedEncoder, equals_published
from evaluator.parity.verdict import gaps, printed_figures
from evaluator.progress import in_thread
from services.contracts.base import Count, Wire
from services.contracts.pipelines import Pipeline, Retrieve


class OtherSetting(Wire):
    """A setting of the encoder in which the stack and the published figure's source differ."""

    setting: str
    served: str
    published: str


class EncoderParityReport(Wire):
    """parity.json of an encoder: the figures of an exact search, the published ones, and the settings that differ."""

    system: str
    dataset: str  # the directory
    split: str
    generation: str
    engine: str
    queries: Count
    published: PublishedEncoder
    figures: dict[str, FiniteFloat]
    equal: bool
    differing: tuple[OtherSetting, ...]


async def encoder_parity(
    client: GatewayClient, experiment: Experiment, system: str, published: PublishedEncoder
) -> EncoderParityReport:
    """Loads the dataset where the experiment's pipeline searches, and asks every judged query by an exact search.

    Raises EvaluationError for anything lost, and for a pipeline that is not one retrieve.
    """
    (asked,) = experiment.pipelines
    pipeline = asked if isinstance(asked, Pipeline) else (await client.pipeline(asked)).pipeline
    (stage, *others) = pipeline.stages
    if others or not isinstance(stage, Retrieve):
        raise EvaluationError(
            f"--pipeline {pipeline.name}: an encoder is compared by a pipeline of one retrieve, as `dense` is"
        )
    dataset = await in_thread(read_dataset, experiment.directory, experiment.split, strict=experiment.strict)
    served = await load(client, experiment, dataset, stage.backend)
    answers = await ask_every_query(client, served, None, dataset, list(dataset.judgments))
    found = await in_thread(_figures, dataset, answers)
    return EncoderParityReport(
        system=system,
        dataset=experiment.dataset,
        split=dataset.split,
        generation=served.state.generation,
        engine=served.state.engine,
        queries=len(answers),
        published=published,
        figures=found,
        equal=all(equals_published(found[metric], printed) for metric, printed in published.figures.items()),
        differing=tuple(_differing(served.state.stamp, {"model": system, **published.documented})),
    )


def _differing(stamp: Mapping[str, str], documented: Mapping[str, str]) -> list[OtherSetting]:
    return [
        OtherSetting(setting=name, served=stamp.get(name, "unknown"), published=value)
        for name, value in documented.items()
        if stamp.get(name) != value
    ]


def _figures(dataset: Dataset, answers: Answers) -> dict[str, float]:
    """Returns the mean of each metric over all queries; a document that is the query itself is left out."""
    rankings = {
        query: tuple(name for name, _ in hits if name != query or query not in dataset.self_retrieved)
        for query, hits in answers.items()
    }
    measured = means(measure(dataset.judgments, rankings, list(rankings), METRICS))
    return {metric: measured.get(metric) or 0.0 for metric in METRICS}


def render_encoder_parity(report: EncoderParityReport) -> str:
    """Renders figures and verdict."""
    published = report.published.figures
    served = printed_figures(report.figures, published)
    return "\n".join(
        [
            f"{report.system} on {report.dataset} ({report.split}): {report.queries} queries, "
            f"{report.generation} on {report.engine}",
            f"served:    {', '.join(map(' '.join, zip(published, served, strict=True)))}",
            f"published: {', '.join(map(' '.join, published.items()))} ({report.published.source})",
            f"trained on: {trained_on(report.system)}",
            "",
            _verdict(report),
        ]
    )


def _verdict(report: EncoderParityReport) -> str:
    off = "Equal." if report.equal else f"Off by {gaps(report.figures, report.published.figures)}."
    if not report.differing:
        return f"{off} No setting of the encoder differs from the published one."
    listed = "; ".join(f"{one.setting} ('{one.served}' instead of '{one.published}')" for one in report.differing)
    return f"{off} The served encoder differs in {listed}."
