"""Presets in Qdrant Edge's words. Pure."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import qdrant_edge as edge

from services.contracts.collections import LexicalPreset

# A field's best documents that a sum over several fields, or over repeated words, is made from: with fewer documents
# than this in a collection the sum is exact, and 5,183 of them cost 4 ms. Beyond, a document that one field ranks
# below this place counts as not found in that field.
MOST_CANDIDATES = 20_000


def fields_of_presets(presets: Sequence[LexicalPreset]) -> tuple[str, ...]:
    """The payload fields that hold terms: `flat` presets score one field, the others two."""
    fields = {field for preset in presets for field in _scored(preset)}
    return tuple(sorted(fields))


def bm25_request(
    preset: LexicalPreset, words: Sequence[str], where: edge.Filter | None, limit: int
) -> edge.QueryRequest:
    """The `limit` best points for the query's terms (at least one)."""
    parameters = edge.Bm25Params(k=preset.k1, b=preset.b)
    groups = _by_repetition(words)
    fields = _scored(preset)
    if len(fields) == 1 and set(groups) == {1}:
        query = edge.TextQuery(fields[0], groups[1], parameters)
        return edge.QueryRequest(limit=limit, query=query, filter=where)
    prefetches: list[edge.Prefetch] = []
    scores: list[edge.Expression] = []
    for field in fields:
        weighted: list[edge.Expression] = []
        for times, terms in groups.items():
            variable = edge.Expression.Variable(f"$score[{len(prefetches)}]")
            weighted.append(edge.Expression.Mult([edge.Expression.Constant(float(times)), variable]))
            query = edge.TextQuery(field, terms, parameters)
            prefetches.append(edge.Prefetch(limit=MOST_CANDIDATES, query=query, filter=where))
        scores.append(edge.Expression.Sum(weighted))
    formula = edge.Formula(_combined(preset, scores), {f"$score[{place}]": 0.0 for place in range(len(prefetches))})
    return edge.QueryRequest(limit=limit, query=formula, prefetches=prefetches)


def _scored(preset: LexicalPreset) -> tuple[str, ...]:
    return ("contents",) if preset.match == "flat" else ("title", "text")


def _by_repetition(words: Sequence[str]) -> Mapping[int, str]:
    """The terms that stand once, twice, … as text. Edge counts a query's terms once, Lucene as often as they stand."""
    groups: defaultdict[int, list[str]] = defaultdict(list)
    for word, times in Counter(words).items():
        groups[times].append(word)
    return {times: " ".join(terms) for times, terms in groups.items()}


def _combined(preset: LexicalPreset, scores: list[edge.Expression]) -> edge.Expression:
    """best_fields is max + tie_breaker * (the others), written as (1 - t) * max + t * sum."""
    if preset.match != "best_fields":
        return edge.Expression.Sum(scores)
    best = edge.Expression.Mult([edge.Expression.Constant(1.0 - preset.tie_breaker), edge.Expression.Max(scores)])
    both = edge.Expression.Mult([edge.Expression.Constant(preset.tie_breaker), edge.Expression.Sum(scores)])
    return edge.Expression.Sum([best, both])
