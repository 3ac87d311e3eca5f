"""The client package's models are current, its calls send all that the wire has and reach every route."""

import inspect
import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from gateway.app import build_app
from gateway.settings import GatewaySettings
from retrieval_client import answers, calls
from retrieval_client.adapters import SCORE, TITLE
from retrieval_client.answers import Boosts, LexicalPreset
from retrieval_client.clients import AsyncClient, Client
from retrieval_client.exchange import MOST_CALL_S, Request
from retrieval_client.loading import Loading
from services.chassis.deadlines import MOST_MS
from services.contracts.base import Wire
from services.contracts.collections import (
    BeginCollection,
    DeleteRequest,
    DiscardRequest,
    DocumentsRequest,
    MetadataRequest,
    PublishRequest,
)
from services.contracts.documents import Document, IdsRequest
from services.contracts.online import EventsRequest
from services.contracts.query import SearchRequest
from workshop.client_wire import GENERATED, generated_models


def test_the_models_of_the_wire_are_generated_from_the_contracts() -> None:
    assert GENERATED.read_text(encoding="utf-8") == generated_models(), "run .venv/bin/python -m workshop.client_wire"


FILTER: answers.Filter = {
    "all": [
        {"field": "year", "op": "gte", "value": 2019},
        {"not": {"any": [{"field": "kind", "op": "in", "value": ["a", "b"]}, {"field": "kind", "op": "exists"}]}},
    ]
}
FACETS: list[answers.Facet] = [
    {"field": "kind", "top": 3},
    {"field": "year", "ranges": [{"from": 2000, "to": 2010.5}, {"to": "2024-05-31"}]},
]
SORT: answers.Sort = {"field": "year", "order": "desc"}
DOCUMENT = {"id": "a", "title": "t", "text": "x", "metadata": {"year": 2020}}
PRESET = LexicalPreset(name="mine", match="most_fields", k1=0.9, b=0.4, language="german", boosts=Boosts(title=2.0))
EVENT = {"query_id": "q", "client_id": "u", "action_name": "click", "event_id": "e", "object_id": "a", "position": 1}
# Every call with all its arguments, and the models of its body.
SENT: tuple[tuple[Any, Mapping[str, Any], tuple[type[Wire], ...]], ...] = (
    (
        calls.search,
        {
            "query": "tea",
            "pipeline": {"name": "mine", "stages": [{"kind": "retrieve", "backend": "lexical"}]},
            "top": 5,
            "offset": 5,
            "filter": FILTER,
            "exclude_ids": ["a"],
            "sort": SORT,
            "min_score": 0.5,
            "include": ["title", "text", "metadata"],
            "highlight": 2,
            "facets": FACETS,
            "total": True,
        },
        (SearchRequest,),
    ),
    (
        calls.begin,
        {
            "presets": ["beir", PRESET],
            "metadata": {"year": "number"},
            "backends": ["lexical"],
            "expansions": {"deepct": "model@0123456789ab"},
            "new_generation": True,
            "pipeline": "hybrid",
            "build": "b",
            "owner": "0123456789ab",
        },
        (BeginCollection,),
    ),
    (calls.publish, {"build": "b", "generation": "c@1", "expected_documents": 3, "fill": True}, (PublishRequest,)),
    (calls.discard, {"build": "b"}, (DiscardRequest,)),
    (calls.update_metadata, {"changes": {"a": {"year": None}}, "build": "b"}, (MetadataRequest,)),
    (calls.delete_documents, {"ids": ["a"], "build": "b"}, (DeleteRequest,)),
    (calls.delete_documents, {"filter": FILTER}, (DeleteRequest,)),
    (calls.get_documents, {"ids": ["a"]}, (IdsRequest,)),
    (calls.documents_page, {"after": "a", "most": 2, "generation": "shop@1"}, ()),
    (calls.get_document, {"document_id": "a/../.b?"}, ()),
    (calls.collection, {}, ()),
    (calls.delete_collection, {}, ()),
    (calls.roll_back, {}, ()),
)
ALONE: tuple[tuple[Any, Mapping[str, Any], tuple[type[Wire], ...]], ...] = (
    (calls.collections, {}, ()),
    (calls.pipelines, {}, ()),
    (calls.send_events, {"events": [EVENT]}, (EventsRequest,)),
)
# What an application needs no call for: HTTP, the gateway's own commands and another call do it.
NOT_CALLED = {
    ("DELETE", "/v1/collections/{collection}/documents/{document_id}"),
    ("GET", "/v1/pipelines/{name}"),
    ("POST", "/v1/pipelines/reload"),
}
NOT_READ = {
    *("PipelineChanges", "DocumentWithVectors", "DocumentVector", "Match", "StagePlace", "StageCandidates"),
    *("Expansions", "GeneratedQueries", "WordFrequencies"),
}


