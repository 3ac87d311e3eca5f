"""Reads ids and content hashes of all points of an Edge shard, page by page."""

from dataclasses import dataclass

import qdrant_edge as edge

# 1,000 payloads of two strings take 4 ms, which may delay a search.
PAGE = 1_000


@dataclass(frozen=True, slots=True)
class Page:
    """A page, by its first point. None begins at the first point of the shard."""

    first: "edge.PointId | None"  # a name of the stubs alone


FIRST_PAGE = Page(None)


def payload_page(shard: edge.EdgeShard, key: str, page: Page) -> tuple[list[tuple[str, str]], Page | None]:
    """Reads id and content hash (under `key`) of each point of a page. Returns them and the next page."""
    records, following = shard.scroll(
        edge.ScrollRequest(offset=page.first, limit=PAGE, with_payload=["id", key], with_vector=False)
    )
    pairs = [(record.payload["id"], record.payload[key]) for record in records if record.payload is not None]
    return pairs, None if following is None else Page(following)
