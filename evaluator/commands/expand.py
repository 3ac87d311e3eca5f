"""Command that lets a model weigh the words of a collection's documents: `expand deepct`."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from evaluator.commands.options import address, collection_directory, reporting_errors
from evaluator.datasets.reader import read_dataset
from evaluator.errors import command_line
from evaluator.expansion.deepct import expand_deepct
from evaluator.expansion.sparse_service import sparse_service
from evaluator.progress import say

expand = typer.Typer(no_args_is_help=True, help="Lets a model expand the documents of a collection, for BM25.")


@expand.command()
def deepct(
    dataset: Annotated[str, typer.Argument(metavar="NAME|DIR", help="A set of the catalogue, or a directory.")],
    out: Annotated[Path, typer.Option("--out", help="The file: JSON lines. An interrupted one is continued.")] = Path(
        "deepct.jsonl"
    ),
    split: Annotated[str, typer.Option(help="Which qrels/<split>.tsv the directory has.")] = "test",
    sparse: Annotated[
        str, typer.Option(envvar="SPARSE_URL", callback=address, help="A server of /embed_sparse: the sparse service.")
    ] = "http://127.0.0.1:8004",
    models: Annotated[Path, typer.Option(help="The folder that `make models` fills.")] = Path(".models"),
) -> None:
    """Writes the frequency of each word by its weight in a learned sparse model, for the preset deepct."""
    with reporting_errors():
        read = read_dataset(collection_directory(dataset), split)

        async def work() -> None:
            async with sparse_service(sparse) as service:
                await expand_deepct(service, read, models, out)

        asyncio.run(work())
        measured = ("--dataset", dataset, "--expansions", str(out), "--pipelines", "bm25,deepct")
        say(f"Next: {command_line('demo', *measured)}")
