"""Resolves the words of an analysis (runs, suites, `RUN:PIPELINE`) to pipelines by set. Measures nothing."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluator.datasets.catalogue import Catalogue
from evaluator.errors import EvaluationError, command_line
from evaluator.experiments.experiment import Experiment
from evaluator.report.suite_runs import runs_of
from evaluator.runs.manifest import Manifest
from evaluator.runs.run_folder import RunFolder, named_place
from evaluator.steps.quality_figures import QualityReport
from evaluator.steps.rank import RankReport


@dataclass(frozen=True, slots=True)
class AnalysedRun:
    """A run whose queries were sent (or that was imported), with the files that its figures are made from."""

    folder: RunFolder
    experiment: Experiment
    manifest: Manifest
    ranked: RankReport


@dataclass(frozen=True, slots=True)
class AnalysedSet:
    """One set, and the run of each pipeline over it. All runs have the same files, split and queries."""

    name: str  # as in the catalogue: cqadupstack/android
    part_of: str | None  # the set that counts as the mean of its parts
    first: AnalysedRun  # holds where files, judgments and queries are
    runs: Mapping[str, AnalysedRun]  # by pipeline


def resolve_runs(words: Sequence[str], runs: Path, catalogue: Catalogue) -> tuple[AnalysedSet, ...]:
    """Returns the sets in the order of the words, each with the pipelines that the words name.

    Raises EvaluationError for a word that names no run, and where one set has a pipeline twice, or runs over different
    files, splits or samples of queries: their figures belong into different tables.
    """
    by_set: dict[str, dict[str, AnalysedRun]] = {}
    opened: dict[Path, AnalysedRun] = {}
    for word in words:
        folders, arm = _folders(word, runs)
        any_pipeline = False
        for folder in folders:
            run = opened.get(folder.path) or _opened(folder)
            opened[folder.path] = run
            name = catalogue.name_of(run.experiment.directory)
            pipelines = by_set.setdefault(name, {})
            for ranked in run.ranked.arms:
                if arm in (None, ranked.name):
                    any_pipeline = True
                    _add(pipelines, name, ranked.name, run)
        if not any_pipeline:
            pipelines_of_run = dict.fromkeys(
                ranked.name for folder in folders for ranked in opened[folder.path].ranked.arms
            )
            raise EvaluationError(f"{word}: the run has no pipeline {arm!r}; it has {', '.join(pipelines_of_run)}")
    return tuple(
        AnalysedSet(name, known.part_of if (known := catalogue.sets.get(name)) else None, _first(pipelines), pipelines)
        for name, pipelines in by_set.items()
        if pipelines
    )


def changed_pipelines(sets: Sequence[AnalysedSet]) -> tuple[str, ...]:
    """Returns the names under which different pipelines ran on different sets. Imported ones look alike."""
    prints: dict[str, set[str]] = {}
    for analysed in sets:
        for name, run in analysed.runs.items():
            ranked = next(arm for arm in run.ranked.arms if arm.name == name)
            if ranked.pipeline is not None:
                prints.setdefault(name, set()).add(ranked.fingerprint)
    return tuple(name for name, fingerprints in prints.items() if len(fingerprints) > 1)


def measured_with_added(sets: Sequence[AnalysedSet]) -> Iterator[tuple[str, str]]:
    """Yields set and run of each run whose own figures are by added judgments too. Raises as `RunFolder.read`."""
    for analysed in sets:
        for folder in {run.folder.path: run.folder for run in analysed.runs.values()}.values():
            if folder.has("quality.json") and folder.read("quality.json", QualityReport).added_judgments is not None:
                yield analysed.name, folder.name


def _folders(word: str, runs: Path) -> tuple[Sequence[RunFolder], str | None]:
    place = named_place(word, runs)
    if place is None:
        make = command_line("import", "DATASET", "FILE")
        raise EvaluationError(
            f"{word}: no run folder, here or in {runs}; name a run, a suite or RUN:PIPELINE (`{make}` makes a run of a "
            "TREC run file)"
        )
    path, arm = place
    return runs_of(path), arm


def _opened(folder: RunFolder) -> AnalysedRun:
    ranked = folder.read("rank.json", RankReport)
    return AnalysedRun(folder, folder.experiment, folder.read("manifest.json", Manifest), ranked)


def _add(pipelines: dict[str, AnalysedRun], name: str, pipeline: str, run: AnalysedRun) -> None:
    other = pipelines.get(pipeline)
    if other is not None and other.folder.path != run.folder.path:
        raise EvaluationError(
            f"{name}: {other.folder.name} and {run.folder.name} both have a pipeline {pipeline}; name the pipelines "
            f"that are meant: {run.folder.name}:PIPELINE"
        )
    if pipelines:
        _expect_comparable(name, _first(pipelines), run)
    pipelines[pipeline] = run


def _expect_comparable(name: str, first: AnalysedRun, other: AnalysedRun) -> None:
    both = f"{first.folder.name} and {other.folder.name}"
    if first.manifest.dataset_sha256 != other.manifest.dataset_sha256:
        raise EvaluationError(f"{name}: {both} are over different files or splits; analyse them apart")
    if first.ranked.queries != other.ranked.queries and set(first.ranked.queries) != set(other.ranked.queries):
        counts = f"{len(first.ranked.queries)} and {len(other.ranked.queries)}"
        raise EvaluationError(
            f"{name}: {both} measured different queries ({counts}); analyse them apart, or rank one again"
        )


def _first(pipelines: Mapping[str, AnalysedRun]) -> AnalysedRun:
    return next(iter(pipelines.values()))
