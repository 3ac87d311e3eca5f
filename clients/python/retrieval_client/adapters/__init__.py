"""Connects frameworks to a gateway: each module needs the extra of its name. Here is what their documents share."""

from collections.abc import Mapping
from typing import Any

from retrieval_client.answers import SearchHit

# Names that no field of metadata can have: the gateway takes no hyphen there.
TITLE, SCORE = "hit-title", "hit-score"


def metadata_of(hit: SearchHit, *, scored: bool = False) -> dict[str, Any]:
    """Returns the metadata of a document, with its title as `hit-title`, and if `scored` its score as `hit-score`."""
    return {**(hit.metadata or {}), TITLE: hit.title or "", **({SCORE: hit.score} if scored else {})}


def passage(metadata: Mapping[str, Any], text: str | None) -> str:
    """Returns what pipelines re-rank of a document, `<title> <text>`. Other retrievers call the title `title`."""
    return f"{metadata.get(TITLE, metadata.get('title')) or ''} {text or ''}".strip()
