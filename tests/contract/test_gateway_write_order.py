"""Of writes of the same ids that overtake one another, the newest stays in every service."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support.real_stack import RealStack, numbered

SERVICES = ("lexical", "dense")


@asynccontextmanager
async def overtaken(stack: RealStack, service: str, documents: int) -> AsyncIterator[dict[str, Any]]:
    """Keeps a batch in flight to one service within the block; afterwards the value has its result."""
    way = stack.ways[service]
    late: dict[str, Any] = {}
    way.hold = (b"older", asyncio.Event())
    older = asyncio.create_task(stack.send(numbered(documents, "older")))
    await asyncio.sleep(0.2)
    yield late
    way.hold[1].set()
    late |= (await older).json()


async def equal(stack: RealStack) -> bool:
    digests = await stack.digests("c@1")
    return digests["lexical"] == digests["dense"]


@pytest.mark.parametrize("service", SERVICES)
async def test_an_overtaken_batch_is_reported_and_both_services_have_the_newer_one(
    loaded: RealStack, service: str
) -> None:
    async with overtaken(loaded, service, 40) as late:
        assert (await loaded.send(numbered(40, "newer"))).json()["complete"]
    assert not late["complete"]
    (report,) = [one["report"] for one in late["services"] if one["backend"] == service]
    assert len(report["errors"]) == 40
    assert all(error["overtaken"] and not error["retryable"] for error in report["errors"])
    assert await equal(loaded)
    assert (await loaded.texts(["d07"])) == {"d07": "newer 7"}
    assert (await loaded.send(numbered(40, "older"))).json()["complete"]
    assert (await loaded.post("/publish")).status_code == 200
    assert (await loaded.texts(["d07"])) == {"d07": "older 7"}


@pytest.mark.parametrize("service", SERVICES)
async def test_a_document_that_was_deleted_meanwhile_does_not_come_back(loaded: RealStack, service: str) -> None:
    async with overtaken(loaded, service, 2) as late:
        assert (await loaded.post("/documents/delete", ids=["d00"])).json()["complete"]
    assert not late["complete"]
    assert await equal(loaded)
    assert "d00" not in await loaded.texts(["d00", "d01"])


@pytest.mark.parametrize("service", SERVICES)
async def test_an_unchanged_document_counts_as_written(loaded: RealStack, service: str) -> None:
    async with overtaken(loaded, service, 1) as late:
        assert (await loaded.send(numbered(1))).json()["complete"]
    assert not late["complete"]
    assert (await loaded.texts(["d00"])) == {"d00": "word 0"}
    assert await equal(loaded)


async def test_a_gateway_whose_clock_is_behind_catches_up_with_one_refusal(loaded: RealStack) -> None:
    ahead = 2**61
    for client in (loaded.lexical, loaded.dense):
        await client.post(
            "/v1/collections/c@1/documents", params={"version": ahead}, json={"documents": numbered(1, "ahead")}
        )
    assert not (await loaded.send(numbered(1, "behind"))).json()["complete"]
    assert (await loaded.send(numbered(1, "behind"))).json()["complete"]
    assert (await loaded.texts(["d00"])) == {"d00": "behind 0"}
