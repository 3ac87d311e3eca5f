"""Command of synthetic collections."""

from pathlib import Path
from typing import Annotated

import typer

from evaluator.commands.options import reporting_errors
from evaluator.progress import show


def synthetic(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to make, in BEIR layout.")],
    documents: Annotated[int, typer.Option(metavar="N", min=1, help="How many documents.")],
    queries: Annotated[
        int, typer.Option(metavar="M", min=1, help="How many queries, each with one relevant document.")
    ] = 100,
    words: Annotated[int, typer.Option(min=1, help="Words of a document, on average.")] = 55,
    seed: Annotated[int, typer.Option(min=0, help="Equal options give equal bytes.")] = 20_250_601,
) -> None:
    """Writes a collection of made-up words, by Zipf's law: to measure capacity, not quality."""
    from evaluator.datasets.synthetic import write_synthetic  # imports NumPy

    with reporting_errors():
        write_synthetic(directory, documents, queries, words, seed)
        show(f"{directory}: {documents} documents, {queries} queries, {queries} judgments")
