"""Every point of an Edge shard, page by page, as ids and content hashes."""

from dataclasses import dataclass

import qdrant_edge as edge

# 1,000 payloads of two strings take 4 ms, for which a search may have to wait.
PAGE = 1_000


@dataclass(frozen=True, slots=True)
class Page:
    """The first point of a page; None is the first of all."""

    first: "edge.PointId | None"  # a name of the stubs alone


FIRST_PAGE = Page(None)


def payload_page(shard: edge.EdgeShard, key: str, page: Page) -> tuple[list[tuple[str, str]], Page | None]:
    """The id and the content hash (under `key`) of each point of a page, and the next page."""
    records, following = shard.scroll(
        edge.ScrollRequest(offset=page.first, limit=PAGE, with_payload=["id", key], with_vector=False)
    )
    pairs = [(record.payload["id"], record.payload[key]) for record in records if record.payload is not None]
    return pairs, None if following is None else Page(following)
