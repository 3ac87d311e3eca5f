"""Exports a collection from the gateway to a file, and restores it from one, into a generation of its own."""

import asyncio
import secrets
from functools import partial
from pathlib import Path

from evaluator.client.client import GatewayClient
from evaluator.client.retries import Sleep, with_retries
from evaluator.datasets.collection_file import ExportedCollection, ExportEnd, ExportHead, ExportWriter
from evaluator.errors import EvaluationError
from evaluator.progress import ShownProgress, progress
from evaluator.steps.corpus_batches import LoadTally, send_batches, with_counted_retries
from evaluator.steps.ingest import PUBLISH_ATTEMPTS, live_states
from services.contracts.collections import BeginCollection, Published, PublishRequest
from services.files.disk_writes import whole_file

# Documents asked for at once; the gateway returns fewer where they are large.
PAGE_DOCUMENTS = 500


async def export_collection(
    client: GatewayClient, collection: str, path: Path, sleep: Sleep = asyncio.sleep, shown: ShownProgress = progress
) -> ExportEnd:
    """Writes the documents of the live generation to a file, which appears when it is whole; returns its last line.

    Documents that are written meanwhile may be in it or not. Raises EvaluationError if another generation is published
    meanwhile.
    """
    view = await with_retries(partial(client.collection, collection), "export-collection", sleep)
    states = live_states(view)
    if view.live is None or not states:
        raise EvaluationError(f"{collection} has no published generation, so there is nothing to export")
    declaration = next(iter(states.values())).declaration
    documents = max(state.documents for state in states.values())
    with whole_file(path) as file, shown(f"Exporting {view.live}", documents, "documents") as advance:
        writer = ExportWriter(file, ExportHead(collection=collection, generation=view.live, declaration=declaration))
        after: str | None = None
        while True:
            asked = partial(client.document_page, collection, after, PAGE_DOCUMENTS)
            page = await with_retries(asked, "export-collection", sleep)
            if page.generation != view.live:
                raise EvaluationError(f"{page.generation} took the place of {view.live} meanwhile; export it again")
            writer.add(page.documents)
            advance(len(page.documents))
            if page.following is None:
                return writer.end()
            after = page.following


async def restore_collection(
    client: GatewayClient,
    exported: ExportedCollection,
    collection: str,
    sleep: Sleep = asyncio.sleep,
    shown: ShownProgress = progress,
) -> Published:
    """Loads a file into a new generation of the collection, and publishes it. What the collection has, it replaces.

    Raises EvaluationError when a backend did not take every document.
    """
    tally, build = LoadTally("restore"), secrets.token_hex(16)
    wanted = BeginCollection(**dict(exported.head.declaration), new_generation=True, build=build)
    begun = await with_counted_retries(lambda: client.begin(collection, wanted), tally, sleep)
    with shown(f"Restoring {begun.generation}", exported.end.documents, "documents") as advance:
        await send_batches(client, collection, exported.documents(), build, tally, sleep, advance)
    publication = PublishRequest(build=build, expected_documents=exported.end.documents)
    return await with_counted_retries(
        lambda: client.publish(collection, publication), tally, sleep, attempts=PUBLISH_ATTEMPTS
    )
