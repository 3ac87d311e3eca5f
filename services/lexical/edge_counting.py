"""Counts the documents of a query in a generation of Qdrant Edge."""

from collections.abc import Sequence

import qdrant_edge as edge

from services.contracts.collections import LexicalPreset
from services.contracts.matches import FacetCounts, Matches
from services.lexical.edge_query import term_fields
from services.lexical.facets import CheckedFacet
from services.storage.edge_fields import condition
from services.storage.edge_generation import EdgeGeneration


def with_words(preset: LexicalPreset, words: Sequence[str], where: edge.Filter | None) -> edge.Filter:
    """Returns the filter for the documents that also have one of these terms in a preset's fields; none has none."""
    terms = edge.MatchTextAny(" ".join(dict.fromkeys(words)))
    shared = edge.Filter(should=[edge.FieldCondition(field, match=terms) for field in term_fields([preset])])
    return edge.Filter(must=[shared, *_given(where)])


async def count_matches(
    held: EdgeGeneration, where: edge.Filter | None, facets: Sequence[CheckedFacet], *, total: bool
) -> Matches:
    """Returns the counts of the documents that pass, each in a turn of its own, so that searches run in between."""
    counts = {facet.asked.field: await _facet_counts(held, where, facet) for facet in facets}
    return Matches(total=await _count(held, where) if total else None, facets=counts or None)


async def _facet_counts(held: EdgeGeneration, where: edge.Filter | None, facet: CheckedFacet) -> FacetCounts:
    if facet.ranges:
        within = [edge.Filter(must=[*_given(where), condition(one)]) for one in facet.ranges]
        return facet.of_ranges([await _count(held, one) for one in within])
    # Not `exact`, which would search once for every value: 335 ms in place of 20 over 100,000 documents. The other way
    # miscounts only points that are in two segments; ours has one. Edge orders by count, then by value.
    request = edge.FacetRequest(f"fields.{facet.asked.field}", limit=facet.asked.top, exact=False, filter=where)
    found = await held.read(lambda shard: shard.facet(request))
    return facet.of_values([(str(hit.value), hit.count) for hit in found.hits])


async def _count(held: EdgeGeneration, where: edge.Filter | None) -> int:
    request = edge.CountRequest(exact=True, filter=where)
    return await held.read(lambda shard: shard.count(request))


def _given(where: edge.Filter | None) -> list[edge.Filter]:
    return [] if where is None else [where]
