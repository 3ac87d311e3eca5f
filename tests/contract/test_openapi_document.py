"""What the OpenAPI document of every service promises, held against what the service answers."""

import json
import re
import tomllib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from jsonschema import Draft202012Validator
from starlette.routing import Route

from services.contracts.documents import IdsRequest, SentDocument
from services.contracts.query import SearchRequest
from services.contracts.version import VERSION
from tests.support.keys import TOKEN, Keys, bearing
from tests.support.real_stack import RealStack, real_stack
from tests.support.route_keys import SERVICES, routes_of, service_app

ROOT = Path(__file__).parents[2]
PROBES = {"/livez", "/readyz", "/metrics"}
HYBRID = """
name: hybrid
stages: [{kind: fuse, inputs: [{kind: retrieve, backend: lexical}, {kind: retrieve, backend: dense}]}]
"""
Part = dict[str, Any]


def resolved(document: Part, part: Part) -> Part:
    """Returns what a part refers to, or the part itself."""
    found: Any = part
    while "$ref" in found:
        reference, found = found["$ref"], document
        assert reference.startswith("#/")
        for name in reference[2:].split("/"):
            found = found[name]
    return dict(found)


def undeclared(document: Part, operation: Part, answer: httpx.Response) -> str | None:
    """Returns what the document does not say of an answer: its status, its type, or a fault of its body."""
    code = str(answer.status_code)
    declared = operation["responses"].get(code) or operation["responses"].get(f"{code[0]}XX")
    if declared is None:
        return f"{code}: {answer.text}"
    content = resolved(document, declared).get("content", {})
    media = answer.headers.get("content-type", "").partition(";")[0]
    if not content or media not in content:
        return f"{code} of {media!r}" if content or answer.content else None
    if not media.endswith("json"):
        return None
    validator = Draft202012Validator({**content[media].get("schema", {}), "components": document["components"]})
    return next((str(fault) for fault in validator.iter_errors(answer.json())), None)


def references(document: Part) -> Iterator[str]:
    """Yields every reference in a document."""
    return iter(re.findall(r'"\$ref": "([^"]+)"', json.dumps(document)))


@pytest.fixture(params=SERVICES)
async def app(request: pytest.FixtureRequest, keys: Keys) -> AsyncIterator[FastAPI]:
    built = service_app(request.param, keys.file.parent, keys)
    async with built.router.lifespan_context(built):
        yield built


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[RealStack]:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "hybrid.yaml").write_text(HYBRID)
    async with real_stack(tmp_path) as opened:
        yield opened


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    return ((path, method, one) for path, of in document["paths"].items() for method, one in of.items())


def headers_of(document: dict[str, Any], operation: dict[str, Any]) -> set[str]:
    parameters = [resolved(document, one) for one in operation.get("parameters", ())]
    return {one["name"] for one in parameters if one["in"] == "header"}


async def test_every_reference_of_the_document_leads_to_a_schema(app: FastAPI) -> None:
    document = app.openapi()
    for reference in references(document):
        resolved(document, {"$ref": reference})
    for schema in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


