"""Evaluates search pipelines: a command per step, `run` for all, `demo` for a first look, `serve` for the service."""

import sys
from functools import partial

try:
    import typer

    from evaluator.commands.attribution import attribute, replay
    from evaluator.commands.collection_copy import export_collection, restore
    from evaluator.commands.comparison import analyse, compare, history
    from evaluator.commands.datasets import datasets, synthetic
    from evaluator.commands.exchange import export, import_
    from evaluator.commands.expand import expand
    from evaluator.commands.judging import judge
    from evaluator.commands.load import load
    from evaluator.commands.online import online
    from evaluator.commands.parity import parity
    from evaluator.commands.steps import demo, ingest, quality, rank, report, run
    from evaluator.errors import command_line
    from services.files.disk_writes import end_command
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] in ("evaluator", "retrieval_client", "services"):
        raise
    sys.exit(
        f"evaluator: this Python ({sys.executable}) has no module '{missing.name}': `make install` sets up one "
        "that has, then run .venv/bin/python -m evaluator"
    )

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)
for command in (
    run, demo, ingest, rank, quality, report, compare, analyse, attribute, replay, export, history, load,
    parity, export_collection, restore, synthetic,
):  # fmt: skip
    app.command()(command)
app.command("import")(import_)
app.add_typer(datasets, name="datasets")
app.add_typer(expand, name="expand")
app.add_typer(judge, name="judge")
app.add_typer(online, name="online")


@app.command()
def serve() -> None:
    """Runs the HTTP service, on port 8009 or EVALUATOR_PORT."""
    # Imported here: only the service may use the chassis (import contract 3).
    from evaluator.service.app import main

    main()


if __name__ == "__main__":
    end_command("evaluator", partial(app, prog_name=command_line()))
