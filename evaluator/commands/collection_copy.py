"""Exports a collection of the gateway to a file, and restores it from one into a generation of its own."""

import secrets
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from evaluator.client.client import GatewayClient, loading_errors
from evaluator.client.retries import with_retries
from evaluator.commands.collection_file import ExportedCollection, ExportEnd, ExportHead, ExportWriter
from evaluator.commands.options import Gateway, Wait, reporting_errors, with_gateway
from evaluator.errors import GATEWAY, EvaluationError
from evaluator.progress import progress, show
from evaluator.steps.ingest import advancing, live_states, say_what_publishes, states_of
from retrieval_client import RetrievalError
from retrieval_client.answers import Published
from services.contracts.collections import CollectionState
from services.files.disk_writes import whole_file

# Documents asked for at once; the gateway returns fewer where they are large.
PAGE_DOCUMENTS = 500


async def exported_collection(
    client: GatewayClient, collection: str, path: Path, *, vectors: bool = False
) -> ExportEnd:
    """Writes the documents of the live generation to a file, which appears when it is whole; returns its last line.

    With `vectors`, also their dense ones, and the stamps of the backends that have these.
    Documents that are written meanwhile may be in it or not. Raises EvaluationError if another generation is published
    meanwhile.
    """
    if path.suffix == ".gz":
        raise EvaluationError(f"{path}: an export is written unpacked; name it {path.stem}, and pack that with gzip")
    view = await with_retries(partial(client.collection, collection), "export-collection")
    states = live_states(view)
    if view.live is None or not states:
        raise EvaluationError(f"{collection} has no published generation, so there is nothing to export")
    declaration = next(iter(states.values())).declaration
    documents = max(state.documents for state in states.values())
    dense = {backend.backend for backend in view.backends if backend.family == "dense"} if vectors else set()
    stamps = {name: state.stamp for name, state in states.items() if name in dense}
    head = ExportHead(collection=collection, generation=view.live, declaration=declaration, stamps=stamps)
    with whole_file(path) as file, progress(f"Exporting {view.live}", documents, "documents") as advance:
        writer = ExportWriter(file, head)
        after: str | None = None
        while True:
            request = partial(client.document_page, collection, after, PAGE_DOCUMENTS, vectors=vectors)
            page = await with_retries(request, "export-collection")
            if page.generation != view.live:
                raise EvaluationError(f"{page.generation} took the place of {view.live} meanwhile; export it again")
            writer.add(page.documents)
            advance(len(page.documents))
            if page.following is None:
                return writer.end()
            after = page.following


async def restored_collection(
    client: GatewayClient, exported: ExportedCollection, collection: str
) -> tuple[Published, int]:
    """Loads a file into a new generation of the collection, and publishes it. What the collection has, it replaces.

    Returns also how many passages were encoded. Raises EvaluationError when a backend did not take every document, or
    makes its vectors otherwise than those of the file.
    """
    build, declaration, documents = secrets.token_hex(16), exported.head.declaration, exported.end.documents
    with loading_errors("restore"):
        begun = await client.loader.begin(collection, **declaration.model_dump(), new_generation=True, build=build)
        if exported.head.stamps:
            view = await with_retries(partial(client.collection, collection), "restore")
            try:
                _expect_same_stamps(exported, begun.generation, states_of(view, begun.generation))
            except EvaluationError:
                await client.loader.discard(collection, build=build)
                raise
        with progress(f"Restoring {begun.generation}", documents, "documents") as advance:
            try:
                loaded = await client.loader.load(
                    collection, exported.documents(), build=build, progress=advancing(advance)
                )
            except RetrievalError as error:
                if error.kind == "document-too-large" and exported.head.stamps:
                    raise EvaluationError(f"{error}; export without --vectors") from error
                raise
        published = await client.loader.publish(
            collection, build=build, expected_documents=documents, progress=say_what_publishes
        )
    return published, sum(load.encoded for load in loaded.backends.values())


def _expect_same_stamps(exported: ExportedCollection, generation: str, states: Mapping[str, CollectionState]) -> None:
    for name, stamp in exported.head.stamps.items():
        if name not in states:
            raise EvaluationError(f"{exported.path} has vectors of {name}, and {generation} does not live on one")
        stamped = states[name].stamp
        # How a server finds vectors, its shards and graph, is `index`: it does not change them.
        if other := sorted(key for key in {*stamp, *stamped} - {"index"} if stamp.get(key) != stamped.get(key)):
            differing = ", ".join(f"{key}: {stamp.get(key)} in the file, {stamped.get(key)} there" for key in other)
            raise EvaluationError(
                f"{exported.path}: its vectors are not those of {name} ({differing}); configure {name} as it was, or "
                "export without --vectors"
            )


def export_collection(
    collection: Annotated[str, typer.Argument(help="The collection whose live generation is exported.")],
    out: Annotated[Path, typer.Option(help="File to write (JSON lines).")],
    vectors: Annotated[
        bool, typer.Option("--vectors", help="Include dense vectors, so that a restore need not encode.")
    ] = False,
    gateway: Gateway = GATEWAY,
    wait: Wait = 120.0,
) -> None:
    """Writes a collection to a file: its declaration, one line per document, count and digest."""
    with reporting_errors():
        work = partial(exported_collection, collection=collection, path=out, vectors=vectors)
        end = with_gateway(gateway, wait, work)
        show(f"{out}: {end.documents} documents, digest {end.digest}")


def restore(
    file: Annotated[Path, typer.Argument(help="A file that `export-collection` wrote, also compressed (.gz).")],
    collection: Annotated[str, typer.Option(help="The collection to load into; its content is replaced.")],
    gateway: Gateway = GATEWAY,
    wait: Wait = 120.0,
) -> None:
    """Loads an exported collection into a new generation and publishes it. Refuses an incomplete file."""
    with reporting_errors():
        exported = ExportedCollection.read(file)
        work = partial(restored_collection, exported=exported, collection=collection)
        published, encoded = with_gateway(gateway, wait, work)
        show(
            f"{published.generation}: {published.documents} documents, {encoded} passages encoded, digest "
            f"{exported.end.digest}"
        )
