"""Commands that report where relevant documents were lost, and what other settings would have answered."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from evaluator.attribution.attributing import TOP, attribute_step, attribution
from evaluator.attribution.attribution_page import attribution_page
from evaluator.attribution.attribution_report import AttributionReport
from evaluator.commands.options import RUNS, Gateway, Runs, Wait, reporting_errors, with_gateway
from evaluator.commands.steps import end_status, print_next_step
from evaluator.errors import GATEWAY, EvaluationError
from evaluator.pages.markdown_page import render_markdown
from evaluator.progress import show
from evaluator.replay.tuning import replay_step
from evaluator.replay.tuning_page import replay_page
from evaluator.report.suite_runs import runs_of
from evaluator.runs.measurement_lock import measuring
from evaluator.runs.run_folder import named_place

AskedRun = Annotated[str, typer.Argument(help="Name or path of a run or suite folder.")]


def attribute(
    run: AskedRun = "latest",
    top: Annotated[int, typer.Option(min=1, max=1000, help="Number of first hits that count as found.")] = TOP,
    offline: Annotated[
        bool, typer.Option("--offline", help="Send no requests; use candidates collected before.")
    ] = False,
    gateway: Gateway = GATEWAY,
    runs: Runs = RUNS,
    wait: Wait = 120.0,
) -> None:
    """Sends a run's queries again for all candidates, and finds the stage that lost each relevant document.

    Writes attribution.json and a page; `report` then includes them. A second call continues an interrupted one.
    Exit status 3: an answer was lost or degraded, or differs from the run's; or candidates or scores are missing.
    """
    with reporting_errors():
        doubts: list[str] = []
        place = _place_of(run, runs)
        for folder in runs_of(place):
            if offline:
                report = attribution(folder)
            else:
                with measuring(folder.runs) as lock:
                    lock.name(f"attribution of {folder.name}")
                    report = with_gateway(gateway, wait, partial(attribute_step, folder=folder, top=top))
            page = attribution_page(report)
            show(render_markdown(page.title, page.blocks))
            doubts += _doubts(report)
        print_next_step("report", place)
        end_status(doubts, ())


def replay(run: AskedRun = "latest", runs: Runs = RUNS) -> None:
    """Tries other weights, normalisations and depths of re-ranking on the candidates that `attribute` has collected.

    Sends no requests. Writes replay.json, its page, and the best settings as a pipeline.
    """
    with reporting_errors():
        for folder in runs_of(_place_of(run, runs)):
            page = replay_page(replay_step(folder))
            show(render_markdown(page.title, page.blocks))


def _place_of(word: str, runs: Path) -> Path:
    """Returns the folder of a run or of a suite that a word names. Raises EvaluationError."""
    named = named_place(word, runs)
    if named is None or named[1] is not None:
        raise EvaluationError(f"{word}: no run or suite folder, here or in {runs}")
    return named[0]


def _doubts(report: AttributionReport) -> list[str]:
    failed = [f"{report.failed} requests for deep legs or scores failed"] if report.failed else []
    return failed + [
        f"{name}: {count} {what}"
        for name, arm in report.arms.items()
        for count, what in (
            (arm.lost, "queries without an answer"),
            (arm.degraded, "degraded answers"),
            (arm.otherwise, "queries with another answer than in the run"),
        )
        if count
    ]
