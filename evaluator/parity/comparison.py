"""Runs a preset over a dataset, compares with the published figures, and tries changes of settings when it is off.

The report's words are in `verdict`.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from pydantic import FiniteFloat

from evaluator.client.client import GatewayClient
from evaluator.client.retries import with_retries
from evaluator.datasets.reader import Dataset, read_dataset
from evaluator.experiments.experiment import Experiment
from evaluator.parity.answers import (
    MOST_PRESETS,
    Answers,
    ask_every_query,
    load,
    served_settings,
    tried_experiment,
)
from evaluator.parity.figure_settings import FigureSettings, Value, changed, changes_to_try, minimal
from evaluator.parity.figures import figures, undecided_ties
from evaluator.parity.published import PublishedFigures, equals_published
from evaluator.progress import say
from evaluator.thread_work import in_thread
from services.contracts.base import Count, Wire
from services.contracts.collections import LexicalPreset


class TriedChange(Wire):
    """A change of the served settings, and the figures with it. `explains`: all of them are the published ones."""

    change: dict[str, Value]
    figures: dict[str, FiniteFloat]
    explains: bool


class ParityReport(Wire):
    """parity.json: the figures as served, the published ones, and every change that was tried."""

    preset: str
    dataset: str  # the directory
    split: str
    generation: str
    engine: str
    queries: Count
    served: FigureSettings
    published: PublishedFigures
    figures: dict[str, FiniteFloat]
    equal: bool
    undecided_ties: Count  # queries whose order by descending id cannot be known from their answer
    tried: tuple[TriedChange, ...]
    explained_by: tuple[dict[str, Value], ...]


async def parity(
    client: GatewayClient, experiment: Experiment, preset: str, published: PublishedFigures
) -> ParityReport:
    """Loads the dataset, asks every judged query, and explains a gap to the published figures.

    The experiment's collection answers as it is served. Changed index settings are presets of further collections of
    the same corpus, which are removed afterwards. Raises EvaluationError for anything lost: a figure with a lost query
    is no parity.
    """
    dataset = await in_thread(read_dataset, experiment.directory, experiment.split, strict=experiment.strict)
    served = await load(client, experiment, dataset)
    settings = served_settings(served.state, preset)
    answers = await ask_every_query(client, served, preset, dataset, list(dataset.judgments))
    found = await in_thread(figures, dataset, answers, settings)
    equal = _are_published(found, published)
    tried = () if equal else await _tried(client, experiment, dataset, settings, answers, published)
    return ParityReport(
        preset=preset,
        dataset=experiment.dataset,
        split=dataset.split,
        generation=served.state.generation,
        engine=served.state.engine,
        queries=len(answers),
        served=settings,
        published=published,
        figures=found,
        equal=equal,
        undecided_ties=undecided_ties(answers),
        tried=tried,
        explained_by=tuple(dict(one) for one in minimal(one.change for one in tried if one.explains)),
    )


def _are_published(found: dict[str, float], published: PublishedFigures) -> bool:
    return all(equals_published(found[metric], printed) for metric, printed in published.figures.items())


async def _tried(
    client: GatewayClient,
    experiment: Experiment,
    dataset: Dataset,
    served: FigureSettings,
    answers: Answers,
    published: PublishedFigures,
) -> tuple[TriedChange, ...]:
    changes = changes_to_try(served, published.documented)
    results: dict[int, TriedChange] = {}

    def measure_changes(preset: LexicalPreset, given: Answers) -> None:
        for place, change in enumerate(changes):
            settings = changed(served, change)
            if settings.preset == preset:
                found = figures(dataset, given, settings)
                explains = _are_published(found, published)
                results[place] = TriedChange(change=dict(change), figures=found, explains=explains)

    await in_thread(measure_changes, served.preset, answers)
    others = dict.fromkeys(changed(served, change).preset for change in changes)
    others.pop(served.preset, None)
    say(f"The figures differ: trying {len(changes)} changes of settings, {len(others)} of them of the index")
    for number, presets in enumerate(_chunks(list(others)), start=1):
        again = tried_experiment(experiment, number, presets)
        loaded = await load(client, again, dataset)
        for preset in presets:
            given = await ask_every_query(client, loaded, preset.name, dataset, list(answers))
            await in_thread(measure_changes, preset, given)
        await with_retries(partial(client.remove, loaded.collection), "parity")
    return tuple(results[place] for place in range(len(changes)))


def _chunks(presets: Sequence[LexicalPreset]) -> list[Sequence[LexicalPreset]]:
    return [presets[start : start + MOST_PRESETS] for start in range(0, len(presets), MOST_PRESETS)]


def parity_experiment(
    directory: Path, *, split: str = "test", collection: str | None = None, strict: bool = False
) -> Experiment:
    """Returns the experiment that declares the dataset's collection as every other experiment does by default."""
    # The pipeline is not asked: parity sends its own, one lexical retrieve.
    return Experiment(
        name="parity", dataset=str(directory), collection=collection, split=split, strict=strict, pipelines=("bm25",)
    )
