"""Resolves the words of a comparison (run folder, `RUN:PIPELINE`, TREC run file) to rankings, and pairs them.

Leaves what a pair shares to `shared_queries`, and the statistics to `paired_tests`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from evaluator.errors import EvaluationError
from evaluator.experiments.experiment import Experiment
from evaluator.runs.answers import AnswerOutcome, read_outcomes
from evaluator.runs.manifest import Manifest
from evaluator.runs.run_folder import SUITE, RunFolder, named_place
from evaluator.runs.trec_runs import read_run
from evaluator.steps.rank import RankReport
from evaluator.steps.run_import import IMPORTED, ImportedFile, ImportReport, import_runs, named_files


class NoPair(EvaluationError):
    """What was named does not say which pipelines to compare."""


@dataclass(frozen=True)
class ComparedRanking:
    """One pipeline of a run. `run`: the run as it was named; `label`: the name in sentences and tables."""

    folder: RunFolder
    run: str
    arm: str
    label: str

    @cached_property
    def experiment(self) -> Experiment:
        return self.folder.experiment

    @cached_property
    def manifest(self) -> Manifest:
        return self.folder.read("manifest.json", Manifest)

    @cached_property
    def ranked(self) -> RankReport:
        return self.folder.read("rank.json", RankReport)

    @cached_property
    def imported(self) -> ImportedFile | None:
        """The decisions made while the file of an imported pipeline was read."""
        return self.folder.read(IMPORTED, ImportReport).arms.get(self.arm) if self.folder.has(IMPORTED) else None

    @cached_property
    def rankings(self) -> Mapping[str, Sequence[str]]:
        """The rankings by query, best first."""
        return read_run(self.folder.run_file(self.arm))

    @cached_property
    def answers(self) -> Mapping[str, AnswerOutcome]:
        """The outcome of every measured query, in sending order. One whose deeper request was lost counts as lost."""
        outcomes: dict[str, AnswerOutcome] = {}
        for record in read_outcomes(self.folder.answers(self.arm)):
            if record.phase == "measured":
                outcomes[record.query] = record
            elif record.phase == "deep" and record.error is not None:
                outcomes[record.query] = outcomes[record.query].model_copy(update={"error": record.error})
        return outcomes


def resolve_compared(
    words: Sequence[str],
    runs: Path,
    imports: Path,
    dataset: Path | None,
    split: str | None,
    baseline: str | None = None,
) -> tuple[tuple[ComparedRanking, ComparedRanking], ...]:
    """Returns the pairs to compare, the one compared with first.

    Every pipeline of a single run is compared with its baseline (`Experiment.baseline_among`). If the first word is
    one pipeline, or `baseline` names one of it, all others are compared with that; if it is a run of several, those of
    other runs with its pipeline of the same name. Words are read as `resolve_rankings` does. Raises EvaluationError.
    """
    return tuple(_pairs(resolve_rankings(words, runs, imports, dataset, split), baseline))


def resolve_rankings(
    words: Sequence[str], runs: Path, imports: Path, dataset: Path | None, split: str | None
) -> list[list[ComparedRanking]]:
    """Returns the pipelines that each word names.

    Run files are imported below `imports`, over `dataset` or else the dataset of the first run. Raises EvaluationError.
    """
    if repeated := [word for word, times in Counter(words).items() if times > 1]:
        raise EvaluationError(f"{repeated[0]}: named twice; a pipeline compared twice changes p of all others")
    known = [_folder_and_arm(word, runs) for word in words]
    if split is not None and dataset is None:
        raise EvaluationError("--split chooses judgments of --dataset, which is not given; a run has its own")
    if dataset is not None and all(known):
        raise EvaluationError("--dataset is the collection of run files, and none is named; a run has its own")
    if dataset is None:
        experiments = (place[0].experiment for place in known if place)
        first = next(experiments, None)
        if first is None:
            raise EvaluationError(f"{words[0]}: a run file has no judgments: name a run too, or --dataset DIRECTORY")
        dataset, split = first.directory, first.split
    groups = []
    for number, (word, place) in enumerate(zip(words, known, strict=True)):
        folder, arm = place or _imported(word, imports / str(number), dataset, split or "test")
        groups.append(rankings_of(folder, word, arm, folder.name if place else word))
    return _labelled(groups)


def _folder_and_arm(word: str, runs: Path) -> tuple[RunFolder, str | None] | None:
    """Returns the run folder (and pipeline) that a word names, None where it is a file."""
    if named := named_place(word, runs):
        place, pipeline = named
        if (place / SUITE).is_file():
            shown = place.name if place.parent == runs else str(place)
            held = ", ".join(sorted(f"{shown}/{file.parent.name}" for file in place.glob("*/experiment.json")))
            raise EvaluationError(f"{shown} holds several runs; name one of them: {held}")
        return RunFolder.open(place), pipeline
    if Path(word).is_file() or Path(word.partition("=")[2]).is_file():
        return None
    raise EvaluationError(f"{word}: neither a run folder (here or in {runs}), RUN:PIPELINE nor a TREC run file")


def _imported(word: str, place: Path, dataset: Path, split: str) -> tuple[RunFolder, str | None]:
    files = named_files([word])
    return import_runs(place, files, dataset, split=split, name=None, depth=None), next(iter(files))


def rankings_of(folder: RunFolder, word: str, arm: str | None, run: str) -> list[ComparedRanking]:
    """Returns all pipelines of a run, or the one that is named. Raises EvaluationError for one that it lacks."""
    names = [ranked.name for ranked in folder.read("rank.json", RankReport).arms]
    if arm is not None and arm not in names:
        raise EvaluationError(f"{word}: the run has no pipeline {arm!r}; it has {', '.join(names)}")
    return [ComparedRanking(folder, run, name, name) for name in names if arm in (None, name)]


def _labelled(groups: Sequence[Sequence[ComparedRanking]]) -> list[list[ComparedRanking]]:
    """Puts the run before the pipeline's name wherever two runs have pipelines of that name; its path if need be."""
    every = {(ranking.folder.path, ranking.run, ranking.arm) for group in groups for ranking in group}
    arms = Counter(arm for _, _, arm in every)
    named = Counter((run, arm) for _, run, arm in every)

    def labelled(ranking: ComparedRanking) -> ComparedRanking:
        if arms[ranking.arm] == 1:
            return ranking
        run = ranking.run if named[ranking.run, ranking.arm] == 1 else str(ranking.folder.path)
        return ComparedRanking(ranking.folder, ranking.run, ranking.arm, f"{run}:{ranking.arm}")

    return [[labelled(ranking) for ranking in group] for group in groups]


