"""Counts the documents of a query in a shard of Qdrant Edge. Blocking."""

from collections.abc import Sequence

import qdrant_edge as edge

from services.contracts.collections import LexicalPreset
from services.contracts.matches import FacetCounts
from services.lexical.facets import CheckedFacet
from services.lexical.presets import fields_of
from services.storage.edge_fields import condition


def with_words(preset: LexicalPreset, words: Sequence[str], where: edge.Filter | None) -> edge.Filter:
    """Returns the filter for the documents that also have one of these terms (at least one) in a preset's fields."""
    terms = edge.MatchTextAny(" ".join(dict.fromkeys(words)))
    shared = edge.Filter(should=[edge.FieldCondition(field, match=terms) for field in fields_of(preset)])
    return edge.Filter(must=[shared, *([] if where is None else [where])])


def count_all(shard: edge.EdgeShard, where: edge.Filter | None) -> int:
    """Returns how many documents pass."""
    return shard.count(edge.CountRequest(exact=True, filter=where))


def count_facet(facet: CheckedFacet, where: edge.Filter | None, shard: edge.EdgeShard) -> FacetCounts:
    """Returns the counts of a facet over the documents that pass."""
    if facet.ranges:
        passing = [] if where is None else [where]
        return facet.of_ranges([count_all(shard, edge.Filter(must=[*passing, condition(one)])) for one in facet.ranges])
    # Not `exact`, which would search once for every value: 335 ms in place of 20 over 100,000 documents. The other way
    # miscounts only points that are in two segments; ours has one. Edge orders by count, then by value.
    request = edge.FacetRequest(f"fields.{facet.asked.field}", limit=facet.asked.top, exact=False, filter=where)
    return facet.of_values([(str(hit.value), hit.count) for hit in shard.facet(request).hits])
