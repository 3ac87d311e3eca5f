"""Reads which pipelines of which runs a comparison is about, and what else its form offers. Computes no comparison."""

from collections.abc import Iterable, Sequence
from itertools import islice

from evaluator.errors import EvaluationError
from evaluator.service.jobs import Jobs
from evaluator.service.service_pages import ComparedChoice, OfferedRun
from evaluator.service.shown_runs import run_title

# Other runs over the same dataset, of so many of the newest runs.
OFFERED, LOOKED_AT = 8, 200


def ordered_words(jobs: Jobs, words: Sequence[str], baseline: str) -> list[str]:
    """Returns what is compared, the baseline first, so that all others are set against it; without one as it stands.

    A run stands for its pipelines then. Raises EvaluationError.
    """
    if not baseline:
        return list(dict.fromkeys(words))
    return list(dict.fromkeys((baseline, *_pipelines(jobs, words))))


def compared_choice(jobs: Jobs, words: Sequence[str]) -> ComparedChoice:
    """Returns the form in which these words are ticked. Raises EvaluationError."""
    runs = list(dict.fromkeys(word.partition(":")[0] for word in words))
    experiment = jobs.folder(runs[0]).experiment
    first, _, pipeline = words[0].partition(":")
    others = (
        run for run in islice(jobs.names(), LOOKED_AT) if run not in runs and _over(jobs, run, experiment.dataset_name)
    )
    return ComparedChoice(
        runs=tuple(_offered(jobs, runs)),
        others=tuple(_offered(jobs, islice(others, OFFERED))),
        ticked=frozenset(_pipelines(jobs, words)),
        baseline=f"{first}:{pipeline or experiment.baseline_among(experiment.arms)}",
    )


def _pipelines(jobs: Jobs, words: Iterable[str]) -> list[str]:
    """Returns each pipeline that the words name, as RUN:PIPELINE."""
    return [
        one
        for word in words
        for one in ([word] if ":" in word else [f"{word}:{arm}" for arm in jobs.folder(word).experiment.arms])
    ]


def _offered(jobs: Jobs, runs: Iterable[str]) -> list[OfferedRun]:
    return [
        OfferedRun(run_title(run), tuple((f"{run}:{arm}", arm) for arm in jobs.folder(run).experiment.arms))
        for run in runs
    ]


def _over(jobs: Jobs, run: str, dataset: str) -> bool:
    """Returns whether a run has ranked the queries of this dataset."""
    folder = jobs.folder(run)
    try:
        return folder.has("rank.json") and folder.experiment.dataset_name == dataset
    except EvaluationError:  # of another release, which is not offered
        return False
