"""Builds requests of the gateway and the re-ranker: paths, bodies, answers. Each call takes the seconds it may last."""

import re
import secrets
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal
from urllib.parse import quote, urlencode

from pydantic import BaseModel, TypeAdapter
from pydantic_core import from_json, to_json

from retrieval_client import answers as wire
from retrieval_client.exchange import BUSY, UNFINISHED, RetrievalError, Steps, ask

# Seconds after which a gateway tells how far a publication is, and for which one that gives no answer is asked again.
PUBLISH_CALL_S, PUBLISH_PATIENCE_S = 15.0, 600.0
_PUBLICATION: TypeAdapter[wire.Published | wire.PublishJob] = TypeAdapter(wire.Published | wire.PublishJob)
# What can be sent: a document as it was read, or an object or a model with id, title, text and metadata.
SentDocument = BaseModel | Mapping[str, Any]


class _Result(BaseModel):
    index: int
    relevance_score: float


class _Ranking(BaseModel):
    results: list[_Result]


def search(
    within_s: float,
    collection: str,
    query: str | None = None,
    *,
    pipeline: str | Mapping[str, Any] | None = None,
    top: int | None = None,
    offset: int | None = None,
    filter: wire.Filter | None = None,
    exclude_ids: Sequence[str] | None = None,
    sort: wire.Sort | None = None,
    min_score: float | None = None,
    include: Sequence[Literal["title", "text", "metadata"]] | None = None,
    highlight: int | None = None,
    facets: Sequence[wire.Facet] | None = None,
    total: bool | None = None,
    unit: str | None = None,
) -> Steps[wire.SearchAnswer]:
    """Returns the best documents for a query, by a pipeline: its name, or its stages; by `sort` its candidates in that
    order, those of a `min_score`. Without a query it lists what passes the filter, by `sort` or by id.

    `top`: how many (10). With an `offset` the answer has a `page`. `include`: parts of the documents to return.
    `highlight`: how many fragments of each text to return that hold words of the query. `facets` and `total` add
    `matches`: counts, whose `relation` tells of what: "all" documents that match, or the pipeline's "candidates".
    `unit`: the user or session whose search it is, where the pipeline is an experiment.
    """
    if unit is not None and not re.fullmatch("[!-~]{1,128}", unit):
        raise RetrievalError("bad-input", f"unit {unit!r}: it has 1 to 128 visible ASCII characters, no blanks")
    body = _body(
        query=query,
        pipeline=pipeline,
        top=top,
        offset=offset,
        filter=filter,
        exclude_ids=exclude_ids,
        sort=sort,
        min_score=min_score,
        include=include,
        highlight=highlight,
        facets=facets,
        total=total,
    )
    return ask(wire.SearchAnswer.model_validate_json, "POST", f"{_of(collection)}/search", within_s, body, unit=unit)


def send_events(within_s: float, events: Iterable[Mapping[str, Any]]) -> Steps[None]:
    """Keeps what units did with answers, at most 1,000 events: `query_id` (an answer's `request_id`), `client_id` (its
    unit), `action_name` ("click"), and where they apply `object_id`, `position` and `value`.

    An event counts once, however often it is sent with the same `event_id`; one without gets an id here.
    """
    body = _body(events=[{"event_id": uuid.uuid4().hex, **event} for event in events])
    return ask(lambda _: None, "POST", "/v1/events", within_s, body, repeated=UNFINISHED)


def pipelines(within_s: float) -> Steps[wire.PipelineList]:
    """Returns the pipelines that a search can name, with their stages."""
    return ask(wire.PipelineList.model_validate_json, "GET", "/v1/pipelines", within_s)


def collections(within_s: float) -> Steps[wire.CollectionList]:
    """Returns all collections."""
    return ask(wire.CollectionList.model_validate_json, "GET", "/v1/collections", within_s)


def collection(within_s: float, collection: str) -> Steps[wire.CollectionView]:
    """Returns one collection, with its generations."""
    return ask(wire.CollectionView.model_validate_json, "GET", _of(collection), within_s)


