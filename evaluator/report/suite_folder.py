"""Owns the folder of an experiment over several datasets: suite.json, and beneath it a run's folder for each dataset.

What lies in a run's folder is left to run_folder.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from evaluator.experiments.experiment import Experiment
from evaluator.experiments.suite import Suite
from evaluator.report.run_report import Report
from evaluator.report.suite_summary import SuiteSummary, render_summary_page, summarise_suite
from evaluator.runs.run_folder import SUITE, RunFolder, new_folder, removed_on_error

SUMMARY, SUMMARY_PAGE = "summary.json", "summary.md"


def create_runs(runs: Path, plan: Experiment | Suite) -> Path:
    """Creates the folder of a run, or of a suite with the folders of its runs, and returns it."""
    if isinstance(plan, Experiment):
        return RunFolder.create(runs, plan).path
    path = new_folder(runs, plan.name, plan.fingerprint)
    with removed_on_error(path):
        for member in plan.members:
            (path / member.name).mkdir()
            RunFolder(path / member.name).write("experiment.json", member.experiment)
        RunFolder(path).write(SUITE, plan)
    return path


def suite_at(path: Path) -> Suite | None:
    """Returns the suite whose folder this is; None: it is the folder of one run, or none at all."""
    return RunFolder(path).read(SUITE, Suite) if (path / SUITE).is_file() else None


def runs_of(path: Path) -> Sequence[RunFolder]:
    """Returns the runs of a folder: of a suite all, else the one that it is. Raises EvaluationError when it is none."""
    suite = suite_at(path)
    if suite is None:
        return [RunFolder.open(path)]
    return [RunFolder.open(path.resolve() / member.name) for member in suite.members]


def runs_to_rank(path: Path) -> Sequence[RunFolder]:
    """Returns the runs of a folder whose `rank` has not ended; all of them where none is left."""
    runs = runs_of(path)
    return [folder for folder in runs if not folder.has("rank.json")] or runs


def summary_step(path: Path, suite: Suite, reports: Mapping[str, Report]) -> SuiteSummary:
    """Writes summary.json and summary.md of a suite's folder from the report of each run."""
    folder = RunFolder(path)
    summary = summarise_suite(suite, reports, folder.hashes(*(f"{name}/report.json" for name in reports)))
    folder.write(SUMMARY, summary)
    folder.write_text(SUMMARY_PAGE, render_summary_page(summary))
    return summary
