"""The client package repeats the wire in models of its own: here both are compared, field by field."""

import importlib
import inspect
import json
import pkgutil
import re
from collections.abc import Mapping
from typing import Any, get_args, get_type_hints

import pytest
from pydantic import BaseModel, ValidationError

import services.contracts
from gateway.app import build_app
from gateway.settings import GatewaySettings
from retrieval_client import calls
from retrieval_client import documents as sent_documents
from retrieval_client.adapters import SCORE, TITLE
from retrieval_client.answers import Boosts, ExpansionMethod, FieldKind, LexicalPreset
from retrieval_client.clients import AsyncClient, Client
from retrieval_client.exchange import MOST_CALL_S, Request
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
from services.contracts.collections import FieldKind as KindOnWire
from services.contracts.documents import Document, IdsRequest
from services.contracts.expansions import ExpansionMethod as MethodOnWire
from services.contracts.filters import Condition, Filter
from services.contracts.matches import Facet, Range
from services.contracts.query import SearchRequest
from services.contracts.retrieval import Sort

Schema = Any
# What the client leaves to the gateway: bounds and patterns of values, choices of words, texts of the schema.
LEFT_TO_THE_GATEWAY = {
    "title",
    "description",
    "default",
    "pattern",
    "enum",
    "additionalProperties",
    "patternProperties",
    "propertyNames",
    *("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
}


def wire_models() -> dict[str, type[Wire]]:
    for module in pkgutil.iter_modules(services.contracts.__path__):
        importlib.import_module(f"services.contracts.{module.name}")
    found = [Wire]
    for model in found:
        found.extend(model.__subclasses__())
    return {model.__name__: model for model in found}


WIRE = wire_models()
OURS = {model.__name__: model for model in sent_documents.Answer.__subclasses__()} | {
    "DocumentWithVectors": sent_documents.DocumentWithVectors
}


def plain(schema: Schema) -> Schema:
    """Without what is left to the gateway; the values of objects with free keys are compared, keys are not."""
    if isinstance(schema, list):
        return sorted({json.dumps(plain(one), sort_keys=True) for one in schema})
    if not isinstance(schema, dict):
        return schema
    if set(schema) == {"$ref"}:
        return schema["$ref"].rpartition("/")[2].replace("_HitOnWire", "Candidate")
    kept = {
        key.replace("oneOf", "anyOf"): plain(value) for key, value in schema.items() if key not in LEFT_TO_THE_GATEWAY
    }
    free = (schema.get("additionalProperties"), *schema.get("patternProperties", {}).values())
    if values := [one for one in free if isinstance(one, dict)]:
        kept["values"] = plain(values)
    if "properties" in schema:
        kept["properties"] = {name: plain(field) for name, field in schema["properties"].items()}
    # A choice between a word of some and any text is one of texts.
    return json.loads(kept["anyOf"][0]) if len(kept.get("anyOf", ())) == 1 else kept


def shape(model: type[BaseModel]) -> Schema:
    """The fields of one model; those that it refers to are compared on their own."""
    schema = model.model_json_schema(mode="validation")
    schema = schema["$defs"][model.__name__] if "$ref" in schema else schema
    return {name: plain(field) for name, field in schema["properties"].items()}, set(schema.get("required", ()))


@pytest.mark.parametrize("name", sorted(OURS.keys() - {"Candidate"}))
def test_a_model_of_the_client_has_the_fields_of_the_wire(name: str) -> None:
    ours, wire = shape(OURS[name]), shape(WIRE[name])
    if name == "PipelineView":
        assert ours[0].pop("pipeline")["type"] == "object"
        assert wire[0].pop("pipeline") == "Pipeline"
    assert ours == wire


FILTER: sent_documents.Filter = {
    "all": [
        {"field": "year", "op": "gte", "value": 2019},
        {"not": {"any": [{"field": "kind", "op": "in", "value": ["a", "b"]}, {"field": "kind", "op": "exists"}]}},
    ]
}
FACETS: list[sent_documents.Facet] = [
    {"field": "kind", "top": 3},
    {"field": "year", "ranges": [{"from": 2000, "to": 2010.5}, {"to": "2024-05-31"}]},
]
SORT: sent_documents.Sort = {"field": "year", "order": "desc"}
DOCUMENT = {"id": "a", "title": "t", "text": "x", "metadata": {"year": 2020}}
PRESET = LexicalPreset(name="mine", match="most_fields", k1=0.9, b=0.4, language="german", boosts=Boosts(title=2.0))
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
            "include": ["title", "text", "metadata"],
            "highlight": 2,
            "facets": FACETS,
            "total": True,
            "explain": "candidates",
        },
        (SearchRequest,),
    ),
    (calls.search, {"sort": SORT}, (SearchRequest,)),
    (
        calls.begin,
        {
            "presets": ["beir", PRESET],
            "metadata": {"year": "number"},
            "backends": ["lexical"],
            "expansions": {"deepct": "model@0123456789ab"},
            "new_generation": True,
            "build": "b",
            "owner": "0123456789ab",
        },
        (BeginCollection,),
    ),
    (
        calls.publish,
        {"build": "b", "generation": "c@1", "expected_documents": 3, "fill": True},
        (PublishRequest,),
    ),
    (calls.discard, {"build": "b"}, (DiscardRequest,)),
    (calls.index, {"documents": [DOCUMENT], "build": "b"}, (DocumentsRequest,)),
    (calls.update_metadata, {"changes": {"a": {"year": None}}, "build": "b"}, (MetadataRequest,)),
    (calls.delete_documents, {"ids": ["a"], "build": "b"}, (DeleteRequest,)),
    (calls.delete_documents, {"filter": FILTER}, (DeleteRequest,)),
    (calls.get_documents, {"ids": ["a"]}, (IdsRequest,)),
    (calls.documents_page, {"after": "a", "most": 2, "vectors": True, "generation": "shop@1"}, ()),
    (calls.get_document, {"document_id": "a/../.b?"}, ()),
    (calls.delete_document, {"document_id": ".."}, ()),
    (calls.collection, {}, ()),
    (calls.delete_collection, {}, ()),
    (calls.roll_back, {}, ()),
)
ALONE: tuple[tuple[Any, Mapping[str, Any], tuple[type[Wire], ...]], ...] = (
    (calls.collections, {}, ()),
    (calls.pipelines, {}, ()),
    (calls.pipeline, {"name": "bm25"}, ()),
    (calls.reload_pipelines, {}, ()),
)


