"""Writes, reads and searches documents in a shard of the Edge engine, by presets as queries of Edge. Blocking."""

import functools
import json
import math
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

import qdrant_edge as edge

from services.chassis.errors import BadInput
from services.contracts.base import Language
from services.contracts.collections import CollectionDeclaration, LexicalPreset
from services.contracts.content_digest import ContentDigest
from services.contracts.documents import (
    DeleteReport,
    Document,
    IdPage,
    IdPageRequest,
    IndexReport,
    ItemError,
    StoredPart,
)
from services.contracts.retrieval import Sort
from services.lexical.analysis import joined_words_of, words_of
from services.lexical.presets import (
    boost_of,
    declared_presets,
    expect_declared,
    generated_queries,
    preset_fields,
    word_frequencies,
)
from services.storage.edge_fields import field_indexes
from services.storage.edge_files import GenerationRecord
from services.storage.edge_generation import PAGE, SEARCH_THREADS, ShardSchema
from services.storage.fields import fields_of
from services.storage.point_ids import point_id
from services.storage.write_order import newer_versions, overtaken

# Best documents of each field that enter a sum over fields or repeated words. With fewer documents in the collection
# the sum is exact, and 5,183 take 4 ms. In larger ones, a document below this rank in a field contributes 0 for it.
MOST_CANDIDATES = 20_000

# Fields of the payload with terms: the field whose terms these are (presets.preset_fields), and the language.
TermFields = Mapping[str, tuple[str, Language]]


def term_fields(presets: Sequence[LexicalPreset]) -> TermFields:
    """Returns the payload fields with terms: two of `best_fields` and `most_fields`, else one."""
    return {
        field if preset.language == "english" else f"{field}_{preset.language}": (field, preset.language)
        for preset in presets
        for field in preset_fields(preset)
    }


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
    summed = edge.Expression.Mult([edge.Expression.Constant(preset.tie_breaker), edge.Expression.Sum(scores)])
    return edge.Expression.Sum([best, summed])


# Where a document stands in a sorted list: by a number, then by its id.
Place = tuple[float, str]


def index_documents(
    record: GenerationRecord,
    documents: Sequence[Document],
    version: int | None,
    shard: edge.EdgeShard,
    change: ContentDigest,
) -> IndexReport:
    """Writes new and changed documents in one operation of the write-ahead log. `change` gets what that changes."""
    held = {
        payload["id"]: (payload["hash"], payload.get("version", 0))
        for payload in _payloads(shard, [document.id for document in documents], ["id", "hash", "version"])
    }
    contents = {document.id: document.content_hash for document in documents}
    unchanged = {identity for identity, content in contents.items() if held.get(identity, ("", 0))[0] == content}
    changed = [document for document in documents if document.id not in unchanged]
    newer = newer_versions({document.id: held[document.id][1] for document in changed if document.id in held}, version)
    indexed = term_fields(declared_presets(record.declaration))
    points: list[edge.Point] = []
    written: dict[str, str] = {}
    errors = [overtaken(document_id) for document_id in newer]
    for document in changed:
        if document.id in newer:
            continue
        try:
            points.append(_point(record.declaration, document, version or 0, indexed))
            written[document.id] = contents[document.id]
        except BadInput as refused:
            errors.append(ItemError(id=document.id, reason=refused.detail))
    if points:
        shard.update(edge.UpdateOperation.upsert_points(points))
        change.remove((identity, held[identity][0]) for identity in written if identity in held)
        change.add(written.items())
    if raised := [point_id(identity) for identity in unchanged if held[identity][1] < (version or 0)]:
        shard.update(edge.UpdateOperation.set_payload(list(raised), {"version": version}))
    return IndexReport(
        indexed=len(points),
        unchanged=len(unchanged),
        errors=tuple(errors),
        latest_version=max(newer.values(), default=None),
    )


def delete_documents(
    ids: Sequence[str], version: int | None, shard: edge.EdgeShard, change: ContentDigest
) -> DeleteReport:
    """Removes the documents of these ids, except those with a newer version. `change` gets what that changes."""
    payloads = list(_payloads(shard, ids, ["id", "hash", "version"]))
    newer = newer_versions({payload["id"]: payload.get("version", 0) for payload in payloads}, version)
    gone = {payload["id"]: payload["hash"] for payload in payloads if payload["id"] not in newer}
    if gone:
        shard.update(edge.UpdateOperation.delete_points([point_id(identity) for identity in gone]))
        change.remove(gone.items())
    return DeleteReport(
        deleted=len(gone),
        errors=tuple(overtaken(identity) for identity in newer),
        latest_version=max(newer.values(), default=None),
    )


