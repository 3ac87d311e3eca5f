"""Owns the representations of a generation's vectors (dense, sparse, multi-vector): their types, values and checks.

edge_vectors and qdrant_models convert them to the engines' types.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, TypeAdapter

from services.chassis.errors import BadInput

# Most components of one multi-vector (tokens times dimension): a Qdrant server answers 422 from 1,048,576 on.
MOST_COMPONENTS = 1_048_575
# Qdrant stores term numbers in 32 bits.
MOST_TERM = 2**32 - 1
# Names of the vector of terms, and of the two of a document with token vectors and a pooled vector.
SPARSE, TOKENS, POOLED = "sparse", "tokens", "pooled"
# What the engines keep of token vectors.
Storage = Literal["fp32", "fp16", "turbo4"]
# Of an HNSW graph: links of a vector, and candidates for them.
HNSW_M, HNSW_EF_CONSTRUCT = 16, 128
# Links of a multi-vector in an HNSW graph, for each of a single vector. With as many, a search finds 96.4 % of the 100
# best documents of SciFact by passages; with twice as many 99.6 %; by one vector per document 99.8 %.
MULTI_VECTOR_LINKS = 2
_MOST_FP16 = 65_504.0
# A squared length within this of 1 counts as 1, so that scaling a vector twice gives the same bits as scaling it once.
_UNIT = 1e-6


@dataclass(frozen=True, slots=True)
class Dense:
    """One fp32 vector [dimension] per text, scored by dot product or by cosine (vectors are scaled to length 1)."""

    dimension: Annotated[int, Field(ge=1)]
    distance: Literal["dot", "cosine"] = "dot"
    kind: Literal["dense"] = "dense"

    def __str__(self) -> str:
        return f"dense, {self.dimension} dimensions, {self.distance}"


@dataclass(frozen=True, slots=True)
class Sparse:
    """The weights of a text's terms, scored by inner product."""

    kind: Literal["sparse"] = "sparse"

    def __str__(self) -> str:
        return "sparse"


@dataclass(frozen=True, slots=True)
class MultiVector:
    """One vector per token of a text, [tokens, dimension], scored by MaxSim (ColBERT, Khattab and Zaharia 2020).

    MaxSim is the sum, over the query's tokens, of the largest dot product with any token of the document. With a query
    of one vector and one per passage, that is the best passage's score (MaxP).

    Storage "fp32" is that of passages: an HNSW graph over the vectors. The others keep a pooled vector beside the token
    vectors, by which an approximate search finds its candidates. "fp16" rounds token vectors to half precision.
    "turbo4" scales them to length 1, and keeps a code of 4 bits per component (TurboQuant, Zandieh et al. 2026) in
    their place.
    """

    dimension: Annotated[int, Field(ge=1)]
    storage: Storage = "turbo4"
    kind: Literal["multi-vector"] = "multi-vector"

    def __str__(self) -> str:
        return f"multi-vector, {self.dimension} dimensions, {self.storage}"

    @property
    def pooled(self) -> bool:
        """Whether a pooled vector is kept beside the token vectors."""
        return self.storage != "fp32"


Representation = Dense | Sparse | MultiVector


@dataclass(frozen=True, slots=True, eq=False)
class SparseVector:
    """Term numbers [terms], ascending and distinct, and their weights, fp32 [terms]. May have no terms."""

    terms: NDArray[np.integer]
    weights: NDArray[np.float32]


DenseVector = NDArray[np.float32]  # [dimension]
TokenVectors = NDArray[np.float32]  # [tokens, dimension]
Vector = DenseVector | TokenVectors | SparseVector

_REPRESENTATION: TypeAdapter[Representation] = TypeAdapter(Annotated[Representation, Field(discriminator="kind")])


def dump_representation(representation: Representation) -> dict[str, str | int]:
    """Returns the form that is stored with a generation: the fields, for example `{"kind": "sparse"}`."""
    return dict(_REPRESENTATION.dump_python(representation))


def parse_representation(data: Mapping[str, object] | None) -> Representation:
    """Parses what `dump_representation` returned. Raises ValueError (pydantic's) for anything else."""
    return _REPRESENTATION.validate_python(data)


def kept_vector(vector: Vector, representation: Representation) -> Vector:
    """Returns a document's vector as stores are given it: checked, and token vectors rounded to fp16 or scaled to
    length 1, as their storage says. Raises BadInput as `checked_vector` does."""
    checked = checked_vector(vector, representation)
    if isinstance(checked, SparseVector) or not isinstance(representation, MultiVector):
        return checked
    match representation.storage:
        case "fp32":
            return checked
        case "fp16":
            return checked.astype(np.float16).astype(np.float32)
        case "turbo4":
            return _unit_rows(checked)


