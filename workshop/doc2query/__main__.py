"""`python -m workshop.doc2query`: lets a language model write queries for the documents of a collection, for BM25."""

from pathlib import Path
from typing import Annotated

import typer

from evaluator.commands.options import collection_directory, reporting_errors
from evaluator.datasets.reader import read_dataset
from evaluator.progress import say
from workshop.doc2query.generation import expand_doc2query, open_generator, stamp_of

app = typer.Typer()


@app.command()
def doc2query(
    dataset: Annotated[str, typer.Argument(metavar="NAME|DIR", help="A set of the catalogue, or a directory.")],
    out: Annotated[Path, typer.Option("--out", help="The file: JSON lines. An interrupted one is continued.")] = Path(
        "doc2query.jsonl"
    ),
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


if __name__ == "__main__":
    app()