def read_documents(shard: edge.EdgeShard, ids: Sequence[str], include: Sequence[StoredPart]) -> list[Document]:
    """Returns the requested parts of documents as they were given, in any order."""
    documents: list[Document] = []
    for payload in _payloads(shard, ids, ["id", *(f"document.{part}" for part in include)]):
        kept = payload.get("document", {})
        texts = {part: kept.get(part, "") for part in ("title", "text")}
        parts = {part: json.loads(kept[part]) for part in ("metadata", "expansions") if part in kept}
        documents.append(Document(id=payload["id"], **texts, **parts))
    return documents


def _payloads(
    shard: edge.EdgeShard, ids: Sequence[str], keys: list[str]
) -> Iterator["edge.Payload"]:  # a name of the stubs alone
    points: list[edge.PointId] = [point_id(identity) for identity in dict.fromkeys(ids)]
    for record in shard.retrieve(points, with_payload=keys, with_vector=False):
        if record.payload is not None:
            yield record.payload


def _point(declaration: CollectionDeclaration, document: Document, version: int, indexed: TermFields) -> edge.Point:
    fields = fields_of(document.metadata, declaration.metadata)
    expect_declared(document, declaration.expansions)
    kept = {
        "title": document.title,
        "text": document.text,
        # As text, so that JSON numbers beyond any engine's types are returned unchanged.
        "metadata": json.dumps(document.metadata, ensure_ascii=False),
    }
    if document.expansions is not None:
        kept["expansions"] = document.expansions.model_dump_json()
    payload = {
        "id": document.id,
        "hash": document.content_hash,
        "version": version,
        "document": kept,
        "fields": {field: list(values) for field, values in fields.items()},
        **_terms(document, indexed),
    }
    return edge.Point(point_id(document.id), [0.0], payload)


def _terms(document: Document, indexed: TermFields) -> dict[str, str]:
    """Returns the payload fields with terms. Analyses each part of the document once for each language."""
    joined = functools.cache(joined_words_of)
    title_and_text = (document.title, document.text)
    parts: dict[str, tuple[str, ...]] = {
        "title": (document.title,),
        "text": (document.text,),
        "contents": title_and_text,
        "doc2query": (*title_and_text, generated_queries(document)),
    }
    return {
        stored: " ".join(filter(None, (joined(part, language) for part in parts[field])))
        if field in parts
        else " ".join(" ".join(words_of(word, language) * times) for word, times in word_frequencies(document))
        for stored, (field, language) in indexed.items()
    }


def page_of_ids(shard: edge.EdgeShard, page: IdPageRequest, where: edge.Filter | None) -> IdPage:
    """Returns a page of the ids of all documents that pass a filter."""
    try:
        first = None if page.after is None else uuid.UUID(page.after)
    except ValueError:
        raise BadInput("after: send the `following` of the page before.") from None
    request = edge.ScrollRequest(first, page.most, where, with_payload=["id"], with_vector=False)
    records, following = shard.scroll(request)
    ids = tuple(record.payload["id"] for record in records if record.payload is not None)
    return IdPage(ids=ids, following=None if following is None else str(following))


def page_to_sort(
    sort: Sort | None, where: edge.Filter | None, first: "edge.PointId | None", shard: edge.EdgeShard
) -> tuple[list[Place], "edge.PointId | None"]:
    """Returns the places of the documents of a page that pass a filter, from `first` on, and the next page's first.

    Takes 9 µs per document: Edge reads its whole payload.
    """
    field = [] if sort is None else [f"fields.{sort.field}"]
    request = edge.ScrollRequest(first, PAGE, where, with_payload=["id", *field], with_vector=False)
    records, following = shard.scroll(request)
    return [_place(record.payload, sort) for record in records if record.payload is not None], following


def _place(payload: "edge.Payload", sort: Sort | None) -> Place:
    values = [] if sort is None else payload.get("fields", {}).get(sort.field, [])
    downwards = sort is not None and sort.order == "desc"
    least = min((-value if downwards else value for value in values), default=math.inf)
    return least, payload["id"]


def _config(_: GenerationRecord) -> edge.EdgeConfig:
    # A shard needs vectors even for text only; one zero is the smallest.
    vectors = edge.EdgeVectorParams(size=1, distance=edge.Distance.Dot)
    return edge.EdgeConfig(vectors=vectors, max_search_threads=SEARCH_THREADS)


def _indexes(record: GenerationRecord) -> list[edge.UpdateOperation]:
    # Over finished terms: split at spaces, nothing dropped, nothing stemmed.
    index = edge.TextIndexParams(
        tokenizer=edge.TokenizerType.Whitespace,
        lowercase=False,
        stopwords=edge.StopwordsSet(languages=set(), custom=set()),
        stemmer=edge.DisabledStemmer(),
        scoring=True,
    )
    indexed = sorted(term_fields(declared_presets(record.declaration)))
    terms = [edge.UpdateOperation.create_field_index(field, index) for field in indexed]
    return [*terms, *field_indexes(record.declaration.metadata)]


# No graph, and so one segment: with a second one Edge's BM25 would also count terms of replaced documents in the first.
SCHEMA = ShardSchema(config=_config, indexes=_indexes, stamp_key="analysis")
