"""Commands that export a collection of the gateway to a file, and restore it from one."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from evaluator.commands.options import GATEWAY, Gateway, Wait, reporting_errors, with_gateway
from evaluator.datasets.collection_file import ExportedCollection
from evaluator.progress import show
from evaluator.steps import collection_copy


def export_collection(
    collection: Annotated[str, typer.Argument(help="The collection whose live generation is exported.")],
    out: Annotated[Path, typer.Option(help="The file, of JSON lines.")],
    vectors: Annotated[
        bool, typer.Option("--vectors", help="Also the dense vectors, so that a restore encodes none of those.")
    ] = False,
    gateway: Gateway = GATEWAY,
    wait: Wait = 120.0,
) -> None:
    """Writes a collection to a file: its declaration, a document a line, and their count and digest."""
    with reporting_errors():
        work = partial(collection_copy.export_collection, collection=collection, path=out, vectors=vectors)
        end = with_gateway(gateway, wait, work)
        show(f"{out}: {end.documents} documents, digest {end.digest}")


def restore(
    file: Annotated[Path, typer.Argument(help="A file of `export-collection`, also packed (.gz).")],
    collection: Annotated[str, typer.Option(help="The collection to restore it as; what that has is replaced.")],
    gateway: Gateway = GATEWAY,
    wait: Wait = 120.0,
) -> None:
    """Loads an exported collection into a new generation and publishes it. A file that is not whole is refused."""
    with reporting_errors():
        exported = ExportedCollection.read(file)
        work = partial(collection_copy.restore_collection, exported=exported, collection=collection)
        published, encoded = with_gateway(gateway, wait, work)
        show(
            f"{published.generation}: {published.documents} documents, {encoded} passages encoded, digest "
            f"{exported.end.digest}"
        )