def vector_of(stored: Any, representation: Representation) -> Vector:
    """Converts the vector of a stored record, whose parts have the same names in both engines."""
    named = stored if isinstance(stored, dict) else {}
    if not isinstance(representation, Sparse):
        dense = np.asarray(named.get(TOKENS, stored), dtype=np.float32)
        # Codes give the direction. Vectors of this length give the same codes again, however often they are copied.
        turbo4 = isinstance(representation, MultiVector) and representation.storage == "turbo4"
        return _unit_rows(dense) if turbo4 else dense
    if SPARSE not in named:
        return SparseVector(np.empty(0, np.uint32), np.empty(0, np.float32))
    terms = named[SPARSE]
    return SparseVector(np.asarray(terms.indices, np.uint32), np.asarray(terms.values, np.float32))


def pooled_vector(tokens: TokenVectors) -> DenseVector:
    """Returns the mean of token vectors, scaled to length 1 [dimension]."""
    return _unit(tokens.mean(axis=0, dtype=np.float64).astype(np.float32))


def component_lists(vector: DenseVector | TokenVectors) -> list[float] | list[list[float]]:
    """Returns the components as lists, as engines take them."""
    lists: list[float] | list[list[float]] = vector.tolist()
    return lists


def indexed_documents(vectors: int, documents: int, representation: Representation) -> int:
    """Returns how many documents are indexed if an engine reports this number of indexed vectors."""
    per_document = 2 if isinstance(representation, MultiVector) and representation.pooled else 1
    return min(vectors // per_document, documents)


def checked_vector(vector: Vector, representation: Representation) -> Vector:
    """Returns the vector as searches use it. Raises BadInput if it does not fit the representation.

    Refused are: another shape; NaN and infinities (Qdrant answers a NaN query with no hits and no error); terms that
    are not ascending, distinct and within 32 bits; a multi-vector with no tokens or more than MOST_COMPONENTS, or with
    components that its storage cannot hold (fp16 ends at 65,504).
    """
    match representation:
        case Dense():
            return _dense(vector, representation)
        case Sparse():
            return _sparse(vector)
        case MultiVector():
            return _multi_vector(vector, representation)


def _dense(vector: Vector, dense: Dense) -> DenseVector:
    if isinstance(vector, SparseVector) or vector.shape != (dense.dimension,):
        raise BadInput(f"A vector of {_shape(vector)} does not fit a collection of {dense.dimension} dimensions.")
    kept = _finite(vector)
    return _unit(kept) if dense.distance == "cosine" else kept


def _sparse(vector: Vector) -> SparseVector:
    if not isinstance(vector, SparseVector):
        raise BadInput(f"A vector of {_shape(vector)} does not fit a collection of sparse vectors.")
    terms = vector.terms
    if terms.ndim != 1 or vector.weights.shape != terms.shape:
        raise BadInput(
            f"{terms.shape} term numbers do not fit {vector.weights.shape} weights; send one weight per term."
        )
    if terms.size and not (
        np.issubdtype(terms.dtype, np.integer)
        and terms[0] >= 0
        and terms[-1] <= MOST_TERM
        and (terms[1:] > terms[:-1]).all()
    ):
        raise BadInput(f"Term numbers must be distinct, ascending whole numbers from 0 to {MOST_TERM}.")
    return SparseVector(terms.astype(np.uint32), _finite(vector.weights))


def _multi_vector(vector: Vector, multi: MultiVector) -> TokenVectors:
    if isinstance(vector, SparseVector) or vector.ndim != 2 or vector.shape[1] != multi.dimension:
        raise BadInput(
            f"A vector of {_shape(vector)} does not fit a collection of multi-vectors of {multi.dimension} dimensions."
        )
    if not 1 <= vector.shape[0] <= MOST_COMPONENTS // multi.dimension:
        raise BadInput(
            f"A multi-vector of {multi.dimension} dimensions has 1 to {MOST_COMPONENTS // multi.dimension} tokens, "
            f"not {vector.shape[0]}."
        )
    kept = _finite(vector)
    if multi.pooled and np.abs(kept).max() > _MOST_FP16:
        raise BadInput(f"The vector has components beyond {_MOST_FP16:,.0f}, which half precision cannot hold.")
    return kept


def _finite(numbers: NDArray[np.float32]) -> NDArray[np.float32]:
    if not np.isfinite(numbers).all():
        raise BadInput("The vector has components that are not finite numbers.")
    return np.ascontiguousarray(numbers, dtype=np.float32)


def _unit(vector: DenseVector) -> DenseVector:
    """Scales the vector to length 1; the zero vector is unchanged."""
    squared = float(np.square(vector, dtype=np.float64).sum())
    if squared == 0.0 or abs(squared - 1.0) <= _UNIT:
        return vector
    scaled: DenseVector = (vector / np.sqrt(squared)).astype(np.float32)
    return scaled


def _unit_rows(vectors: TokenVectors) -> TokenVectors:
    """Scales each row to length 1; rows of zeros are unchanged."""
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    scaled: TokenVectors = (vectors / np.where(lengths == 0.0, 1.0, lengths)).astype(np.float32)
    return scaled


def _shape(vector: Vector) -> str:
    return f"{vector.terms.size} terms" if isinstance(vector, SparseVector) else f"shape {vector.shape}"
