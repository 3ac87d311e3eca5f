"""Finds metadata fields of a batch that the collection does not declare: they are stored, but not filterable."""

from collections.abc import Iterable, Sequence

from services.contracts.collections import CollectionState
from services.contracts.documents import Document

# Bounds the report: each of 256 documents may have fields of its own.
MOST_NAMES = 32


def undeclared_fields(
    documents: Sequence[Document], generation: str, states: Iterable[CollectionState]
) -> tuple[str, ...]:
    """Returns, sorted, the first MOST_NAMES field names that no state of `generation` declares."""
    declarations = [state.declaration.metadata for state in states if state.generation == generation]
    if not declarations:
        return ()
    declared = {name for metadata in declarations for name in metadata}
    sent = {name for document in documents for name in document.metadata}
    return tuple(sorted(sent - declared)[:MOST_NAMES])
