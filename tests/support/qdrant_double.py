"""Owns a test double of a Qdrant server: the routes that we use, over the client's in-process engine.

`python -m tests.support.qdrant_double PORT [VERSION]` serves it, to try DENSE_STORE=qdrant without a server. It stores
in memory and searches exactly. A test that passes on it must pass on a real server too (tests/integration).
"""

import json
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any
from uuid import UUID

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.encoders import jsonable_encoder
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from qdrant_client import AsyncQdrantClient, models

VERSION = "1.20.0"
# The routes of a collection that change points or their indexes.
CHANGES = (("PUT", "points"), ("POST", "points/delete"), ("POST", "points/payload"), ("PUT", "index"))
# Asked for as many hits or more, a server asks each of its shards for fewer.
SAMPLED_FROM, EVERY = 128, 100_000


def read_as_server(number: str) -> float:
    """Returns what a Qdrant server takes a number of a JSON body for: digits as a double, times a power of ten.

    That is how serde_json reads numbers without its feature `float_roundtrip`. Each of the two steps rounds, so numbers
    of 16 or 17 digits may lose the last bit: 2019.0000000000002 is 2019.
    """
    mantissa, _, exponent = number.lstrip("-").lower().partition("e")
    whole, _, decimals = mantissa.partition(".")
    # Digits beyond 64 bits are dropped; no client writes so many.
    digits, power = float(int(whole + decimals)), int(exponent or 0) - len(decimals)
    while power < -308:
        digits, power = digits / 1e308, power + 308
    read = digits * float(f"1e{power}") if power >= 0 else digits / float(f"1e{-power}")
    return -read if number.startswith("-") else read


class _ReadingRequest(Request):
    async def json(self) -> Any:
        return json.loads(await self.body(), parse_float=read_as_server)


class _ReadingRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            return await handler(_ReadingRequest(request.scope, request.receive))

        return handle


