"""The index of a generation in Elasticsearch: one sub-field a preset, each with its own similarity. Pure."""

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from services.contracts.collections import CollectionDeclaration, FieldKind, LexicalPreset
from services.lexical.presets import declared_presets

# Part of the stamp: another number makes another index.
ANALYSIS = "elasticsearch-english-1"
# Dates are milliseconds since 1970: a filter compares the same values in every engine (vectorstore/fields.py).
_TYPES: Mapping[FieldKind, str] = {"keyword": "keyword", "number": "double", "date": "double"}

Json = Mapping[str, object]


class Meta(BaseModel):
    """What an index says of itself, in the `_meta` of its mapping: an index without it is not ours."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    # Another layout is one that this release cannot read: its index is left alone like one of somebody else.
    layout: Literal[1] = 1
    # Of the service that made it: `demo-c@1` of a stack with the prefix `demo-` is not the collection `demo-c` of one
    # without. None in those made before this was kept; they are told apart by their names alone.
    prefix: str | None = None
    declaration: CollectionDeclaration
    stamp: dict[str, str]
    build: str | None = None
    published_at: float | None = None  # Unix seconds


def meta_of(kept: Json, prefix: str) -> Meta | None:
    """The `_meta` of an index as far as this release knows its keys; None when the index is not ours."""
    try:
        meta = Meta.model_validate(kept, extra="ignore")
    except ValidationError:
        return None
    return meta if meta.prefix in (None, prefix) else None


def index_body(meta: Meta, replicas: int) -> Mapping[str, Json]:
    """`settings` and `mappings` of a new index.

    One shard: term statistics are then those of the whole collection. No refreshes until it is published.
    """
    presets = declared_presets(meta.declaration)
    return {
        "settings": {
            "number_of_shards": 1,
            "number_of_replicas": replicas,
            "refresh_interval": "-1",
            # How long the version of a deleted document is known: longer than any write of it can be on its way.
            "gc_deletes": "10m",
            # Beside the default similarity, which none of our fields uses; k1 and b leave no trace in the index.
            "similarity": {_similarity(one): {"type": "BM25", "k1": one.k1, "b": one.b} for one in presets},
        },
        "mappings": {
            "dynamic": False,
            "_meta": meta.model_dump(mode="json"),
            "properties": {
                # `_id` cannot be sorted by; this is the order of equal scores.
                "doc_id": {"type": "keyword"},
                "hash": {"type": "keyword", "index": False, "doc_values": False},
                # Bytes in an answer. Only its maximum is asked for, and that without looking at a document.
                "size": {"type": "integer"},
                "title": _text(presets, "title"),
                "text": _text(presets, "text"),
                "contents": _text(presets, "contents"),
                # As given: kept in the source, and not looked into.
                "metadata": {"type": "object", "enabled": False},
                "fields": {
                    "type": "object",
                    "properties": {field: {"type": _TYPES[kind]} for field, kind in meta.declaration.metadata.items()},
                },
            },
        },
    }


def scored_fields(preset: LexicalPreset) -> list[str]:
    """The sub-fields that a preset scores."""
    return [f"{field}.{preset.name}" for field in _parents(preset)]


def _parents(preset: LexicalPreset) -> tuple[str, ...]:
    return ("contents",) if preset.match == "flat" else ("title", "text")


def _text(presets: Sequence[LexicalPreset], field: str) -> Json:
    """A field that is itself not indexed, with a sub-field for each preset that scores it."""
    subfields = {
        one.name: {
            "type": "text",
            "analyzer": "english",
            "similarity": _similarity(one),
            "index_options": "freqs",  # nobody asks for phrases
        }
        for one in presets
        if field in _parents(one)
    }
    # Title and text, one after the other, are what Anserini's flat collections call contents; the source has them once.
    copied = {} if field == "contents" else {"copy_to": ["contents"]}
    return {"type": "text", "index": False, "fields": subfields, **copied}


def _similarity(preset: LexicalPreset) -> str:
    return f"preset_{preset.name}"  # a similarity called `default` or `BM25` would mean another thing
