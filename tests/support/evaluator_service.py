"""Owns the evaluator's HTTP service in front of a stub of the gateway, in one process."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from evaluator.service.app import build_app
from evaluator.settings import EvaluatorSettings
from tests.support.gateway_stub import GatewayStub
from tests.support.opened_client import opened_client


@asynccontextmanager
async def evaluator(
    stub: GatewayStub, runs: Path, datasets: Sequence[Path] | None = None
) -> AsyncIterator[httpx.AsyncClient]:
    """Yields a client of the service, which keeps cookies as a browser does.

    It serves our own collections and what lies beside the folder of runs, unless `datasets` says otherwise.
    """
    gateway = stub.app
    served = (runs.parent, Path("evaluator/collections")) if datasets is None else tuple(datasets)
    settings = EvaluatorSettings(runs=runs, gateway_url="http://gateway", datasets=served)
    app = build_app(settings, httpx.ASGITransport(app=gateway))
    async with gateway.router.lifespan_context(gateway), opened_client(app, "http://evaluator") as client:
        yield client


async def ended(client: httpx.AsyncClient, run: str) -> dict[str, str]:
    """Waits until a run has ended; returns its state."""
    for _ in range(1_200):
        state: dict[str, str] = (await client.get(f"/v1/experiments/{run}")).json()
        if state["state"] != "running":
            return state
        await asyncio.sleep(0.05)
    raise AssertionError("the experiment did not end")


async def hanging(stub: GatewayStub) -> None:
    """Waits until a search hangs at the stub (`hangs_after`)."""
    for _ in range(3_000):
        if stub.hanging:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("no search hangs")
