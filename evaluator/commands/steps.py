"""Commands of the steps of an evaluation: `run` and `demo` do all of them."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, NoReturn, Unpack

import typer

from evaluator.commands import options
from evaluator.errors import GATEWAY, WrongOption, command_line
from evaluator.experiments.experiment import Experiment
from evaluator.experiments.gates import GateOutcome
from evaluator.experiments.suite import Suite
from evaluator.load.capacity import CAPACITY, CapacityFile, render_capacity
from evaluator.load.load_report import LoadReport
from evaluator.load.page.blocks import figure_blocks
from evaluator.load.page.tables import load_warnings
from evaluator.machine.process_costs import parse_processes
from evaluator.pages.markdown_page import markdown_parts
from evaluator.progress import say
from evaluator.report.evaluation import evaluate, evaluate_again, ingest_step, measure_again, rank_step
from evaluator.report.quality_section import verdicts
from evaluator.report.repeats import REPEATS, REPEATS_PAGE, RepeatReport, render_repeats, repeats_step
from evaluator.report.report_page import render_kinds, render_table
from evaluator.report.report_step import ReportChoices, report_step
from evaluator.report.run_report import Report
from evaluator.report.suite_runs import (
    SUMMARY,
    SUMMARY_PAGE,
    create_runs,
    render_summary_table,
    runs_of,
    runs_to_rank,
    suite_at,
    summary_step,
)
from evaluator.runs.measurement_lock import measuring
from evaluator.runs.run_folder import LATEST, RunFolder
from evaluator.steps.prepared_run import expect_own_run

# 1: a step failed; 2: wrong command line; 3: all files are written, but they leave something open; 4: a gate
# does not hold, or a slowdown was found.
INVALID_RUN = 3
MISSED_GATE = 4


@options.with_options(options.AllExperimentOverrides)
def run(
    experiment: options.Name,
    gateway: options.Gateway = GATEWAY,
    runs: options.Runs = options.RUNS,
    wait: options.Wait = 120.0,
    processes: options.Processes = "",
    repeat: Annotated[int, typer.Option(min=1, help="Number of runs to make.")] = 1,
    **overrides: Unpack[options.AllExperimentOverrides],
) -> None:
    """Runs all steps: ingest, rank, quality, report. Exit status 3 when queries were lost or answers degraded."""
    with options.reporting_errors():
        known = parse_processes(processes)
        plan = options.overridden_plan(experiment, **overrides)
        if repeat > 1:
            chosen = options.overridden_experiment(experiment, **overrides)
            with measuring(runs) as lock:
                folder = RunFolder.create(runs, chosen)
                lock.name(folder.path.name)
                done = options.with_gateway(gateway, wait, lambda client: evaluate_again(client, folder, repeat, known))
            _print_repeats(done[-1][0], repeats_step(done))
            _end_reports([report for _, report in done])
            return
        _run_all(plan, runs, gateway, wait, known)


@options.with_options(options.ExperimentOverrides)
def demo(
    gateway: options.Gateway = GATEWAY,
    runs: options.Runs = options.RUNS,
    wait: options.Wait = 120.0,
    processes: options.Processes = "",
    **overrides: Unpack[options.ExperimentOverrides],
) -> None:
    """Runs our own or any BEIR collection through every pipeline and prints a table. Exit status as of `run`."""
    with options.reporting_errors():
        known = parse_processes(processes)
        _run_all(options.overridden_plan("demo", **overrides), runs, gateway, wait, known)


@options.with_options(options.AllExperimentOverrides)
def ingest(
    experiment: options.Name = "demo",
    gateway: options.Gateway = GATEWAY,
    runs: options.Runs = options.RUNS,
    wait: options.Wait = 120.0,
    processes: options.Processes = "",
    **overrides: Unpack[options.AllExperimentOverrides],
) -> None:
    """Creates a run folder and loads the collection. A second call completes an interrupted load."""
    with options.reporting_errors():
        plan, known = options.overridden_plan(experiment, **overrides), parse_processes(processes)
        with measuring(runs) as lock:
            path = create_runs(runs, plan)
            lock.name(f"ingest of {path.name}")
            for folder in runs_of(path):
                options.with_gateway(gateway, wait, partial(ingest_step, folder=folder, processes=known))
        print_next_step("rank", path, gateway)


def rank(
    gateway: options.Gateway = GATEWAY,
    runs: options.Runs = options.RUNS,
    run: options.Run = None,
    wait: options.Wait = 120.0,
    processes: options.Processes = "",
) -> None:
    """Sends every query through every pipeline of a run (default: the newest run).

    Starts from the first query. Of several datasets, it ranks those not ranked yet, or all if each one is.
    """
    with options.reporting_errors():
        path, known = run or RunFolder.newest(runs), parse_processes(processes)
        for folder in runs_to_rank(path):
            expect_own_run(folder)  # before the wait for a gateway
            with measuring(folder.runs) as lock:
                lock.name(folder.name)
                options.with_gateway(gateway, wait, partial(rank_step, folder=folder, processes=known))
        print_next_step("quality", path)


def quality(
    runs: options.Runs = options.RUNS,
    run: options.Run = None,
    metrics: options.Metrics = None,
    judgments: options.AddedFiles = None,
) -> None:
    """Computes the metrics of a run from its run files (default: the latest run).

    Without --judgments, only the dataset's judgments count. An attribution of losses is updated too.
    """
    with options.reporting_errors():
        path = run or runs / LATEST
        for folder in runs_of(path):
            measure_again(folder, options.metric_names(metrics), judgments or ())
        print_next_step("report", path)


def report(
    runs: options.Runs = options.RUNS,
    run: options.Run = None,
    baseline: options.Baseline = None,
    prefer: options.Prefer = None,
) -> None:
    """Writes report.json and the pages of a run (default: the latest run). Exit status as of `run`."""
    with options.reporting_errors():
        path, choices = run or runs / LATEST, ReportChoices(baseline, options.preferred(prefer))
        reports = {}
        for folder in runs_of(path):
            reports[folder.path.name] = report_step(folder, choices)
            if choices.prefer is not None and reports[folder.path.name].recommendation is None:
                raise WrongOption("--prefer: a recommendation needs a valid run with several pipelines")
            print_report(folder, reports[folder.path.name])
        _end(path, reports)


def _run_all(plan: Experiment | Suite, runs: Path, gateway: str, wait: float, processes: Mapping[str, str]) -> None:
    reports = {}
    with measuring(runs) as lock:
        path = create_runs(runs, plan)
        lock.name(path.name)
        for folder in runs_of(path):
            work = partial(evaluate, folder=folder, processes=processes)
            reports[folder.path.name] = options.with_gateway(gateway, wait, work)
            print_report(folder, reports[folder.path.name])
    _end(path, reports)


def _end(path: Path, reports: Mapping[str, Report]) -> None:
    """Prints the summary of a suite and the gates. Raises Exit as `end_status`."""
    suite = suite_at(path)
    if suite is not None:
        summary = summary_step(path, suite, reports)
        print(f"\n{summary.experiment}\n\n{render_summary_table(summary, next(iter(suite.metrics)))}")
        print(f"\nSummary: {path.resolve() / SUMMARY_PAGE}, with all metrics (and {SUMMARY} beside it)")
        if not summary.valid:
            print("NOT ALL RUNS ARE VALID: " + ", ".join(name for name, report in reports.items() if not report.valid),
                  file=sys.stderr)  # fmt: skip
    _end_reports(list(reports.values()))


def print_next_step(step: str, path: Path, gateway: str = GATEWAY) -> None:
    """Prints the command of the next step, with --gateway if this one was given another URL."""
    say(f"Next: {command_line(step, '--run', str(path.resolve()), gateway=gateway)}")


def _print_repeats(folder: RunFolder, summary: RepeatReport) -> None:
    print(f"\n{summary.experiment}: {len(summary.runs)} runs\n\n{render_repeats(summary)}")
    print(f"\nSummary: {folder.path / REPEATS_PAGE}, which links the runs (and {REPEATS} beside it)")
    if summary.identical:
        print("Every query has the same quality in all runs.")
    for warning in summary.warnings:
        print(f"  {warning}", file=sys.stderr)
    if not summary.valid:
        print("NOT ALL RUNS ARE VALID.", file=sys.stderr)


def print_outcome(folder: RunFolder, outcome: Report) -> None:
    """Prints the report of a run. Raises Exit with status 3 for one that is not valid."""
    print_report(folder, outcome)
    _end_reports([outcome])


def _end_reports(reports: Sequence[Report]) -> None:
    gates = [gate for report in reports for gate in report.every_gate]
    end_status([why for report in reports for why in _doubts(report)], gates)


def _doubts(outcome: Report) -> Iterator[str]:
    if not outcome.valid:
        yield f"the run of {outcome.dataset} is not valid"
    if outcome.load is not None and not outcome.load.timing_valid:
        yield "times of the load are not valid"


def print_load(folder: RunFolder, report: LoadReport) -> None:
    """Prints the capacities, the table and the remarks of a load."""
    if folder.has(CAPACITY):
        for capacity in folder.read(CAPACITY, CapacityFile).capacities:
            print(f"\n{render_capacity(capacity)}")
    if report.points:
        for part in markdown_parts(figure_blocks(report, ())):
            print(f"\n{part}")
    for warning in load_warnings(report):
        print(f"  {warning}", file=sys.stderr)


def print_report(folder: RunFolder, outcome: Report) -> None:
    """Prints the table, the recommendation, the place of the report, remarks and the status."""
    sample = f" (a sample, seed {outcome.seed})" if outcome.sample else ""
    engines = ", ".join(f"{name} on {engine}" for name, engine in outcome.engine.items()) or "imported run files"
    print(f"\n{outcome.dataset}: {outcome.counts.documents} documents; {engines}{sample}\n")
    print("\n\n".join([render_table(outcome), *verdicts(outcome)]))
    for backend, measured in outcome.vector_recall.items():
        if measured.recall is not None:
            beam = "" if measured.beam is None else f"beam {measured.beam}, "
            print(
                f"\n{backend}: recall {measured.recall:.4f} of approximate search against the exact top {measured.top} "
                f"({beam}{measured.indexed} of {measured.vectors} vectors indexed)"
            )
    if outcome.load is not None:
        print_load(folder, outcome.load)
    if outcome.recommendation is not None:
        print(f"\n{outcome.recommendation.text}")
    for part in render_kinds(outcome):
        print(f"\n{part}")
    print(f"\nReport: {folder.path / 'report.html'} (and report.md, report.json, runs/, manifest.json beside it)")
    if outcome.remarks:
        print("\nNote:\n" + "\n".join(f"  {remark}" for remark in outcome.remarks), file=sys.stderr)
    # Printed last, so that the table is not quoted without it.
    print(f"\n{outcome.status_line}", file=sys.stderr)


def end_status(doubts: Sequence[str], gates: Sequence[GateOutcome], *, slower: bool = False) -> None:
    """Prints a line for each gate.

    `doubts`: why something stays open. `slower`: a comparison found a slowdown. What was found comes before what
    stays open: raises Exit with status 4 for a slowdown and for a gate whose value is beyond its bound, then with 3
    for a doubt, then with 4 for a gate without a value.
    """
    if gates:
        print("\nGates:\n" + "\n".join(f"  {gate.sentence}" for gate in gates))
    missed = [gate for gate in gates if not gate.held]
    if slower:
        _exit(MISSED_GATE, "a slowdown was found")
    if beyond := [gate.what for gate in missed if gate.value is not None]:
        _exit(MISSED_GATE, f"a gate does not hold: {beyond[0]}")
    if doubts:
        _exit(INVALID_RUN, doubts[0])
    if missed:
        _exit(MISSED_GATE, f"a gate has no value: {missed[0].what}: {missed[0].reason}")


def _exit(status: int, reason: str) -> NoReturn:
    say(f"Exit status {status}: {reason}.")
    raise typer.Exit(status)
