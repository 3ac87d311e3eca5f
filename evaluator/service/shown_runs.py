"""Reads what pages show of runs from their folders and from the job that runs. Renders nothing."""

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from evaluator.attribution.attribution_page import ATTRIBUTION_STEP
from evaluator.errors import EvaluationError
from evaluator.experiments.experiment import Experiment
from evaluator.load.page.blocks import LOAD_STEP
from evaluator.pages.page_blocks import Block
from evaluator.pages.step_page import ShownStep
from evaluator.replay.tuning_page import REPLAY_STEP
from evaluator.report.report_page import charts_of
from evaluator.report.run_report import Report
from evaluator.runs.run_folder import RunFolder
from evaluator.service.jobs import Jobs
from evaluator.service.service_pages import ListedRun, ShownRun

STEPS_WITH_PAGE: tuple[ShownStep[Any], ...] = (ATTRIBUTION_STEP, REPLAY_STEP)


def listed_runs(jobs: Jobs, names: Sequence[str]) -> list[ListedRun]:
    """Returns the runs of these ids for the list."""
    listed = []
    for state in jobs.states(names):
        experiment = _experiment(jobs.folder(state.id))
        listed.append(
            ListedRun(
                state=state,
                name=run_title(state.id),
                dataset=experiment.dataset_name if experiment else "",
                pipelines=experiment.arms if experiment else (),
                verdict=_verdict(jobs.folder(state.id)) if state.state == "done" else "",
            )
        )
    return listed


def shown_run(jobs: Jobs, run: str, whole: bool = True) -> ShownRun:
    """Returns what the page of a run shows; without `whole` its progress alone. Raises EvaluationError."""
    state = jobs.state(run)
    if state is None:
        raise EvaluationError(f"{run} has just been removed")
    folder, report, blocks, svgs, stale = jobs.folder(run), None, list[Block](), dict[str, str](), ""
    if whole and state.state != "running":
        try:
            report = jobs.report(run)
        except EvaluationError as error:
            stale = f"{error}."
        svgs = charts_of(folder)
        if report is None and not stale:
            blocks = _blocks_without_report(folder, svgs)
    return ShownRun(
        state=state,
        name=f"{run_title(run)} UTC",
        report=report,
        svgs=svgs,
        blocks=blocks,
        stale=stale,
        cancellable=jobs.running == run,
        steps=[step for step in STEPS_WITH_PAGE if folder.has(step.file)] if whole and state.state != "running" else (),
    )


def _blocks_without_report(folder: RunFolder, svgs: dict[str, str]) -> list[Block]:
    """Returns what a load measured without a ranking."""
    load = LOAD_STEP.read(folder)
    return [] if load is None else list(LOAD_STEP.section(load, svgs))


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
        return "not decided: too few queries" if chosen.contenders else "no pipeline within the bounds"
    if len(chosen.contenders) == 1:
        return f"ship {chosen.pipeline}, the best of {len(names)}"
    return f"ship {chosen.pipeline}; {len(chosen.contenders)} of {len(names)} cannot be told apart"


def _experiment(folder: RunFolder) -> Experiment | None:
    """Returns the experiment of a run; None of one that this release cannot read, whose state is shown all the same."""
    try:
        return folder.experiment
    except EvaluationError:
        return None


def run_title(run: str) -> str:
    """Returns the name of a run for readers: its experiment, and when it began in UTC."""
    return f"{_name(run)}, {_started(run)}"


def _name(run: str) -> str:
    """Returns the experiment's name, of a run over several datasets with the dataset behind it."""
    folder, slash, dataset = run.partition("/")
    return folder.split("-", 1)[1].rpartition("-")[0] + slash + dataset


def _started(run: str) -> str:
    """Returns when a run began, by its name; as it stands there where it is no time: a folder may be named by hand."""
    try:
        return f"{datetime.strptime(run[:15], '%Y%m%dT%H%M%S'):%Y-%m-%d %H:%M:%S}"
    except ValueError:
        return run[:15]
