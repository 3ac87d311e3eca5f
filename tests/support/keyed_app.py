"""A small app of the chassis with keys: a page, a form, a search and a removal."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import httpx
from fastapi import APIRouter, FastAPI, Response

from services.chassis.app import create_app, router
from services.chassis.instruments import Instruments
from services.chassis.probes import Readiness
from services.chassis.requests.handling import handled
from services.chassis.settings.service_settings import KeyedSettings
from services.contracts.health import Check
from tests.support.keys import TOKEN, Keys, bearing
from tests.support.opened_client import opened_client

PAGE = "/v1/collections/{collection}"


def small_app(settings: KeyedSettings, go_on: asyncio.Event | None = None) -> FastAPI:
    """Builds the app. Its searches wait for `go_on`, if there is one."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[tuple[Sequence[APIRouter], Readiness]]:
        routes = router()

        @routes.get("/page", include_in_schema=False)
        @handled(scope="search", page=True)
        async def page() -> Response:
            return Response("<h1>A page</h1>", media_type="text/html")

        @routes.get("/style.css", include_in_schema=False)
        @handled(scope="open")
        async def style() -> Response:
            return Response("", media_type="text/css")

        @routes.post("/form", include_in_schema=False)
        @handled(scope="index", form=True, page=True)
        async def form() -> Response:
            return Response("taken")

        @routes.post(f"{PAGE}/search")
        @handled(scope="search")
        async def search(collection: str) -> str:
            if go_on is not None:
                await go_on.wait()
            return collection

        @routes.delete(PAGE)
        @handled(scope="admin")
        async def remove(collection: str) -> str:
            return collection

        async def ready() -> tuple[Check, ...]:
            return ()

        yield (routes,), ready

    return create_app("small", settings, Instruments(), opened)


def connected(app: FastAPI) -> AbstractAsyncContextManager[httpx.AsyncClient]:
    """Opens an app and yields a client of it."""
    return opened_client(app, "http://small", raises=False)


def keyed_settings(keys: Keys | None = None, **more: object) -> KeyedSettings:
    """Returns settings with these keys and TOKEN, or without both."""
    values = {"port": 0, **({} if keys is None else {"keys_file": keys.file, "STACK_TOKEN": TOKEN}), **more}
    return KeyedSettings.model_validate(values)


async def search(client: httpx.AsyncClient, secret: str | None, collection: str = "c") -> httpx.Response:
    """Searches with a secret."""
    return await client.post(f"/v1/collections/{collection}/search", json={}, headers=bearing(secret))
