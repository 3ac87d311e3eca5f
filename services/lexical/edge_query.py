"""Translates presets into queries of Qdrant Edge. Pure."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import qdrant_edge as edge

from services.contracts.base import Language
from services.contracts.collections import LexicalPreset
from services.lexical.presets import boost_of, fields_of

# Best documents of each field that enter a sum over fields or repeated words. With fewer documents in the collection
# the sum is exact, and 5,183 take 4 ms. In larger ones, a document below this rank in a field contributes 0 for it.
MOST_CANDIDATES = 20_000

# Fields of the payload with terms: the field whose terms these are (presets.fields_of), and the language.
TermFields = Mapping[str, tuple[str, Language]]


def term_fields(presets: Sequence[LexicalPreset]) -> TermFields:
    """Returns the payload fields with terms: two of `best_fields` and `most_fields`, else one."""
    return {
        _payload_field(field, preset.language): (field, preset.language)
        for preset in presets
        for field in fields_of(preset)
    }


def _payload_field(field: str, language: Language) -> str:
    return field if language == "english" else f"{field}_{language}"


def bm25_request(
    preset: LexicalPreset, words: Sequence[str], where: edge.Filter | None, limit: int
) -> edge.QueryRequest:
    """Returns the request for the `limit` best points for the query's terms (at least one)."""
    parameters = edge.Bm25Params(k=preset.k1, b=preset.b)
    groups = _by_repetition(words)
    fields = term_fields([preset])
    if len(fields) == 1 and set(groups) == {1}:
        query = edge.TextQuery(next(iter(fields)), groups[1], parameters)
        return edge.QueryRequest(limit=limit, query=query, filter=where)
    prefetches: list[edge.Prefetch] = []
    scores: list[edge.Expression] = []
    for stored, (field, _) in fields.items():
        weighted: list[edge.Expression] = []
        boost = boost_of(preset, field)
        for times, terms in groups.items():
            variable = edge.Expression.Variable(f"$score[{len(prefetches)}]")
            weighted.append(edge.Expression.Mult([edge.Expression.Constant(times * boost), variable]))
            query = edge.TextQuery(stored, terms, parameters)
            prefetches.append(edge.Prefetch(limit=MOST_CANDIDATES, query=query, filter=where))
        scores.append(edge.Expression.Sum(weighted))
    formula = edge.Formula(_combined(preset, scores), {f"$score[{place}]": 0.0 for place in range(len(prefetches))})
    return edge.QueryRequest(limit=limit, query=formula, prefetches=prefetches)


def _by_repetition(words: Sequence[str]) -> Mapping[int, str]:
    """Groups terms by how often they occur. Edge counts each query term once, Lucene as often as it occurs."""
    groups: defaultdict[int, list[str]] = defaultdict(list)
    for word, times in Counter(words).items():
        groups[times].append(word)
    return {times: " ".join(terms) for times, terms in groups.items()}


def _combined(preset: LexicalPreset, scores: list[edge.Expression]) -> edge.Expression:
    """Combines the scores of fields. best_fields is max + t * (the others), written as (1 - t) * max + t * sum."""
    if preset.match != "best_fields":
        return edge.Expression.Sum(scores)
    best = edge.Expression.Mult([edge.Expression.Constant(1.0 - preset.tie_breaker), edge.Expression.Max(scores)])
    both = edge.Expression.Mult([edge.Expression.Constant(preset.tie_breaker), edge.Expression.Sum(scores)])
    return edge.Expression.Sum([best, both])
