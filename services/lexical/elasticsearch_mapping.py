"""Builds the index of a generation in Elasticsearch, and queries of it. Pure.

Each preset is a sub-field with its own similarity. The analyzers that are not English give the terms of `analysis`.
"""

import functools
import hashlib
import json
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from services.contracts.base import Language
from services.contracts.collections import CollectionDeclaration, LexicalPreset
from services.lexical.analysis import LANGUAGES
from services.lexical.presets import boost_of, declared_presets, preset_fields, stamp_of
from services.storage.elasticsearch.bulk import VERSIONS_KEPT
from services.storage.elasticsearch.indices import DIGEST, GenerationMeta, Json, digest_types
from services.storage.elasticsearch.searching import field_clause, field_types
from services.storage.fields import Requirement

# Of english, part of the stamp: changing the number requires a new index.
ENGLISH = "elasticsearch-english-1"
_SHARDS = "shards"


@dataclass(frozen=True, slots=True)
class ShardCounts:
    """The shards of a new index, and the copies of each beside the first."""

    shards: int = 1
    replicas: int = 0


ONE_SHARD = ShardCounts()


class IndexMeta(GenerationMeta):
    """The `_meta` in the mapping of an index of this service."""

    # This release cannot read another layout: it ignores such an index like a foreign one.
    layout: Literal[2]


def stamp_of_new(declaration: CollectionDeclaration, shards: int) -> dict[str, str]:
    """Returns the stamp of a new index. It names more than one shard."""
    return {**stamp_of(declaration, analysis_version), **({} if shards == 1 else {_SHARDS: str(shards)})}


def has_several_shards(stamp: Mapping[str, str]) -> bool:
    """Returns whether the index of this stamp has more than one shard."""
    return _SHARDS in stamp


def stamp_beside(existing: Mapping[str, str], declaration: CollectionDeclaration) -> dict[str, str]:
    """Returns the stamp that a declaration asks of an index with the stamp `there`, whatever its number of shards."""
    shards = {_SHARDS: existing[_SHARDS]} if has_several_shards(existing) else {}
    return {**stamp_of(declaration, analysis_version), **shards}


def index_body(meta: IndexMeta, counts: ShardCounts) -> Mapping[str, Json]:
    """Returns `settings` and `mappings` of a new index, which is not refreshed until it is published."""
    presets = declared_presets(meta.declaration)
    expanded: list[str] = sorted(meta.declaration.expansions)
    return {
        "settings": {
            "number_of_shards": counts.shards,
            "number_of_replicas": counts.replicas,
            "refresh_interval": "-1",
            "gc_deletes": VERSIONS_KEPT,
            # None of our fields uses the default similarity. k1 and b do not change the index itself.
            "similarity": {_similarity(preset): {"type": "BM25", "k1": preset.k1, "b": preset.b} for preset in presets},
            "analysis": analysis_settings([preset.language for preset in presets]),
        },
        "mappings": {
            "dynamic": False,
            "_meta": meta.model_dump(mode="json"),
            # What repeats or summarises the rest of the source: words of expansions are about ten times the text.
            "_source": {"excludes": [DIGEST, *expanded]},
            "properties": {
                # Orders equal scores: `_id` cannot be used as a sort key.
                "doc_id": {"type": "keyword"},
                "hash": {"type": "keyword", "index": False, "doc_values": False},
                **digest_types(),
                # Bytes in an answer. Only its maximum is queried, which reads no document.
                "size": {"type": "integer"},
                "title": _text(presets, "title"),
                "text": _text(presets, "text"),
                "contents": _text(presets, "contents"),
                **{field: _text(presets, field) for field in expanded},
                # As given: stored in the source, not parsed.
                "metadata": {"type": "object", "enabled": False},
                "expansions": {"type": "object", "enabled": False},
                "fields": {"type": "object", "properties": field_types(meta.declaration.metadata)},
            },
        },
    }


def scored_fields(preset: LexicalPreset) -> list[str]:
    """Returns the sub-fields that a preset scores."""
    return [f"{field}.{preset.name}" for field in preset_fields(preset)]


def _text(presets: Sequence[LexicalPreset], field: str) -> Json:
    """Returns a field that is not indexed itself, with a sub-field for each preset that scores it."""
    subfields = {
        preset.name: {
            "type": "text",
            "analyzer": analyzer_of(preset.language),
            "similarity": _similarity(preset),
            "index_options": "freqs",  # phrase queries are not supported
        }
        for preset in presets
        if field in preset_fields(preset)
    }
    # Anserini's flat collections call title and text together `contents`. copy_to leaves the source unchanged.
    copied = {"copy_to": ["contents"]} if field in ("title", "text") else {}
    return {"type": "text", "index": False, "fields": subfields, **copied}


def _similarity(preset: LexicalPreset) -> str:
    return f"preset_{preset.name}"  # `default` and `BM25` are names of Elasticsearch's own similarities


def analyzer_of(language: Language) -> str:
    """Returns the name of the analyzer of a language: of english Elasticsearch's own, of others one of ours."""
    return language if language == "english" else f"ours_{language}"


def analysis_settings(languages: Collection[Language]) -> Json:
    """Returns the `analysis` of an index's settings; english needs none."""
    filters = {language: _filters(language) for language in sorted({*languages} - {"english"})}
    return {
        "analyzer": {
            analyzer_of(language): {"type": "custom", "tokenizer": "standard", "filter": [*named]}
            for language, named in filters.items()
        },
        "filter": {name: definition for named in filters.values() for name, definition in named.items() if definition},
    }


@functools.cache
def analysis_version(language: Language) -> str:
    """Returns a version of a language's analysis for the stamp, computed once."""
    if language == "english":
        return ENGLISH
    settings = json.dumps(analysis_settings([language]))
    return f"elasticsearch-{language}-{hashlib.sha256(settings.encode()).hexdigest()[:12]}"


def _filters(language: Language) -> dict[str, Json]:
    """Returns the token filters of a language, in their order: by name, with the definitions of those that need one."""
    rules = LANGUAGES[language]
    if rules.bigrams:
        return {"cjk_width": {}, "lowercase": {}, "cjk_bigram": {}}
    filters: dict[str, Json] = {"lowercase": {}}
    if rules.articles:
        filters[f"ours_{language}_elision"] = {"type": "elision", "articles": sorted(rules.articles)}
    filters[f"ours_{language}_stop"] = {"type": "stop", "stopwords": sorted(rules.stop_words)}
    filters[f"ours_{language}_stem"] = {"type": "snowball", "language": language.capitalize()}
    return filters


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


def among(ids: Sequence[str] | None, query: Json) -> Json:
    """Returns the query for what these ids have of it; the query itself without ids."""
    return query if ids is None else {"bool": {"must": [query], "filter": [{"ids": {"values": list(ids)}}]}}


def copy_preference(text: str) -> str:
    """Returns the `preference` of a query, by which Elasticsearch chooses a copy of each shard.

    Copies differ in term statistics: a repeated query gets the same copy, and different queries are spread over all.
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