def requested() -> list[tuple[Request, tuple[type[Wire], ...], str]]:
    """What each call sends first."""
    of_a_collection = [(call(10.0, "c", **given), body, call.__name__) for call, given, body in SENT]
    others = [(call(10.0, **given), body, call.__name__) for call, given, body in ALONE]
    return [(next(steps), body, name) for steps, body, name in (*of_a_collection, *others)]


def test_every_field_of_a_request_can_be_sent_and_is_what_the_wire_expects() -> None:
    sent: dict[type[Wire], set[str]] = {}
    for request, expected, _ in requested():
        for model in expected:
            assert request.body is not None
            sent.setdefault(model, set()).update(model.model_validate_json(request.body).model_fields_set)
    assert sent == {model: set(model.model_fields) for model in sent}
    assert set(get_type_hints(sent_documents.Condition)) == set(Condition.model_fields)
    assert set(sent_documents.Filter.__annotations__) == {field.rstrip("_") for field in Filter.model_fields}
    assert (get_args(FieldKind), get_args(ExpansionMethod)) == (get_args(KindOnWire), get_args(MethodOnWire))
    assert set(get_type_hints(sent_documents.Sort)) == set(Sort.model_fields)
    assert set(get_type_hints(sent_documents.Facet)) == set(Facet.model_fields)
    assert set(sent_documents.Range.__annotations__) == {field.rstrip("_") for field in Range.model_fields}
    assert get_args(get_type_hints(sent_documents.Condition)["op"]) == get_args(Condition.model_fields["op"].annotation)


async def test_every_route_of_the_gateway_has_a_call_whose_answers_the_client_knows() -> None:
    app = build_app(GatewaySettings())
    async with app.router.lifespan_context(app):
        paths = {path: methods for path, methods in app.openapi()["paths"].items() if path.startswith("/v1/")}
    routes = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    reached = set()
    for request, _, _ in requested():
        path = request.path.partition("?")[0]
        [template, *_] = sorted(
            (one for one in paths if re.fullmatch(re.sub(r"\{[^}]+\}", "[^/]+", one), path)),
            key=lambda one: one.count("{"),
        )
        reached.add((request.method, template))
    assert reached == routes
    answers = {
        name
        for methods in paths.values()
        for method in methods.values()
        for status, answer in method["responses"].items()
        if status.startswith("2")
        for name in re.findall(r"#/components/schemas/(\w+)", json.dumps(answer))
    }
    assert {name.removesuffix("-Output") for name in answers} <= set(OURS)


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