def begin(
    within_s: float,
    collection: str,
    *,
    presets: Sequence[wire.Preset] | None = None,
    metadata: Mapping[str, wire.FieldKind] | None = None,
    backends: Sequence[str] | None = None,
    expansions: Mapping[wire.ExpansionMethod, str] | None = None,
    pipeline: str | None = None,
    new_generation: bool = False,
    build: str | None = None,
    owner: str | None = None,
) -> Steps[wire.CollectionBegun]:
    """Begins a generation to load, or continues the live one where the declaration is unchanged.

    `metadata`: the fields that filters may use. `build`: a name by which a load that was interrupted goes on.
    """
    if new_generation and build is None:
        build = secrets.token_hex(16)  # so that a repetition continues what it began
    repeated = BUSY if build is None else UNFINISHED
    body = _body(
        presets=presets,
        metadata=metadata,
        backends=backends,
        expansions=expansions,
        pipeline=pipeline,
        new_generation=new_generation,
        build=build,
        owner=owner,
    )
    return ask(wire.CollectionBegun.model_validate_json, "PUT", _of(collection), within_s, body, repeated=repeated)


def publish(
    within_s: float,
    collection: str,
    *,
    build: str | None = None,
    generation: str | None = None,
    expected_documents: int | None = None,
    fill: bool = False,
    progress: Callable[[wire.PublishJob], object] | None = None,
) -> Steps[wire.Published]:
    """Makes a generation live, and waits until it is. `progress` is called with what it waits for.

    `fill` first copies the documents of the live generation into the build.
    """
    body = _body(build=build, generation=generation, expected_documents=expected_documents, fill=fill or None)
    path, patience_s = f"{_of(collection)}/publish", max(within_s, PUBLISH_PATIENCE_S)
    while True:
        answer = yield from ask(
            _PUBLICATION.validate_json, "POST", path, patience_s, body, call_s=PUBLISH_CALL_S, repeated=UNFINISHED
        )
        if isinstance(answer, wire.Published):
            return answer
        if progress is not None:
            progress(answer)


def roll_back(within_s: float, collection: str) -> Steps[wire.Published | wire.PublishJob]:
    """Makes the previous generation live again. Returns a job where it goes on: `collection` shows its state."""
    # Not repeated after a 503: it would go back twice.
    path = f"{_of(collection)}/rollback"
    return ask(_PUBLICATION.validate_json, "POST", path, within_s, b"", repeated=BUSY[:1])


def discard(within_s: float, collection: str, *, build: str) -> Steps[None]:
    """Removes the generation of a build that is given up."""
    return ask(lambda _: None, "POST", f"{_of(collection)}/discard", within_s, _body(build=build))


def delete_collection(within_s: float, collection: str) -> Steps[None]:
    """Deletes a collection with all its generations."""
    return ask(lambda _: None, "DELETE", _of(collection), within_s, done=404)


def update_metadata(
    within_s: float,
    collection: str,
    changes: Mapping[str, Mapping[str, bool | int | float | str | Sequence[str] | None]],
    *,
    build: str | None = None,
) -> Steps[wire.FanOutReport]:
    """Sets metadata by document id, at most 256; None removes a field, and fields that are not named stay."""
    documents = [{"id": identity, "metadata": metadata} for identity, metadata in changes.items()]
    body = _body(documents=documents, build=build)
    return ask(wire.FanOutReport.model_validate_json, "POST", f"{documents_path(collection)}/metadata", within_s, body)


def delete_documents(
    within_s: float,
    collection: str,
    ids: Sequence[str] | None = None,
    *,
    filter: wire.Filter | None = None,
    build: str | None = None,
) -> Steps[wire.FanOutReport]:
    """Deletes documents by id, or up to 1,000 that pass a filter: again while `more` is true."""
    body = _body(ids=ids, filter=filter, build=build)
    return ask(wire.FanOutReport.model_validate_json, "POST", f"{documents_path(collection)}/delete", within_s, body)