def _pairs(
    groups: Sequence[Sequence[ComparedRanking]], baseline: str | None
) -> Iterator[tuple[ComparedRanking, ComparedRanking]]:
    first, *others = groups
    if baseline is not None or not others:
        set_against = first[0].experiment.baseline_among([ranking.arm for ranking in first], baseline)
        others = others or [[ranking for ranking in first if ranking.arm != set_against]]
        first = [ranking for ranking in first if ranking.arm == set_against]
    if not any(others):
        raise NoPair(f"{first[0].label} alone: name something to compare it with")
    by_name = {ranking.arm: ranking for ranking in first}
    seen: set[tuple[Path, str]] = set()
    for ranking in (ranking for group in others for ranking in group):
        expect_one_dataset(first[0], ranking)
        against = first[0] if len(first) == 1 else by_name.get(ranking.arm)
        if against is None:
            raise NoPair(
                f"{ranking.label}: the first run has no pipeline of that name; it has {', '.join(by_name)}. "
                "Name the pipelines to compare: RUN:PIPELINE"
            )
        if (against.folder.path, against.arm) == (ranking.folder.path, ranking.arm):
            raise EvaluationError(f"{ranking.label}: the same pipeline of the same run twice")
        if (ranking.folder.path, ranking.arm) in seen:
            raise EvaluationError(f"{ranking.label}: named twice; a pipeline compared twice changes p of all others")
        seen.add((ranking.folder.path, ranking.arm))
        yield against, ranking


def expect_one_dataset(first: ComparedRanking, other: ComparedRanking) -> None:
    """Raises EvaluationError when the datasets of two runs have no file in common."""
    if first.manifest.dataset_sha256.items().isdisjoint(other.manifest.dataset_sha256.items()):
        names = f"{first.experiment.dataset} and {other.experiment.dataset}"
        raise EvaluationError(f"{first.run} and {other.run} are runs over different datasets: {names}")
