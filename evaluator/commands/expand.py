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

expand = typer.Typer(no_args_is_help=True, help="Expands the documents of a collection with a model, for BM25.")


@expand.command()
def deepct(
    dataset: Annotated[str, typer.Argument(metavar="NAME|DIR", help="A name from `datasets list`, or a directory.")],
    out: Annotated[
        Path, typer.Option("--out", help="File to write (JSON lines); an interrupted one is continued.")
    ] = Path("deepct.jsonl"),
    split: Annotated[str, typer.Option(help="The judgments: qrels/<split>.tsv.")] = "test",
    sparse: Annotated[
        str, typer.Option(envvar="SPARSE_URL", callback=address, help="URL of the sparse service (/embed_sparse).")
    ] = "http://127.0.0.1:8004",
    models: Annotated[Path, typer.Option(help="The folder that `make models` fills.")] = Path(".models"),
) -> None:
    """Writes term frequencies from the weights of a learned sparse model, for the preset deepct."""
    with reporting_errors():
        read = read_dataset(collection_directory(dataset), split)

        async def work() -> None:
            async with sparse_service(sparse) as service:
                await expand_deepct(service, read, models, out)

        asyncio.run(work())
        measured = ("--dataset", dataset, "--expansions", str(out), "--pipelines", "bm25,deepct")
        say(f"Next: {command_line('demo', *measured)}")
