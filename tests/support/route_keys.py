"""Asks every route of every service with every state of a key. Run as a module, it writes docs/route-keys.md."""

import asyncio
import re
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import httpx
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.routing import Route

from evaluator.service.app import build_app as evaluator
from evaluator.settings import EvaluatorSettings
from gateway.app import build_app as gateway
from gateway.settings import GatewaySettings
from services.chassis.requests.handling import DEFAULT_HANDLING, declared_handling
from services.dense.app import build_app as dense
from services.dense.settings import DenseSettings
from services.keys.key import KeyScope
from services.late_interaction.app import build_app as late_interaction
from services.late_interaction.settings import LateInteractionSettings
from services.lexical.app import build_app as lexical
from services.lexical.settings import LexicalSettings
from services.reranker.app import build_app as reranker
from services.reranker.settings import RerankerSettings
from services.sparse.app import build_app as sparse
from services.sparse.settings import SparseSettings
from tests.support.keys import TOKEN, Keys, bearing, made_keys
from tests.support.opened_client import opened_client

SERVICES = ("gateway", "lexical", "dense", "sparse", "late_interaction", "reranker", "evaluator")
PAGE = Path(__file__).parents[2] / "docs" / "route-keys.md"
STATES = ("no key", "wrong", "expired", "revoked", "wrong scope", "right")
# One key less than the scope that a route needs: of all others.
OTHERS: Mapping[str, tuple[KeyScope, ...]] = {
    "search": ("index", "admin", "events"),
    "index": ("search", "admin", "events"),
    "admin": ("search", "index", "events"),
    "events": ("search", "index", "admin"),
}
NOT_OURS = "rsk_0123456789ab_" + "0" * 48
SERVED = "served"

HEAD = """# Routes and keys

What each route answers to a caller, where callers need a key ([how to make one](../gateway/README.md#keys)). Measured
by `tests/contract/test_route_keys.py`, which reads the routes off each service's OpenAPI document and the pages off its
router, so that a new route cannot be missing here.

`served`: the caller passes, whatever the route then answers. `401 Basic`: a browser asks its user for a key. `internal`
routes take the token of our own processes (`STACK_TOKEN`) and no key; the wrong scope is a key with all scopes. The
lexical service knows the token alone: to it, every key is a wrong one. Each vendor's routes say the same in its own
shape.
"""


async def measured_page() -> str:
    """Returns the page, as the services answer now."""
    lines = [HEAD]
    with tempfile.TemporaryDirectory() as directory:
        keys = made_keys(Path(directory))
        for others in OTHERS.values():
            # Before any service reads the file: one that it does not know yet would be a wrong key.
            keys.add("+".join(others), *others)
        for name in SERVICES:
            app = service_app(name, Path(directory), keys)
            lines += [
                f"## {name.capitalize().replace('_', ' ')}\n",
                f"| route | scope | {' | '.join(STATES)} |",
                f"|---|---|{'---|' * len(STATES)}",
                *[row async for row in _rows(name, app, keys)],
                "",
            ]
    return "\n".join(lines)


def service_app(name: str, directory: Path, keys: Keys) -> FastAPI:
    """Returns the app of a service, which knows these keys."""
    both = {"STACK_TOKEN": TOKEN, "keys_file": keys.file}
    encodes = both | {"directory": directory / name, "encoder": "hashing"}
    match name:
        case "gateway":
            return gateway(GatewaySettings.model_validate(both))
        case "lexical":
            return lexical(LexicalSettings.model_validate({"STACK_TOKEN": TOKEN, "directory": directory / name}))
        case "dense":
            return dense(DenseSettings.model_validate(encodes))
        case "sparse":
            return sparse(SparseSettings.model_validate(encodes))
        case "late_interaction":
            return late_interaction(LateInteractionSettings.model_validate(encodes))
        case "reranker":
            return reranker(RerankerSettings.model_validate(both | {"scorer": "overlap"}))
        case "evaluator":
            return evaluator(EvaluatorSettings.model_validate(both | {"runs": directory / "runs"}))
        case _:
            raise ValueError(f"no service: {name}")


async def _rows(name: str, app: FastAPI, keys: Keys) -> AsyncIterator[str]:
    async with opened_client(app, raises=False) as http:
        routes = list(routes_of(app))
        documented = {(method.upper(), path) for path, of in app.openapi()["paths"].items() for method in of}
        assert documented == {(method, path) for method, path, _ in routes[: len(documented)]}
        for method, path, scope in routes:
            answers = [
                await _answer(http, method, path, secret)
                for secret in _secrets(keys, scope, knows_keys=name != "lexical")
            ]
            yield f"| `{method} {path}` | {scope} | {' | '.join(answers)} |"


def routes_of(app: FastAPI) -> Iterator[tuple[str, str, str]]:
    """Returns method, path and scope of every route: those of the OpenAPI document, and those that it leaves out."""
    declared, documented = {}, set()
    for route in app.router.routes:
        assert isinstance(route, Route), f"{route}: say here how it is asked"
        # FastAPI's own routes, as /openapi.json, declare nothing.
        handling = declared_handling(route) if isinstance(route, APIRoute) else DEFAULT_HANDLING
        for method in set(route.methods or ()) - {"HEAD"}:
            declared[method, route.path_format] = handling.scope or ""
            if route.include_in_schema:
                documented.add((method, route.path_format))
    order = sorted(declared, key=lambda one: (one not in documented, one[1], one[0]))
    return ((method, path, declared[method, path]) for method, path in order)


def _secrets(keys: Keys, scope: str, *, knows_keys: bool) -> Iterator[str | None]:
    yield None
    yield NOT_OURS
    yield keys.secrets["expired"]
    yield keys.secrets["revoked"]
    if scope == "internal" or not knows_keys:
        yield keys.secrets["all"]
        yield TOKEN
        return
    others = OTHERS.get(scope)
    yield keys.secrets["+".join(others or ("search",))]
    yield keys.secrets[scope if others is not None else "search"]


async def _answer(http: httpx.AsyncClient, method: str, path: str, secret: str | None) -> str:
    headers = bearing(secret) | {"content-type": "application/json", "x-deadline-ms": "2000"}
    answer = await http.request(method, re.sub(r"\{[^}]*\}", "x", path), headers=headers)
    challenge = answer.headers.get("www-authenticate")
    return SERVED if challenge is None else f"{answer.status_code}{' Basic' * challenge.startswith('Basic')}"


if __name__ == "__main__":
    PAGE.write_text(asyncio.run(measured_page()), encoding="utf-8")
