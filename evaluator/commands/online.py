"""Commands of online experiments: the verdict by the journals of gateways, the removal of a unit, simulated users."""

from datetime import UTC, datetime
from typing import Annotated, Literal

import typer

from evaluator.commands.comparison import WORSE
from evaluator.commands.options import (
    RUNS,
    Gateway,
    Run,
    Runs,
    Wait,
    collection_directory,
    expect_only,
    reporting_errors,
    split_list,
    with_gateway,
)
from evaluator.errors import GATEWAY, EvaluationError, WrongOption
from evaluator.online.journal import forget as forget_unit
from evaluator.online.online_page import online_page
from evaluator.online.online_report import EFFECT, online_reports
from evaluator.pages.markdown_page import render_markdown
from evaluator.progress import show
from evaluator.runs.run_folder import RunFolder
from services.contracts.online import Mode

online = typer.Typer(no_args_is_help=True, help="Verdicts on live experiments, by the journals of gateways.")

_OF_RUN = {"arms", "mode", "metric", "repeat", "most"}
_OF_GATEWAY = {"gateway", "experiment", "collection", "dataset", "users", "wait"}

Journals = Annotated[
    list[str], typer.Option("--journal", help="Folder of a journal, or URL of an Elasticsearch; may be repeated.")
]


@online.command()
def report(
    name: Annotated[str, typer.Argument(help="The experiment: a pipeline of the gateway.")],
    journal: Journals,
    now: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M%z"], help="Report as of this time (UTC)."),
    ] = None,
    effect: Annotated[
        float,
        typer.Option(min=1e-9, max=1e12, help="Say how long a difference of this size takes, in the metric's unit."),
    ] = EFFECT,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Says of each arm that it is better than the first one, worse or the same, or that it cannot tell yet.

    May be read as often as you like. Exit status 4: an arm is worse.
    """
    with reporting_errors():
        time = datetime.now(UTC) if now is None else now.replace(tzinfo=now.tzinfo or UTC)
        reports = online_reports(journal, time, name, effect)
        if not reports:
            raise EvaluationError(
                f"{', '.join(journal)}: no search of an experiment {name} by {time:%Y-%m-%d %H:%M %Z}"
            )
        page = online_page(reports)
        show(reports[0].model_dump_json(indent=2) if as_json else render_markdown(page.title, page.blocks))
        if any(verdict.outcome == "worse" for verdict in reports[0].verdicts):
            raise typer.Exit(WORSE)


@online.command()
def forget(
    unit: Annotated[str, typer.Argument(help="The unit, as the app sent it in X-Unit-Id.")], journal: Journals
) -> None:
    """Removes the lines of a unit from journals, also while gateways write. First make the app stop sending it."""
    with reporting_errors():
        show(f"{forget_unit(unit, journal):,} lines removed.")


@online.command()
def simulate(
    context: typer.Context,
    run: Run = None,
    arms: Annotated[str | None, typer.Option(help="With --run: two of its pipelines, the control first: A,B.")] = None,
    mode: Annotated[Mode | None, typer.Option(help="With --run. Default: both.")] = None,
    metric: Annotated[str, typer.Option(help="With --run: click@K or reciprocal_rank.")] = "click@10",
    repeat: Annotated[int, typer.Option(min=1, help="With --run: the number of experiments.")] = 200,
    most: Annotated[int, typer.Option(min=1, help="With --run: users after which one ends undecided.")] = 50_000,
    experiment: Annotated[str | None, typer.Option(help="The pipeline with the experiment.")] = None,
    collection: Annotated[str | None, typer.Option(help="The collection to search.")] = None,
    dataset: Annotated[str | None, typer.Option(help="Its queries and judgments: a directory or a name.")] = None,
    users: Annotated[int, typer.Option(min=1, help="The number of users to send.")] = 1_000,
    model: Annotated[Literal["cascade", "position"], typer.Option(help="How users click.")] = "cascade",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the users.")] = 1,
    gateway: Gateway = GATEWAY,
    runs: Runs = RUNS,
    wait: Wait = 120.0,
) -> None:
    """Simulates users of an experiment, who click by judgments.

    Sends their searches and clicks to a gateway. With --run: shows them the rankings of a run, and tells how long a
    verdict takes and how often it is right.
    """
    # Imported here: numpy would delay every other command.
    from evaluator.online.simulate import render_simulation, send_users, simulate_run

    with reporting_errors():
        common = {"run", "runs", "model", "seed"}
        if run is not None:
            expect_only(context, common | _OF_RUN, "--run sends nothing to a gateway")
            if len(named := split_list(arms or "")) != 2:
                raise WrongOption("--arms: name two pipelines of the run, the control first: bm25,hybrid")
            modes: tuple[Mode, ...] = (mode,) if mode else ("split", "interleave")
            pair = (named[0], named[1])
            show(render_simulation(simulate_run(RunFolder.open(run), pair, modes, model, metric, repeat, most, seed)))
            return
        expect_only(context, common | _OF_GATEWAY, "only --run repeats an experiment over stored rankings")
        if not (experiment and collection and dataset):
            raise WrongOption("--experiment, --collection and --dataset are needed, or --run")
        place, name, searched = collection_directory(dataset), experiment, collection
        with_gateway(gateway, wait, lambda client: send_users(client, searched, name, place, users, model, seed))
        show(f"Next: .venv/bin/python -m evaluator online report {name} --journal ...")
