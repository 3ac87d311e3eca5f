"""Searches a generation: encodes the query and asks the store. The store owns order and ties."""

from services.chassis.deadlines import Deadline
from services.chassis.errors import BadInput
from services.chassis.requests.telemetry import timed
from services.contracts.retrieval import DEFAULT_BEAM, RetrievalAnswer, RetrievalRequest
from services.storage.fields import requirements_of
from services.vectorservice.collections import require_own
from services.vectorservice.encoder import Encoder
from services.vectorstore.store import VectorQuery, VectorStore


async def search(
    store: VectorStore, encoder: Encoder, generation: str, asked: RetrievalRequest, deadline: Deadline
) -> RetrievalAnswer:
    """Returns the `top` nearest documents. Raises BadInput for a preset, which only lexical backends have."""
    if asked.preset is not None:
        raise BadInput("preset: lexical presets mean nothing to a vector backend; leave it out.")
    spec = await require_own(store, encoder, generation)
    where = requirements_of(asked.filter, spec.declaration.metadata)
    with timed("encode"):
        vector = await encoder.encode_query(asked.query, deadline)
    beam = DEFAULT_BEAM if asked.beam is None else asked.beam
    with timed("ann"):
        hits = await store.search(
            generation, VectorQuery(vector, asked.top, asked.exact, beam, where, exclude_ids=asked.exclude_ids)
        )
    return RetrievalAnswer(generation=generation, hits=hits)
