"""Vectors of every representation, and NumPy's score of two of them: what the suite of the stores compares with."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from services.contracts.collections import CollectionDeclaration
from services.contracts.documents import MetadataValue
from services.contracts.filters import Condition
from services.storage.fields import fields_of
from services.storage.representation import (
    Dense,
    DenseVector,
    MultiVector,
    Representation,
    Sparse,
    SparseVector,
    TokenVectors,
    Vector,
)
from services.vectorstore.store import GenerationSpec, Point

DIMENSION = 8
TERMS = 60
DECLARED = CollectionDeclaration(metadata={"topic": "keyword", "year": "number", "day": "date"})
SPEC = GenerationSpec("notes@1", Dense(DIMENSION), {"model": "unit", "dimension": "8"}, DECLARED)


@dataclass(frozen=True, slots=True)
class Sample:
    """One representation.

    `tolerance`: how far scores may be from NumPy's.
    `axis` gives a vector with these first components, so that two of them score their dot product; `random` draws one;
    `score` is NumPy's, None where a search does not find the document; `wrong` are refused, each with the words.
    """

    spec: GenerationSpec
    axis: Callable[..., Vector]
    random: Callable[[np.random.Generator], Vector]
    score: Callable[[Vector, Vector], float | None]
    wrong: Sequence[tuple[Vector, str]]
    tolerance: float = 1e-6


def axis(*weights: float) -> DenseVector:
    """A dense vector with these first components, the others 0."""
    return np.array([*weights, *[0.0] * (DIMENSION - len(weights))], dtype=np.float32)


def unit_rows(random: np.random.Generator, rows: int, dimension: int = DIMENSION) -> TokenVectors:
    """Random rows of length 1."""
    drawn = random.standard_normal((rows, dimension)).astype(np.float32)
    rows_of_one: TokenVectors = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return rows_of_one


def halved(vectors: TokenVectors) -> TokenVectors:
    """Vectors rounded to half precision."""
    rounded: TokenVectors = vectors.astype(np.float16).astype(np.float32)
    return rounded


def sparse(*weights: tuple[int, float]) -> SparseVector:
    """A sparse vector of these terms and weights."""
    return SparseVector(
        np.array([term for term, _ in weights], dtype=np.int64), np.array([one for _, one in weights], dtype=np.float32)
    )


def same(given: Vector, held: Vector) -> bool:
    """Whether two vectors are equal bit by bit."""
    if isinstance(given, SparseVector) and isinstance(held, SparseVector):
        return np.array_equal(given.terms, held.terms) and same(given.weights, held.weights)
    if isinstance(given, SparseVector) or isinstance(held, SparseVector):
        return False
    return held.dtype == np.float32 and np.array_equal(given, held)


def _of(representation: Representation) -> GenerationSpec:
    return GenerationSpec("notes@1", representation, {"model": "unit"}, DECLARED)


def _dot(one: Vector, other: Vector) -> float:
    assert not isinstance(one, SparseVector)
    assert not isinstance(other, SparseVector)
    return float(one @ other)


def _cosine(one: Vector, other: Vector) -> float:
    assert not isinstance(one, SparseVector)
    assert not isinstance(other, SparseVector)
    return _dot(one, other) / float(np.linalg.norm(one) * np.linalg.norm(other))


def _sparse_axis(*weights: float) -> SparseVector:
    return sparse(*((term, weight) for term, weight in enumerate(weights) if weight))


def _random_sparse(random: np.random.Generator) -> SparseVector:
    terms = np.sort(random.choice(TERMS, random.integers(0, 12), replace=False))
    return SparseVector(terms, random.standard_normal(terms.size).astype(np.float32))


def _inner(one: Vector, other: Vector) -> float | None:
    assert isinstance(one, SparseVector)
    assert isinstance(other, SparseVector)
    common, left, right = np.intersect1d(one.terms, other.terms, return_indices=True)
    return float(one.weights[left] @ other.weights[right]) if common.size else None


def _max_sim(query: Vector, document: Vector) -> float:
    assert not isinstance(query, SparseVector)
    assert not isinstance(document, SparseVector)
    return float((query @ document.T).max(axis=1).sum())


_NAN, _INFINITY = float("nan"), float("inf")
_SEVEN, _NINE = np.ones(7, dtype=np.float32), np.ones(9, dtype=np.float32)

DENSE = Sample(
    spec=SPEC,
    axis=axis,
    random=lambda random: unit_rows(random, 1)[0],
    score=_dot,
    wrong=(
        (axis(_NAN), "finite"), (axis(_INFINITY), "finite"), (_SEVEN, "8 dimensions"), (_NINE, "8 dimensions"),
        (sparse((0, 1.0)), "8 dimensions"),
    ),
)  # fmt: skip
COSINE = Sample(
    spec=_of(Dense(DIMENSION, "cosine")),
    axis=axis,
    random=lambda random: random.standard_normal(DIMENSION).astype(np.float32),
    score=_cosine,
    wrong=DENSE.wrong,
)
SPARSE = Sample(
    spec=_of(Sparse()),
    axis=_sparse_axis,
    random=_random_sparse,
    score=_inner,
    wrong=(
        (sparse((0, _NAN)), "finite"), (sparse((0, -_INFINITY)), "finite"), (axis(1.0), "sparse"),
        (sparse((3, 1.0), (3, 1.0)), "distinct, ascending"), (sparse((3, 1.0), (2, 1.0)), "distinct, ascending"),
        (sparse((-1, 1.0)), "from 0"), (sparse((2**32, 1.0)), "4294967295"),
        (SparseVector(np.array([1, 2]), np.ones(1, dtype=np.float32)), "one weight per term"),
        (SparseVector(np.array([0.5]), np.ones(1, dtype=np.float32)), "whole numbers"),
    ),
)  # fmt: skip
MULTI_VECTOR = Sample(
    spec=_of(MultiVector(DIMENSION, "fp32")),
    axis=lambda *weights: axis(*weights).reshape(1, DIMENSION),
    random=lambda random: unit_rows(random, int(random.integers(1, 6))),
    score=_max_sim,
    wrong=(
        (axis(_NAN).reshape(1, 8), "finite"), (axis(1.0), "8 dimensions"), (_NINE.reshape(1, 9), "8 dimensions"),
        (np.ones((0, 8), dtype=np.float32), "1 to 131071 tokens"), (sparse((0, 1.0)), "8 dimensions"),
        (np.ones((131_072, 8), dtype=np.float32), "1 to 131071 tokens"),
    ),
)  # fmt: skip
# Its random vectors are of half precision, so that they come back as they are.
FP16 = replace(
    MULTI_VECTOR,
    spec=_of(MultiVector(DIMENSION, "fp16")),
    random=lambda random: halved(unit_rows(random, int(random.integers(1, 6)))),
    wrong=(*MULTI_VECTOR.wrong, (np.full((1, DIMENSION), 70_000, dtype=np.float32), "half precision")),
    tolerance=0.01,
)
SAMPLES = {"dense": DENSE, "sparse": SPARSE, "multi-vector": MULTI_VECTOR, "fp16": FP16}

# Metadata by document id, and (what is asked, conditions, ids of the documents that meet them).
FILED: Mapping[str, Mapping[str, MetadataValue]] = {
    "a": {"topic": "brakes", "year": 2019, "day": "2024-05-31"},
    "b": {"topic": ("brakes", "wheels"), "year": 2020.5, "day": "2024-05-31T23:59:59Z"},
    "c": {"topic": "wheels", "year": -1, "day": "2024-06-01T01:00:00+02:00"},
    "d": {"topic": (), "ignored": "brakes"},
    "e": {"topic": True, "year": 5, "day": "1969-12-31"},
}
FILTERS: Sequence[tuple[str, Sequence[Condition], str]] = (
    ("a keyword", [Condition(field="topic", op="eq", value="brakes")], "ab"),
    ("one keyword of several", [Condition(field="topic", op="in", value=("wheels", "spokes"))], "bc"),
    ("a boolean as keyword", [Condition(field="topic", op="eq", value=True)], "e"),
    ("an equal number", [Condition(field="year", op="eq", value=2020.5)], "b"),
    ("a whole number given as one", [Condition(field="year", op="eq", value=2019)], "a"),
    ("one number of several", [Condition(field="year", op="in", value=(5, -1.0))], "ce"),
    ("a number from", [Condition(field="year", op="gte", value=2019)], "ab"),
    ("a number to", [Condition(field="year", op="lte", value=5)], "ce"),
    ("a range", [Condition(field="year", op="gte", value=0), Condition(field="year", op="lte", value=2019)], "ae"),
    ("a day as a whole", [Condition(field="day", op="eq", value="2024-05-31")], "abc"),
    ("a moment", [Condition(field="day", op="eq", value="2024-05-31T23:59:59+00:00")], "b"),
    ("days to, the last one included", [Condition(field="day", op="lte", value="2024-05-31")], "abce"),
    ("days from", [Condition(field="day", op="gte", value="2024-05-31T12:00:00")], "bc"),
    ("one day of several", [Condition(field="day", op="in", value=("1969-12-31", "2020-01-01"))], "e"),
    ("a field that is there", [Condition(field="topic", op="exists")], "abce"),
    ("a field that is not", [Condition(field="topic", op="exists", value=False)], "d"),
    ("conditions that contradict",
     [Condition(field="topic", op="eq", value="brakes"), Condition(field="year", op="lte", value=0)], ""),
)  # fmt: skip


def point(document_id: str, vector: Vector, metadata: Mapping[str, MetadataValue] | None = None) -> Point:
    """A point with the declared fields of its metadata."""
    return Point(
        document_id, vector, f"content of {document_id}", f"passage of {document_id}",
        fields_of(metadata or {}, DECLARED.metadata),
    )  # fmt: skip


def random_points(count: int, dimension: int = DIMENSION) -> list[Point]:
    """Dense points with vectors of length 1."""
    vectors = unit_rows(np.random.default_rng(7), count, dimension)
    return [point(f"d{place:05d}", vector) for place, vector in enumerate(vectors)]


def drawn(sample: Sample, count: int) -> list[Point]:
    """Points with random vectors of a representation."""
    random = np.random.default_rng(7)
    return [point(f"d{place:05d}", sample.random(random)) for place in range(count)]


def passages_of(count: int, dimension: int) -> list[Point]:
    """Points with 1 to 8 vectors of length 1 each."""
    random = np.random.default_rng(7)
    return [point(f"d{place:05d}", unit_rows(random, 1 + place % 8, dimension)) for place in range(count)]