def requested() -> list[tuple[Request, tuple[type[Wire], ...], str]]:
    """What each call sends first."""
    of_a_collection = [(call(10.0, "c", **given), body, call.__name__) for call, given, body in SENT]
    others = [(call(10.0, **given), body, call.__name__) for call, given, body in ALONE]
    return [(next(steps), body, name) for steps, body, name in (*of_a_collection, *others)]


def loaded() -> tuple[Request, tuple[type[Wire], ...], str]:
    """What a load sends first."""
    return next(Loading("c", "b", None).send([calls.as_json(DOCUMENT)])), (DocumentsRequest,), "load"


def test_every_field_of_a_request_can_be_sent_and_is_what_the_wire_expects() -> None:
    sent: dict[type[Wire], set[str]] = {}
    for request, expected, _ in (*requested(), loaded()):
        for model in expected:
            assert request.body is not None
            sent.setdefault(model, set()).update(model.model_validate_json(request.body).model_fields_set)
    assert sent == {model: set(model.model_fields) - {"explain"} for model in sent}


async def test_every_route_of_the_gateway_has_a_call_whose_answers_the_client_knows() -> None:
    app = build_app(GatewaySettings())
    async with app.router.lifespan_context(app):
        paths = {path: methods for path, methods in app.openapi()["paths"].items() if path.startswith("/v1/")}
    routes = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    reached = set()
    for request, _, _ in (*requested(), loaded()):
        path = request.path.partition("?")[0]
        [template, *_] = sorted(
            (route for route in paths if re.fullmatch(re.sub(r"\{[^}]+\}", "[^/]+", route), path)),
            key=lambda route: route.count("{"),
        )
        reached.add((request.method, template))
    assert reached == routes - NOT_CALLED
    answered = {
        name
        for methods in paths.values()
        for method in methods.values()
        for status, answer in method["responses"].items()
        if status.startswith("2")
        for name in re.findall(r"#/components/schemas/(\w+)", json.dumps(answer))
    }
    assert {name.removesuffix("-Output") for name in answered} - NOT_READ <= {
        name for name, model in vars(answers).items() if isinstance(model, type)
    }


def test_both_clients_have_every_call_with_its_own_arguments() -> None:
    clients = Client("http://127.0.0.1"), AsyncClient("http://127.0.0.1")
    for _, _, name in requested():
        wanted = list(inspect.signature(getattr(calls, name)).parameters)[1:]
        for client in clients:
            assert list(inspect.signature(getattr(client, name)).parameters) == wanted


def test_no_metadata_can_have_the_name_of_a_hits_field() -> None:
    for name in (TITLE, SCORE):
        with pytest.raises(ValidationError):
            Document(id="a", metadata={name: "x"})


def test_no_call_has_a_longer_deadline_than_the_wire_allows() -> None:
    assert MOST_CALL_S * 1000 == MOST_MS
    steps = calls.collections(900.0)
    assert next(steps).timeout_s * 1000 <= MOST_MS