def get_documents(within_s: float, collection: str, ids: Sequence[str]) -> Steps[wire.DocumentsAnswer]:
    """Returns documents by id, at most 1,000."""
    return ask(
        wire.DocumentsAnswer.model_validate_json, "POST", f"{documents_path(collection)}/get", within_s, _body(ids=ids)
    )


def get_document(within_s: float, collection: str, document_id: str) -> Steps[wire.Document]:
    """Returns one document."""
    path = f"{documents_path(collection)}/{_quoted(document_id)}"
    return ask(wire.Document.model_validate_json, "GET", path, within_s)


def documents_page(
    within_s: float, collection: str, after: str | None = None, *, most: int = 100, generation: str | None = None
) -> Steps[wire.DocumentsPage]:
    """Returns a page of all documents: those after the `following` of the page before.

    With the `generation` of that page, raises RetrievalError where the live one is another.
    """
    selection = urlencode({"most": most} | ({} if after is None else {"after": after}))
    path = f"{documents_path(collection)}?{selection}"
    page = yield from ask(wire.DocumentsPage.model_validate_json, "GET", path, within_s)
    if generation not in (None, page.generation):
        raise RetrievalError(
            "another-generation", f"{page.generation} took the place of {generation} meanwhile: read all pages again"
        )
    return page


def rerank(
    within_s: float, query: str, texts: Sequence[str], *, top: int | None = None
) -> Steps[list[tuple[int, float]]]:
    """Returns place and relevance (0 to 1) of the `top` texts or of all, best first; at most 1,000 texts."""
    # Cohere's and Jina's wire, and not /v1/score: that one is the gateway's, and a key for searching may not call it.
    if not texts:
        return []
    body = _body(query=query, documents=texts, top_n=top)
    ranking = yield from ask(_Ranking.model_validate_json, "POST", "/v1/rerank", within_s, body)
    return [(result.index, result.relevance_score) for result in ranking.results]


def as_json(document: SentDocument) -> bytes:
    """Returns a document as it is sent. Raises RetrievalError, `not-json`, naming one that JSON cannot hold."""
    if isinstance(document, BaseModel):
        return _json(f"document {getattr(document, 'id', None)!r}", document, exclude_none=True)
    return _json(f"document {document.get('id')!r}", document)


def documents_body(documents: Iterable[bytes], build: str | None) -> bytes:
    """Returns the body of documents that are JSON already."""
    named = b"" if build is None else b'"build":' + _json("the build", build) + b","
    return b"{" + named + b'"documents":[' + b",".join(documents) + b"]}"


def _body(**fields: object) -> bytes:
    """Returns the JSON of the fields that are given."""
    return _json("the request", {name: value for name, value in fields.items() if value is not None})


def _json(what: str, value: object, *, exclude_none: bool = False) -> bytes:
    try:
        sent = to_json(value, exclude_none=exclude_none)
        if b"NaN" in sent or b"Infinity" in sent:  # in a text, or a number that JSON does not have
            from_json(sent, allow_inf_nan=False)
    except ValueError as error:
        raise RetrievalError("not-json", f"{what} has a value that JSON cannot hold: {error}") from error
    return sent


def _of(collection: str) -> str:
    if "/" in collection:
        raise RetrievalError("bad-input", f"{collection!r} is no name of a collection: it has a slash")
    return f"/v1/collections/{_quoted(collection)}"


def documents_path(collection: str) -> str:
    """Returns the path of the documents of a collection."""
    return f"{_of(collection)}/documents"


def _quoted(part: str) -> str:
    if not part:
        raise RetrievalError("bad-input", "a name or an id is empty")
    try:
        # Dots too: an id of one or two would be a step in the path.
        return quote(part, safe="").replace(".", "%2E")
    except UnicodeEncodeError as error:
        raise RetrievalError("not-json", f"the name or id {part!r} cannot be sent: {error}") from error
