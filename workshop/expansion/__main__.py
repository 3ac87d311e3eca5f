"""`python -m workshop.expansion`: commands that generate queries for the documents of a collection, and filter them."""

from pathlib import Path
from typing import Annotated

import typer

from evaluator.client.client import GatewayClient
from evaluator.commands.options import GATEWAY, Gateway, Wait, collection_directory, reporting_errors, with_gateway
from evaluator.datasets.reader import read_dataset
from evaluator.errors import WrongOption
from evaluator.progress import say
from workshop.expansion.doc2query import count_queries, expand_doc2query, open_generator, stamp_of
from workshop.expansion.found_queries import keep_found

app = typer.Typer(no_args_is_help=True, help="Generates queries for the documents of a collection, for BM25.")

Out = Annotated[Path, typer.Option("--out", help="The file: JSON lines. An interrupted one is continued.")]


@app.command()
def doc2query(
    dataset: Annotated[str, typer.Argument(metavar="NAME|DIR", help="A set of the catalogue, or a directory.")],
    out: Out = Path("doc2query.jsonl"),
    split: Annotated[str, typer.Option(help="Which qrels/<split>.tsv the directory has.")] = "test",
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


@app.command("keep-found")
def keep_found_queries(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="A file that `doc2query` wrote.")],
    out: Out = Path("doc2query-found.jsonl"),
    collection: Annotated[str, typer.Option(help="The collection at the gateway that has the documents.")] = "demo",
    pipeline: Annotated[str, typer.Option(help="The pipeline that searches each query.")] = "dense",
    first: Annotated[int, typer.Option(min=1, max=1_000, help="How deep the own document may be.")] = 10,
    gateway: Gateway = GATEWAY,
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


if __name__ == "__main__":
    app()
