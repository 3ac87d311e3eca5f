"""Converts dense vectors between the wire and the store: those that documents come with, and those that are read."""

import numpy as np

from services.chassis.errors import AnswerTooLarge, BadInput
from services.contracts.documents import DocumentWithVectors
from services.contracts.vectors import MOST_ANSWER_COMPONENTS, DocumentVector, StoredVector, VectorsAnswer
from services.storage.representation import DenseVector, MultiVector, Sparse, SparseVector, kept_vector
from services.vectorstore.store import GenerationSpec, VectorStore


def given_vector(document: DocumentWithVectors, spec: GenerationSpec) -> DenseVector | None:
    """Returns the vector that a document came with, as stores keep it (of passages: the only one); None without one.

    Raises BadInput for one of another model or representation, and for several: the gateway sends a backend its own.
    """
    if not document.vectors:
        return None
    if len(document.vectors) > 1:
        raise BadInput(f"vectors: {', '.join(document.vectors)}: a vector service takes one of each document.")
    [(backend, given)] = document.vectors.items()
    if isinstance(held := spec.representation, Sparse) or (isinstance(held, MultiVector) and held.pooled):
        raise BadInput(
            f"vectors.{backend}: {spec.generation} holds other vectors ({spec.representation}), which are not taken; "
            "send the document without it, and its passage is encoded."
        )
    if given.model != spec.stamp["model"]:
        raise BadInput(
            f"vectors: the vector is of the model {given.model}, and those of {spec.generation} are of "
            f"{spec.stamp['model']}; leave it out, and the passage is encoded."
        )
    with np.errstate(over="ignore"):  # becomes infinite, which `kept_vector` refuses
        numbers = np.asarray(given.dense, np.float64).astype(np.float32)
    try:
        kept = kept_vector(numbers[np.newaxis] if isinstance(held, MultiVector) else numbers, held)
    except BadInput as error:
        raise BadInput(
            f"vectors.{backend}: {error.detail} Send the document again with one that fits, or without it: then its "
            "passage is encoded."
        ) from error
    assert not isinstance(kept, SparseVector)  # a dense one fits no other representation
    return kept


async def read_vectors(store: VectorStore, generation: str, ids: tuple[str, ...]) -> VectorsAnswer:
    """Returns the stored dense vectors, except of documents with several passages. Raises BadInput for other vectors,
    and AnswerTooLarge for several vectors of more numbers than an answer has."""
    spec = await store.spec(generation)
    if isinstance(held := spec.representation, Sparse) or (isinstance(held, MultiVector) and held.pooled):
        raise BadInput(f"vectors: those of {generation} are {held}, and only dense ones can be read; leave them out.")
    stored = await store.stored(generation, ids, vectors=True)
    if len(stored) > 1 and len(stored) * held.dimension > MOST_ANSWER_COMPONENTS:
        raise AnswerTooLarge(
            f"The vectors of {len(ids)} documents have more than {MOST_ANSWER_COMPONENTS} numbers; ask for fewer."
        )
    vectors: list[StoredVector] = []
    for identity in dict.fromkeys(ids):
        point = stored.get(identity)
        if point is None or point.vector is None or isinstance(point.vector, SparseVector):
            continue
        if point.vector.size > held.dimension:
            continue
        vector = DocumentVector.model_construct(model=spec.stamp["model"], dense=tuple(point.vector.ravel().tolist()))
        vectors.append(StoredVector.model_construct(id=identity, content_hash=point.content_hash, vector=vector))
    return VectorsAnswer.model_construct(generation=generation, vectors=tuple(vectors))
