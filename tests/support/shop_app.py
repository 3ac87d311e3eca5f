"""Runs the walkthrough docs/apps/shop.py over a gateway with real services and 25 kettles."""

import runpy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from fastapi import FastAPI

from retrieval_client import AsyncClient
from tests.support.images import ROOT
from tests.support.real_stack import real_stack
from tests.support.served import on_a_port

KETTLES = [
    {
        "id": f"k{number:02}",
        "title": f"Kettle <{number}>",
        "text": "A kettle & <script>alert(1)</script> a cord.",
        "metadata": {
            "colour": "red" if number < 5 else "blue" if number < 24 else "",
            "year": 2000 + number,
            "use": ["tea", "soup"],
        },
    }
    for number in range(25)
]
SETTINGS = {"COLLECTION": "shop", "FACETS": "colour"}


@asynccontextmanager
async def opened_shop(directory: Path, pipeline: str = "bm25") -> AsyncIterator[FastAPI]:
    """Yields the app, as the file makes it."""
    async with real_stack(directory) as stack, on_a_port(stack.gateway) as gateway, AsyncClient(gateway) as loader:
        begun = await loader.begin(
            "shop", metadata={"colour": "keyword", "year": "number", "use": "keyword"}, build="b"
        )
        await loader.load("shop", KETTLES, build=begun.build)
        await loader.publish("shop", build=begun.build)
        with pytest.MonkeyPatch.context() as environment:
            for name, value in (SETTINGS | {"GATEWAY_URL": gateway, "PIPELINE": pipeline}).items():
                environment.setenv(name, value)
            shop = runpy.run_path(str(ROOT / "docs" / "apps" / "shop.py"))
        yield shop["app"]
