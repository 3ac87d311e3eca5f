"""Which backends have a recall: those that search approximately unless a stage is exact."""

from evaluator.steps.vector_recall import approximate_backends
from services.contracts.collections import (
    BackendState,
    CollectionDeclaration,
    CollectionState,
    CollectionView,
    VectorState,
)


def backend(family: str, *, vectors: bool) -> BackendState:
    state = CollectionState(
        generation="c@1", published=True, documents=2, engine="e", stamp={}, declaration=CollectionDeclaration(),
        vectors=VectorState(vectors=2, indexed=0) if vectors else None,
    )  # fmt: skip
    return BackendState(backend=f"my-{family}", family=family, reachable=True, generations=(state,))


def test_an_index_of_terms_is_searched_exactly_so_it_has_no_recall() -> None:
    backends = (
        backend("lexical", vectors=False),
        backend("dense", vectors=True),
        backend("sparse", vectors=True),
        backend("late_interaction", vectors=True),
    )
    view = CollectionView(collection="c", live="c@1", building=None, backends=backends)
    assert approximate_backends(view) == {"my-dense", "my-late_interaction"}
