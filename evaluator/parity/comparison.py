"""Runs a preset over a dataset, compares with the published figures, and tries changes of settings when it is off.

The report's words are in `verdict`.
"""

import ctypes
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from pydantic import FiniteFloat

from evaluator.client.client import GatewayClient
from evaluator.client.retries import with_retries
from evaluator.datasets.reader import Dataset, read_dataset
from evaluator.experiments.experiment import Experiment
from evaluator.metrics.quality import means, measure
from evaluator.parity.answers import (
    DEPTH,
    MOST_PRESETS,
    Answers,
    ScoredHits,
    ask_every_query,
    load,
    served_settings,
    tried_experiment,
)
from evaluator.parity.figure_settings import FigureSettings, Value, changed, changes_to_try, minimal
from evaluator.parity.published import METRICS, PublishedFigures, equals_published
from evaluator.progress import in_thread, say
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
    directory: Path,
    *,
    split: str = "test",
    collection: str | None = None,
    pipeline: str = "bm25",
) -> Experiment:
    """Returns the experiment that declares the dataset's collection as every other experiment does by default."""
    # The pipeline is not asked, and decides where the collection lives: parity sends its own, one retrieve.
    return Experiment(name="parity", dataset=str(directory), collection=collection, split=split, pipelines=(pipeline,))


def figures(dataset: Dataset, answers: Answers, settings: FigureSettings) -> dict[str, float]:
    """Returns the mean of each metric over the queries that `settings.missing` counts; 0 when it counts none."""
    rankings = {query: ranking(hits, query, dataset, settings) for query, hits in answers.items()}
    counted = [query for query in answers if settings.missing == "counted as 0" or rankings[query]]
    measured = means(measure(dataset.judgments, rankings, counted, METRICS)) if counted else {}
    return {metric: measured.get(metric) or 0.0 for metric in METRICS}


def ranking(hits: ScoredHits, query: str, dataset: Dataset, settings: FigureSettings) -> tuple[str, ...]:
    """Returns the ids of an answer in the order, at the depth, and without the documents, as `settings` determine."""
    ordered: Sequence[tuple[str, float]] = hits
    if settings.ties == "descending":
        # As trec_eval, which reads scores as float32. Sorting is stable: first by id, then by score.
        ordered = sorted(sorted(hits, reverse=True), key=lambda hit: -_float32(hit[1]))
    kept = [name for name, _ in ordered[: settings.depth]]
    match settings.self_retrieved:
        case "kept":
            return tuple(kept)
        case "same id":
            return tuple(name for name in kept if name != query)
        case "same id and text":
            return tuple(name for name in kept if name != query or query not in dataset.self_retrieved)


def undecided_ties(answers: Answers) -> int:
    """Counts full answers whose tenth score is also their last: more documents may tie with it than were answered."""
    return sum(len(hits) == DEPTH and hits[9][1] == hits[-1][1] for hits in answers.values())


def _float32(score: float) -> float:
    return ctypes.c_float(score).value
