"""Translates presets and filters into queries of Elasticsearch. Pure."""

import zlib
from collections.abc import Sequence

from services.contracts.collections import LexicalPreset
from services.lexical.elasticsearch_mapping import scored_fields
from services.lexical.presets import boost_of, preset_fields
from services.storage.elasticsearch.indices import Json
from services.storage.elasticsearch.searching import field_clause
from services.storage.fields import Requirement


def search_query(
    preset: LexicalPreset, text: str, requirements: Sequence[Requirement], exclude_ids: Sequence[str]
) -> Json:
    """Returns the BM25 query over the preset's fields. Filters do not change scores."""
    scoring = _scoring(preset, text)
    if not requirements and not exclude_ids:
        return scoring
    return _bool([scoring], requirements, exclude_ids)


def filter_query(requirements: Sequence[Requirement], exclude_ids: Sequence[str] = ()) -> Json:
    """Returns the query for all documents that meet the requirements, without those of these ids."""
    return _bool([], requirements, exclude_ids)


def _bool(scoring: Sequence[Json], requirements: Sequence[Requirement], exclude_ids: Sequence[str]) -> Json:
    return {
        "bool": {
            "must": list(scoring),
            "filter": [field_clause(requirement) for requirement in requirements],
            "must_not": [{"ids": {"values": list(exclude_ids)}}] if exclude_ids else [],
        }
    }


def copy_preference(text: str) -> str:
    """Returns the `preference` of a query, by which Elasticsearch chooses a copy of each shard.

    Copies differ in merged segments and so in term statistics: a query that is repeated gets the same copy, and
    different queries are spread over all.
    """
    return f"{zlib.crc32(text.encode()):08x}"


def _scoring(preset: LexicalPreset, text: str) -> Json:
    match preset.match:
        case "flat" | "doc2query" | "deepct":
            return {"match": {scored_fields(preset)[0]: {"query": text}}}
        case "best_fields":
            return _multi_match(preset, text, preset.tie_breaker)
        case "most_fields":
            return _multi_match(preset, text, 1.0)


def _multi_match(preset: LexicalPreset, text: str, tie_breaker: float) -> Json:
    boosted = [
        f"{scored}^{boost_of(preset, field)}"
        for field, scored in zip(preset_fields(preset), scored_fields(preset), strict=True)
    ]
    return {"multi_match": {"query": text, "type": preset.match, "fields": boosted, "tie_breaker": tie_breaker}}
