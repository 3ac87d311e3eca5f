"""Maps a caller's id (any string) to an engine's id (a UUID)."""

import uuid

# Made once with uuid4. A point id is the UUIDv5 of the document id in this namespace, the same on every replica.
NAMESPACE = uuid.UUID("6f1b0a36-3c0d-4f6e-9f0c-6f1a9a1f6c53")


def point_id(document_id: str) -> uuid.UUID:
    """Returns the engine's id of a document."""
    return uuid.uuid5(NAMESPACE, document_id)
