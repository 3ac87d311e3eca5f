"""Converts vectors between the wire and the store: of documents that come with one, and of those that are read."""

import numpy as np
from numpy.typing import NDArray

from services.chassis.errors import AnswerTooLarge, BadInput
from services.contracts.documents import DocumentWithVectors
from services.contracts.vectors import MOST_ANSWER_COMPONENTS, DocumentVector, StoredVector, VectorsAnswer
from services.vectorstore.representation import SparseVector, Vector, kept_vector
from services.vectorstore.store import GenerationSpec, VectorStore


def given_vector(document: DocumentWithVectors, spec: GenerationSpec) -> Vector | None:
    """Returns the vector that a document came with, as stores keep it; None without one.

    Raises BadInput for one of another model or representation, and for several: the gateway sends a backend its own.
    """
    if not document.vectors:
        return None
    if len(document.vectors) > 1:
        raise BadInput(f"vectors: {', '.join(document.vectors)}: a vector service takes one of each document.")
    [(backend, given)] = document.vectors.items()
    if given.model != spec.stamp["model"]:
        raise BadInput(
            f"vectors: the vector is of the model {given.model}, and those of {spec.generation} are of "
            f"{spec.stamp['model']}; leave it out, and the passage is encoded."
        )
    try:
        return kept_vector(_from_wire(given), spec.representation)
    except BadInput as error:
        raise BadInput(
            f"vectors.{backend}: {error.detail} Send the document again with one that fits, or without it: then its "
            "passage is encoded."
        ) from error


def is_same(one: Vector, other: Vector | None) -> bool:
    """Returns whether two kept vectors are equal, bit by bit."""
    if isinstance(one, SparseVector) and isinstance(other, SparseVector):
        return np.array_equal(one.terms, other.terms) and np.array_equal(one.weights, other.weights)
    if isinstance(one, SparseVector) or isinstance(other, SparseVector) or other is None:
        return False
    return np.array_equal(one, other)


async def read_vectors(store: VectorStore, generation: str, ids: tuple[str, ...]) -> VectorsAnswer:
    """Returns the stored vectors of documents. Raises AnswerTooLarge for several of more numbers than an answer has."""
    model = (await store.spec(generation)).stamp["model"]
    stored = await store.stored(generation, ids, vectors=True)
    found: list[StoredVector] = []
    components = 0
    for identity in dict.fromkeys(ids):
        there = stored.get(identity)
        if there is None or there.vector is None:
            continue
        vector = _to_wire(there.vector, model)
        components += vector.components
        if found and components > MOST_ANSWER_COMPONENTS:
            raise AnswerTooLarge(
                f"The vectors of {len(ids)} documents have more than {MOST_ANSWER_COMPONENTS} numbers; ask for fewer."
            )
        found.append(StoredVector.model_construct(id=identity, content_hash=there.content_hash, vector=vector))
    return VectorsAnswer.model_construct(generation=generation, vectors=tuple(found))


def _from_wire(given: DocumentVector) -> Vector:
    if given.terms is not None:
        return SparseVector(np.array(given.terms, np.uint32), _numbers(given.weights or ()))
    return _numbers(given.dense if given.tokens is None else given.tokens)


def _numbers(values: object) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # becomes infinite, which `kept_vector` refuses
        return np.asarray(values, np.float64).astype(np.float32)


def _to_wire(vector: Vector, model: str) -> DocumentVector:
    if isinstance(vector, SparseVector):
        terms, weights = tuple(vector.terms.tolist()), tuple(vector.weights.tolist())
        return DocumentVector.model_construct(model=model, terms=terms, weights=weights)
    if vector.ndim == 1:
        return DocumentVector.model_construct(model=model, dense=tuple(vector.tolist()))
    return DocumentVector.model_construct(model=model, tokens=tuple(map(tuple, vector.tolist())))
