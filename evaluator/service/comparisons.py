"""Computes and keeps the comparisons of the service, for its route and its page, and fills in the form of the page.

They are by the judgments that the runs are measured by, so that a run's page and its comparison show the same.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from evaluator.comparison.comparing import ComparisonReport, ComparisonSettings, compare
from evaluator.comparison.comparison_page import comparison_blocks, example_blocks
from evaluator.comparison.differences_chart import PairDifferences, differences_chart
from evaluator.errors import EvaluationError
from evaluator.pages.html_page import PageSection, page_sections
from evaluator.pages.page_blocks import Block, ChartImage, Table
from evaluator.service.background_work import BackgroundWork, ComputingLock
from evaluator.service.jobs import Jobs
from evaluator.service.shown_runs import run_title

_Key = tuple[tuple[str, ...], str, tuple[int, ...]]


class Comparisons:
    """Computes comparisons one after the other, never beside a measurement, and keeps the last ones."""

    def __init__(self, runs: Path, lock: ComputingLock) -> None:
        self._runs = runs
        self._work = BackgroundWork[_Key, ComparisonReport](lock, "a comparison")

    async def report(self, words: Sequence[str], settings: ComparisonSettings) -> ComparisonReport:
        """Returns a comparison. `words`: ids of runs, alone or with `:PIPELINE`.

        Raises EvaluationError where the runs cannot be compared, and of one that is not kept what `BackgroundWork`
        does.
        """
        return await self._work.whole(self._begun(words, settings))

    async def report_soon(self, words: Sequence[str], settings: ComparisonSettings) -> ComparisonReport | None:
        """Returns a comparison as `report` does, None while it is being computed."""
        return await self._work.result(self._begun(words, settings))

    async def close(self) -> None:
        """Drops the comparisons that wait."""
        await self._work.close()

    def _begun(self, words: Sequence[str], settings: ComparisonSettings) -> _Key:
        """Returns the key of a comparison that is kept or at work, after starting it if need be."""
        changed = tuple(self._changed_at(word, name) for word in words for name in ("rank.json", "quality.json"))
        key = (tuple(words), settings.model_dump_json(), changed)
        if not self._work.holds(key):
            # By path: a bare name could be a folder here.
            paths = [str(self._runs / word) for word in words]
            self._work.start(key, partial(compare, paths, self._runs, settings))
        return key

    def _changed_at(self, word: str, name: str) -> int:
        """Returns when a file of a run was written: a run that was ranked or measured again is compared again."""
        try:
            return (self._runs / word.partition(":")[0] / name).stat().st_mtime_ns
        except OSError:
            return 0


@dataclass(frozen=True, slots=True)
class ComparedChoice:
    """The form of a comparison, as it is filled in. `runs`: title, and RUN:PIPELINE and name of each pipeline."""

    runs: list[tuple[str, list[tuple[str, str]]]]
    ticked: frozenset[str]
    baseline: str


def ordered_words(jobs: Jobs, words: Sequence[str], baseline: str) -> list[str]:
    """Returns what is compared, the baseline first, so that all others are set against it; without one as it stands.

    A run stands for its pipelines then. Raises EvaluationError.
    """
    return list(dict.fromkeys((baseline, *_pipelines(jobs, words)) if baseline else words))


def compared_choice(jobs: Jobs, words: Sequence[str], suggests: bool) -> ComparedChoice:
    """Returns the form in which these words are ticked. Raises EvaluationError.

    `suggests`: of a run alone, one pipeline is: the first that all runs have, else the one that it recommends.
    """
    runs = dict.fromkeys(word.partition(":")[0] for word in words)
    arms = {run: jobs.folder(run).experiment.arms for run in runs}
    if suggests:
        shared = next((arm for arm in next(iter(arms.values())) if all(arm in names for names in arms.values())), None)
        words = [word if ":" in word else f"{word}:{shared or _recommended(jobs, word)}" for word in words]
    first, _, pipeline = words[0].partition(":")
    return ComparedChoice(
        runs=[(run_title(run), [(f"{run}:{arm}", arm) for arm in arms[run]]) for run in runs],
        ticked=frozenset(_pipelines(jobs, words)),
        baseline=f"{first}:{pipeline or jobs.folder(first).experiment.baseline_among(arms[first])}",
    )


def _recommended(jobs: Jobs, run: str) -> str:
    """Returns the pipeline that the report of a run recommends, else its first one."""
    with suppress(EvaluationError):  # a report of another release, or of other files
        report = jobs.report(run)
        if report is not None and report.recommendation is not None:
            return report.recommendation.pipeline or next(iter(report.pipelines))
    return jobs.folder(run).experiment.arms[0]


def compared_sections(report: ComparisonReport) -> list[PageSection]:
    """Returns what the page of a comparison shows, with a chart of the differences."""
    chart = differences_chart([PairDifferences(pair.verdict, pair.differences) for pair in report.pairs])
    blocks: list[Block] = comparison_blocks(report)
    if chart is not None:
        after = next(at for at, block in enumerate(blocks) if isinstance(block, Table))
        blocks.insert(after - 1, ChartImage("differences", "Differences, query by query"))
    return page_sections([*blocks, *example_blocks(report)], {"differences": chart or ""})


def _pipelines(jobs: Jobs, words: Sequence[str]) -> list[str]:
    """Returns each pipeline that the words name, as RUN:PIPELINE."""
    return [
        pipeline
        for word in words
        for pipeline in ([word] if ":" in word else [f"{word}:{arm}" for arm in jobs.folder(word).experiment.arms])
    ]
