"""Command `online simulate`: users who click by judgments, over the rankings of a run or against a gateway."""

from typing import Annotated, Literal

import typer

from evaluator.commands import options
from evaluator.commands.options import RUNS, Gateway, Run, Runs, Wait
from evaluator.errors import GATEWAY, WrongOption
from evaluator.progress import show
from evaluator.runs.run_folder import RunFolder
from services.contracts.online import Mode

_OF_RUN = {"arms", "mode", "metric", "repeat", "most"}
_OF_GATEWAY = {"gateway", "experiment", "collection", "dataset", "users", "wait"}


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

    with options.reporting_errors():
        common = {"run", "runs", "model", "seed"}
        if run is not None:
            options.expect_only(context, common | _OF_RUN, "--run sends nothing to a gateway")
            if len(named := options.split_list(arms or "")) != 2:
                raise WrongOption("--arms: name two pipelines of the run, the control first: bm25,hybrid")
            modes: tuple[Mode, ...] = (mode,) if mode else ("split", "interleave")
            pair = (named[0], named[1])
            show(render_simulation(simulate_run(RunFolder.open(run), pair, modes, model, metric, repeat, most, seed)))
            return
        options.expect_only(context, common | _OF_GATEWAY, "only --run repeats an experiment over stored rankings")
        if not (experiment and collection and dataset):
            raise WrongOption("--experiment, --collection and --dataset are needed, or --run")
        place, name, searched = options.collection_directory(dataset), experiment, collection
        options.with_gateway(
            gateway, wait, lambda client: send_users(client, searched, name, place, users, model, seed)
        )