def qdrant_double(key: str | None = None, version: str = VERSION, read_key: str | None = None) -> FastAPI:
    """Builds the app; with a `key`, requests without it get 401. `read_key` opens what changes nothing; else it is 403.

    `app.state.keys` are both, by what they may do; tests may change them. `app.state.sent` collects the key of each
    request, by what the request does.
    `app.state.version` is the version that it reports; tests may change it. `app.state.timeouts` collects the timeouts
    of requests that change points, `app.state.searches` the parameters of searches, `app.state.created` the bodies that
    create collections, `app.state.counted` the collections whose points were counted. Of several shards, a search that
    is not exact misses hits as a server's does. `app.state.engine` holds what was stored. Numbers are read as a server
    reads them (`read_as_server`).
    """
    app = FastAPI()
    app.router.route_class = _ReadingRoute
    app.state.version = version
    app.state.timeouts = []
    app.state.searches = []
    app.state.counted = []
    app.state.created = []
    app.state.keys = {"write": key, "read": read_key}
    app.state.sent = {"write": set(), "read": set()}
    engine = app.state.engine = AsyncQdrantClient(location=":memory:")
    shards: dict[str, int] = {}  # of collections: the engine in this process has none

    @app.middleware("http")
    async def guarded(request: Request, call_next: Callable[[Request], Awaitable[Any]]) -> Any:
        if app.state.keys["write"] is not None:
            sent, does = request.headers.get("api-key"), "write" if _changes(request) else "read"
            app.state.sent[does].add(sent)
            if sent is None or sent not in app.state.keys.values():
                return JSONResponse({"status": {"error": "Must provide an API key"}, "time": 0.0}, 401)
            if does == "write" and sent == app.state.keys["read"]:
                return JSONResponse({"status": {"error": "Forbidden: Global access is required"}, "time": 0.0}, 403)
        if "timeout" in request.query_params and (request.method, request.url.path.split("/", 3)[-1]) in CHANGES:
            app.state.timeouts.append(request.query_params["timeout"])
        return await call_next(request)

    @app.exception_handler(ValueError)
    async def refused(_: Request, error: Exception) -> JSONResponse:
        status = 404 if "not found" in str(error) else 409 if "already exists" in str(error) else 400
        return JSONResponse({"status": {"error": str(error)}, "time": 0.0}, status)

    def result(value: object) -> JSONResponse:
        return JSONResponse({"result": jsonable_encoder(value, exclude_none=True), "status": "ok", "time": 0.0})

    @app.get("/")
    async def root() -> JSONResponse:
        return JSONResponse({"title": "double", "version": app.state.version})

    @app.get("/collections")
    async def collections() -> JSONResponse:
        return result(await engine.get_collections())

    @app.get("/aliases")
    async def aliases() -> JSONResponse:
        return result(await engine.get_aliases())

    @app.post("/collections/aliases")
    async def change_aliases(changes: models.ChangeAliasesOperation) -> JSONResponse:
        return result(await engine.update_collection_aliases(changes.actions))

    @app.get("/collections/{name}")
    async def collection(name: str) -> JSONResponse:
        info = await engine.get_collection(name)
        info.config.params.shard_number = shards.get(name, 1)
        return result(info)

    @app.get("/collections/{name}/exists")
    async def exists(name: str) -> JSONResponse:
        return result({"exists": await engine.collection_exists(name)})

    @app.put("/collections/{name}")
    async def create(name: str, wanted: models.CreateCollection) -> JSONResponse:
        app.state.created.append(wanted.model_dump(mode="json", exclude_unset=True, exclude={"metadata"}))
        answer = await engine.create_collection(
            name,
            vectors_config=wanted.vectors or {},
            sparse_vectors_config=wanted.sparse_vectors,
            metadata=wanted.metadata,
        )
        shards[name] = wanted.shard_number or 1
        return result(answer)

    @app.patch("/collections/{name}")
    async def change(name: str, wanted: models.UpdateCollection) -> JSONResponse:
        return result(await engine.update_collection(name, metadata=wanted.metadata))

    @app.delete("/collections/{name}")
    async def drop(name: str) -> JSONResponse:
        return result(await engine.delete_collection(name))

    @app.put("/collections/{name}/index")
    async def index(name: str, wanted: models.CreateFieldIndex) -> JSONResponse:
        return result(await engine.create_payload_index(name, wanted.field_name, wanted.field_schema))

    @app.put("/collections/{name}/points")
    async def upsert(name: str, wanted: models.PointsList) -> JSONResponse:
        return result(await engine.upsert(name, wanted.points, update_filter=wanted.update_filter))

    @app.post("/collections/{name}/points")
    async def retrieve(name: str, wanted: models.PointRequest) -> JSONResponse:
        payload, vectors = wanted.with_payload or False, wanted.with_vector or False
        return result(await engine.retrieve(name, wanted.ids, with_payload=payload, with_vectors=vectors))

    @app.post("/collections/{name}/points/scroll")
    async def scroll(name: str, wanted: models.ScrollRequest) -> JSONResponse:
        points, following = await engine.scroll(
            name, limit=wanted.limit or 10, offset=wanted.offset, with_payload=wanted.with_payload or False
        )
        return result({"points": points, "next_page_offset": following})

    @app.post("/collections/{name}/points/delete")
    async def delete(name: str, wanted: models.FilterSelector) -> JSONResponse:
        return result(await engine.delete(name, wanted))

    @app.post("/collections/{name}/points/payload")
    async def change_payload(name: str, wanted: models.SetPayload) -> JSONResponse:
        points = wanted.points or wanted.filter
        assert points is not None
        return result(await engine.set_payload(name, wanted.payload, points))

    @app.post("/collections/{name}/points/count")
    async def count(name: str, wanted: models.CountRequest) -> JSONResponse:
        app.state.counted.append(name)
        return result(await engine.count(name, count_filter=wanted.filter))

    @app.post("/collections/{name}/points/query")
    async def query(name: str, wanted: models.QueryRequest) -> JSONResponse:
        app.state.searches.append(wanted.params)
        limit, count = wanted.limit or 10, shards.get(name, 1)
        sampled = count > 1 and limit >= SAMPLED_FROM and not (wanted.params and wanted.params.exact)
        answer = await engine.query_points(
            name, wanted.query, using=wanted.using, prefetch=wanted.prefetch, query_filter=wanted.filter,
            limit=EVERY if sampled else limit, with_payload=wanted.with_payload or False,
        )  # fmt: skip
        if sampled:
            left = Counter(dict.fromkeys(range(count), min(limit, int(1.2 * limit / count + 3 * limit**0.5))))
            answer.points = [one for one in answer.points if _taken(left, UUID(str(one.id)).int % count)][:limit]
        return result(answer)

    return app


def _taken(left: Counter[int], shard: int) -> bool:
    """Whether a shard has hits left to give, counting this one."""
    left[shard] -= 1
    return left[shard] >= 0


def _changes(request: Request) -> bool:
    """Whether a request changes anything: Qdrant asks for rights to write then."""
    return request.method in ("PUT", "PATCH", "DELETE") or request.url.path.endswith(
        ("/points/delete", "/points/payload", "/collections/aliases")
    )


async def emptied(engine: AsyncQdrantClient) -> None:
    """Removes all collections: a new engine takes 20 ms, and the tests of the port need hundreds."""
    for one in (await engine.get_collections()).collections:
        await engine.delete_collection(one.name)


if __name__ == "__main__":
    uvicorn.run(
        qdrant_double(version=(*sys.argv, VERSION)[2]), host="127.0.0.1", port=int(sys.argv[1]), log_level="warning"
    )
