"""Commands that let a model expand the documents of a collection: `expand deepct`, `doc2query` and `keep-found`."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from evaluator.client.client import GatewayClient
from evaluator.commands.options import Gateway, Wait, address, collection_directory, reporting_errors, with_gateway
from evaluator.datasets.reader import read_dataset
from evaluator.errors import WrongOption
from evaluator.expansion.deepct import expand_deepct
from evaluator.expansion.doc2query import count_queries, expand_doc2query, open_generator, stamp_of
from evaluator.expansion.found_queries import keep_found
from evaluator.expansion.sparse_service import sparse_service
from evaluator.progress import say

expand = typer.Typer(no_args_is_help=True, help="Lets a model expand the documents of a collection, for BM25.")

Collection = Annotated[str, typer.Argument(metavar="NAME|DIR", help="A set of the catalogue, or a directory.")]
Out = Annotated[Path, typer.Option("--out", help="The file: JSON lines. An interrupted one is continued.")]
Split = Annotated[str, typer.Option(help="Which qrels/<split>.tsv the directory has.")]


@expand.command()
def deepct(
    dataset: Collection,
    out: Out = Path("deepct.jsonl"),
    split: Split = "test",
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
        say(f"{out}: load it by `--expansions {out}`, search it by `--preset deepct`")


@expand.command()
def doc2query(
    dataset: Collection,
    out: Out = Path("doc2query.jsonl"),
    split: Split = "test",
    model: Annotated[
        Path, typer.Option(help="A model's folder: one *.gguf, or encoder_model.onnx and decoder_model.onnx of a T5.")
    ] = Path(".models/smollm2-135m-instruct"),
    queries: Annotated[int, typer.Option(min=1, max=100, help="Queries generated for a document.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="With another seed, other queries are drawn.")] = 0,
) -> None:
    """Writes queries that a language model generates for each document, for the preset doc2query."""
    with reporting_errors():
        read = read_dataset(collection_directory(dataset), split)
        generator = open_generator(model)
        stamp = stamp_of(generator, model.resolve().name, queries, seed)
        done = expand_doc2query(generator, stamp, read, out, queries, seed)
        cost = "" if done.cpu_s is None else f"; {done.cpu_s:.2f} CPU s a document"
        say(
            f"{done.kept:,} of {done.generated:,} queries kept, the others are empty, repeat one of their document or "
            f"copy its text{cost}"
        )
        say(f"{out}: load it by `--expansions {out}`, search it by `--preset doc2query`")


@expand.command("keep-found")
def keep_found_queries(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="A file that `expand doc2query` wrote.")],
    out: Out = Path("doc2query-found.jsonl"),
    collection: Annotated[str, typer.Option(help="The collection at the gateway that has the documents.")] = "demo",
    pipeline: Annotated[str, typer.Option(help="The pipeline that searches each query.")] = "dense",
    first: Annotated[int, typer.Option(min=1, max=1_000, help="How deep the own document may be.")] = 10,
    gateway: Gateway = "http://127.0.0.1:8000",
    wait: Wait = 60.0,
) -> None:
    """Keeps the generated queries that find their own document in the first hits of a search."""
    with reporting_errors():
        if out.resolve() == source.resolve():
            raise WrongOption("--out: names the file that is read; name another")

        async def work(client: GatewayClient) -> None:
            await keep_found(client, collection, pipeline, first, source, out)

        with_gateway(gateway, wait, work)
        say(f"{count_queries(out):,} of {count_queries(source):,} queries kept; load them by `--expansions {out}`")