async def test_an_operation_has_the_name_of_its_function_and_the_key_that_it_needs(app: FastAPI) -> None:
    document = app.openapi()
    names = {route.path_format: route for route in app.routes if isinstance(route, Route)}
    assert document["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
    for method, path, scope in routes_of(app):
        operation = document["paths"].get(path, {}).get(method.lower())
        if operation is None:
            continue
        assert operation["operationId"].isidentifier()
        if len(document["paths"][path]) == 1:
            assert operation["operationId"] == names[path].name
        assert ("security" in operation) == (scope != "open")
        said = {"open": "", "internal": "Internal: takes no key."}.get(scope, f"Needs the scope {scope}.")
        assert operation["description"].endswith(said)


async def test_where_callers_need_no_key_the_document_says_that_it_may_be_left_out(stack: RealStack) -> None:
    document = (await stack.client.get("/openapi.json")).json()
    assert {} in document["paths"]["/v1/pipelines"]["get"]["security"]


async def test_the_headers_that_count_are_parameters_and_a_wait_is_a_header_of_the_answer(stack: RealStack) -> None:
    document = (await stack.client.get("/openapi.json")).json()
    for path, method, operation in operations(document):
        shared = set() if path in PROBES else {"X-Deadline-Ms", "X-Request-Id"}
        of_a_search = {"Cache-Control", "X-Unit-Id"} if path.endswith("/search") else set()
        assert headers_of(document, operation) == shared | of_a_search
        for status in ("429", "503"):
            declared = resolved(document, operation["responses"][status])
            assert ("Retry-After" in declared.get("headers", ())) != ((path, status) == ("/readyz", "503")), method


async def test_every_refusal_is_declared_with_its_body(app: FastAPI, keys: Keys) -> None:
    document, seen = app.openapi(), set()
    json = {"content-type": "application/json"}
    sent: tuple[tuple[dict[str, str], str | bytes], ...] = (
        ({}, ""),
        (json, ""),
        (json, "{"),
        (json, "[]"),
        (json, '{"no": "such field"}'),
        (json, b" " * 40_000_000),
        (json | {"x-deadline-ms": "never"}, "{}"),
        (json | {"host": "elsewhere.example"}, "{}"),
        ({"content-type": "text/plain"}, "{}"),
    )
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://stack") as http:
        for path, method, operation in operations(document):
            for secret in (None, keys.secrets["expired"], keys.secrets["search"], TOKEN):
                for headers, body in sent:
                    url = path.replace("{", "").replace("}", "")
                    answer = await http.request(method, url, headers=bearing(secret) | headers, content=body)
                    assert undeclared(document, operation, answer) is None, (method, path, answer.text)
                    seen.add(answer.status_code)
    assert seen >= {200, 400, 401, 413, 415, 421}


# Every operation of the gateway, each as a caller would, after those before it.
IN_TURN = (
    *("livez", "readyz", "metrics", "list_pipelines", "get_pipeline", "reload_pipelines"),
    *("begin_collection", "discard", "begin_collection", "index_documents", "publish", "list_collections"),
    *("get_collection", "search", "list_documents", "get_documents", "get_document", "update_metadata"),
    *("record_events", "roll_back", "delete_document", "delete_documents", "delete_collection"),
)


async def test_the_examples_of_the_document_can_be_sent_and_are_answered_as_it_says(stack: RealStack) -> None:
    document = (await stack.client.get("/openapi.json")).json()
    named = {operation["operationId"]: (path, method, operation) for path, method, operation in operations(document)}
    assert set(IN_TURN) == set(named)
    hits = []
    for name in IN_TURN:
        path, method, operation = named[name]
        for parameter in operation.get("parameters", ()):
            if parameter["in"] == "path":
                path = path.replace(f"{{{parameter['name']}}}", parameter["schema"]["examples"][0])
        content = operation.get("requestBody", {}).get("content", {}).get("application/json")
        schema = content and content["schema"]
        [example] = [None] if not schema else _examples(document, schema)
        answer = await stack.client.request(method, path, json=example)
        assert undeclared(document, operation, answer) is None, name
        expected = {"roll_back": 409, "record_events": 422}.get(name)
        assert answer.is_success or answer.status_code == expected, answer.text
        hits += [hit["id"] for hit in answer.json()["hits"]] if name == "search" else []
    assert hits == ["kettle"]


def _examples(document: dict[str, Any], schema: dict[str, Any]) -> list[Any]:
    choices = [resolved(document, one) for one in schema.get("anyOf", [schema])]
    return [example for one in choices for example in one.get("examples", ())]


def test_the_schema_refuses_control_characters_as_the_gateway_does() -> None:
    search, ids = (Draft202012Validator(model.model_json_schema()) for model in (SearchRequest, IdsRequest))
    for text, good in (("a\tb\nc\r", True), ("日本", True), ("\x7f", False), ("a\x00", False), ("\x1f", False)):
        assert search.is_valid({"query": text}) == ids.is_valid({"ids": [text]}) == good


def test_the_schema_refuses_a_document_without_title_and_text_as_the_gateway_does() -> None:
    document = Draft202012Validator(SentDocument.model_json_schema())
    assert document.is_valid({"id": "a", "title": "t"})
    assert document.is_valid({"id": "a", "text": ""})
    assert not document.is_valid({"id": "a"})


def test_the_version_is_that_of_the_project() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"] == VERSION
