"""Which metadata of a batch the collection does not declare: it is kept, but nobody can filter by it."""

from collections.abc import Iterable, Sequence

from services.contracts.collections import CollectionState
from services.contracts.documents import Document

# A report stays small whatever is sent: 256 documents may bring a field of their own each.
MOST_NAMES = 32


def undeclared(documents: Sequence[Document], generation: str, states: Iterable[CollectionState]) -> tuple[str, ...]:
    """The first names, in their order, that `generation` declares in none of the `states`; at most MOST_NAMES."""
    declarations = [state.declaration.metadata for state in states if state.generation == generation]
    if not declarations:
        return ()
    declared = {name for metadata in declarations for name in metadata}
    sent = {name for document in documents for name in document.metadata}
    return tuple(sorted(sent - declared)[:MOST_NAMES])
