"""Reads what pages show of runs from their folders and their jobs. Renders nothing."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from evaluator.attribution.attribution_page import ATTRIBUTION_STEP
from evaluator.errors import EvaluationError
from evaluator.load.page.blocks import LOAD_STEP
from evaluator.pages.page_blocks import Block
from evaluator.pages.step_page import ShownStep
from evaluator.replay.tuning_page import REPLAY_STEP
from evaluator.report.report_page import charts_of
from evaluator.report.run_report import Report
from evaluator.runs.run_folder import RunFolder
from evaluator.service.jobs import Jobs, JobState

STEPS_WITH_PAGE: tuple[ShownStep[Any], ...] = (ATTRIBUTION_STEP, REPLAY_STEP)


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run in the list. `name`: its experiment and when it began. `verdict`: empty where it has no report.

    `dataset` and `pipelines` are empty where its experiment cannot be read.
    """

    state: JobState
    name: str
    dataset: str
    pipelines: tuple[str, ...]
    verdict: str


@dataclass(frozen=True, slots=True)
class ShownRun:
    """What the page of a run shows, as far as it is there. `svgs`: charts by path within the run's folder.

    `blocks`: of a run without a report, what it has measured. `cancellable`: the service runs it, and no command.
    `stale`: why the report that is there cannot be shown. `steps`: those that a page of their own shows.
    """

    state: JobState
    name: str
    report: Report | None
    svgs: Mapping[str, str]
    blocks: Sequence[Block]
    cancellable: bool
    stale: str
    steps: Sequence[ShownStep[Any]]


def listed_runs(jobs: Jobs, names: Sequence[str]) -> list[ListedRun]:
    """Returns the runs of these ids for the list."""
    listed = []
    for state in jobs.states(names):
        folder = jobs.folder(state.id)
        dataset, pipelines = "", tuple[str, ...]()
        with suppress(EvaluationError):  # of another release: its state is shown all the same
            dataset, pipelines = folder.experiment.dataset_name, folder.experiment.arms
        verdict = _verdict(folder) if state.state == "done" else ""
        listed.append(ListedRun(state, run_title(state.id), dataset, pipelines, verdict))
    return listed


def shown_run(jobs: Jobs, run: str) -> ShownRun:
    """Returns what the page of a run shows; while it runs, that alone. Raises NotFound."""
    state, folder = jobs.expect(run), jobs.folder(run)
    ended = state.state != "running"
    report, stale = None, ""
    try:
        report = jobs.report(run) if ended else None
    except EvaluationError as error:
        stale = f"{error}."
    svgs = charts_of(folder) if ended else {}
    load = LOAD_STEP.read(folder) if ended and report is None and not stale else None
    return ShownRun(
        state=state,
        name=f"{run_title(run)} UTC",
        report=report,
        svgs=svgs,
        blocks=() if load is None else LOAD_STEP.section(load, svgs),
        cancellable=jobs.running == run,
        stale=stale,
        steps=[step for step in STEPS_WITH_PAGE if ended and folder.has(step.file)],
    )


def _verdict(folder: RunFolder) -> str:
    """Returns what the report of a run recommends; empty where it has none that this release reads."""
    try:
        written = (folder.path / "report.json").stat().st_mtime_ns
    except OSError:
        return ""
    return _verdict_written(folder.path, written)


@lru_cache(maxsize=1_000)
def _verdict_written(path: Path, _written: int) -> str:
    """Reads a report once for as long as its file stays the same: a list shows 50, and one may have megabytes."""
    try:
        report = RunFolder(path).read_stale("report.json", Report)
    except EvaluationError:
        return ""  # the page of the run gives the reason
    chosen, names = report.recommendation, list(report.pipelines)
    if not report.valid:
        return "not valid"
    if chosen is None:
        return "one pipeline" if len(names) == 1 else ""
    if chosen.pipeline is None:
        return f"nothing by {chosen.prefer}"
    if chosen.prefer != "quality":
        return f"ship {chosen.pipeline} by {chosen.prefer}"
    if len(chosen.contenders) == 1:
        return f"ship {chosen.pipeline}, the best of {len(names)}"
    return f"ship {chosen.pipeline}; {len(chosen.contenders)} of {len(names)} may be the best"


def run_title(run: str) -> str:
    """Returns the name of a run for readers: its experiment, of several datasets the dataset, and its begin in UTC."""
    folder, slash, dataset = run.partition("/")
    begun = run[:15]
    with suppress(ValueError):  # a folder may be named by hand
        begun = f"{datetime.strptime(begun, '%Y%m%dT%H%M%S'):%Y-%m-%d %H:%M:%S}"
    return f"{folder.split('-', 1)[1].rpartition('-')[0]}{slash}{dataset}, {begun}"
