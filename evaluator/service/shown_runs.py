"""Reads what pages show of runs from their folders and from the job that runs. Renders nothing."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from evaluator.attribution.page import attribution_page
from evaluator.attribution.report import ATTRIBUTION, AttributionReport
from evaluator.deadline_sweep import DEADLINES, DeadlinesFile
from evaluator.deadline_tables import deadline_blocks
from evaluator.errors import EvaluationError
from evaluator.experiments.experiment import Experiment
from evaluator.load.page.blocks import load_blocks
from evaluator.load.page.live_chart import live_chart, live_rows
from evaluator.load.report import LOAD, LoadReport
from evaluator.pages.page_blocks import Block, Heading, Table
from evaluator.pages.step_page import StepPage
from evaluator.replay.page import replay_page
from evaluator.replay.report import REPLAY, ReplayReport
from evaluator.report.sections import report_blocks, report_charts, step_charts
from evaluator.runs.run_folder import RunFolder
from evaluator.service.jobs import Jobs
from evaluator.service.service_pages import ListedRun, ShownRun, StepWithPage

# Steps after the ranking that have a page of their own, with the file that each writes.
_WRITES: Mapping[StepWithPage, str] = {"attribution": ATTRIBUTION, "replay": REPLAY}
LIVE = "The load in its last seconds; times are of the answers of 10 s"


def listed_runs(jobs: Jobs, names: Sequence[str]) -> list[ListedRun]:
    """Returns the runs of these ids for the list."""
    listed = []
    for state in jobs.states(names):
        experiment = _experiment(jobs.folder(state.id))
        listed.append(
            ListedRun(
                state=state,
                name=_name(state.id),
                started=_started(state.id),
                dataset=experiment.dataset_name if experiment else "",
                pipelines=experiment.arms if experiment else (),
            )
        )
    return listed


def shown_run(jobs: Jobs, run: str, whole: bool = True) -> ShownRun:
    """Returns what the page of a run shows; without `whole` its progress alone. Raises EvaluationError."""
    state = jobs.state(run)
    if state is None:
        raise EvaluationError(f"{run} has just been removed")
    figures = jobs.live_figures(run)
    folder, report, blocks, svgs, stale = jobs.folder(run), None, list[Block](), dict[str, str](), ""
    if whole and state.state != "running":
        try:
            report = jobs.report(run)
        except EvaluationError as error:
            stale = f"{error}."
        svgs = step_charts(folder) | (report_charts(report) if report is not None else {})
        if report is None and not stale:
            blocks = _blocks_without_report(folder, svgs)
    return ShownRun(
        state=state,
        name=f"{_name(run)}, {_started(run)} UTC",
        report=report,
        svgs=svgs,
        blocks=blocks,
        live=live_chart(figures),
        live_table=Table("live", LIVE, live_rows(figures)),
        stale=stale,
        cancellable=jobs.running == run,
        steps=_steps(folder) if whole and state.state != "running" else (),
    )


def step_page(jobs: Jobs, run: str, step: StepWithPage) -> StepPage | None:
    """Returns the page of a step of a run; None of one that was not called. Raises EvaluationError."""
    folder = jobs.folder(run)
    if not folder.has(_WRITES[step]):
        return None
    match step:
        case "attribution":
            return attribution_page(folder.read(ATTRIBUTION, AttributionReport))
        case "replay":
            return replay_page(folder.read(REPLAY, ReplayReport))


def blocks_of(jobs: Jobs, run: str) -> Sequence[Block]:
    """Returns what the page of a run shows, once it has ended. Raises EvaluationError."""
    report = jobs.report(run)
    if report is not None:
        return report_blocks(report)
    folder = jobs.folder(run)
    return _blocks_without_report(folder, step_charts(folder))


def _blocks_without_report(folder: RunFolder, svgs: dict[str, str]) -> list[Block]:
    """Returns what commands that need no ranking have measured."""
    blocks: list[Block] = []
    if folder.has(LOAD):
        blocks += load_blocks(folder.read(LOAD, LoadReport), svgs)
    if folder.has(DEADLINES):
        blocks += [Heading("Deadlines"), *deadline_blocks(folder.read(DEADLINES, DeadlinesFile))]
    return blocks


def _steps(folder: RunFolder) -> tuple[StepWithPage, ...]:
    return tuple(step for step, file in _WRITES.items() if folder.has(file))


def _experiment(folder: RunFolder) -> Experiment | None:
    """Returns the experiment of a run; None of one that this release cannot read, whose state is shown all the same."""
    try:
        return folder.experiment
    except EvaluationError:
        return None


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
