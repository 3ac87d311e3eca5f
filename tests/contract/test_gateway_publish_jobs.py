"""Publishing as a job, over real services: it outlives the calls that begin it, and the same call joins it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.collections import publishing
from tests.support.real_stack import RealStack, numbered, real_stack

SOON = {"x-deadline-ms": "400"}


@pytest.fixture
async def built(tmp_path: Path) -> AsyncIterator[RealStack]:
    """A build of 40 documents, of which the dense service does not finish the index until `release`."""
    async with real_stack(tmp_path) as stack:
        assert (await stack.begin(build="b")).status_code == 200
        assert (await stack.send(numbered(40), build="b")).json()["complete"]
        stack.ways["dense"].hold = (b"/finish", asyncio.Event())
        yield stack


def release(stack: RealStack) -> None:
    held = stack.ways["dense"].hold
    assert held is not None
    held[1].set()


async def publish(stack: RealStack, **asked: object) -> tuple[int, dict[str, object]]:
    answer = await stack.client.post("/v1/collections/c/publish", json={"build": "b", **asked}, headers=SOON)
    return answer.status_code, answer.json()


async def shown(stack: RealStack) -> list[dict[str, object]]:
    found: list[dict[str, object]] = (await stack.client.get("/v1/collections/c")).json().get("publishing", [])
    return found


async def until_ended(stack: RealStack) -> dict[str, object]:
    for _ in range(1_000):
        [job] = await shown(stack)
        if job["state"] != "running":
            return job
        await asyncio.sleep(0.02)
    raise AssertionError(job)


async def test_a_publish_that_outlasts_its_call_goes_on_and_shows_how_far_it_is(built: RealStack) -> None:
    answer = await built.client.post("/v1/collections/c/publish", json={"build": "b"}, headers=SOON)
    assert (answer.status_code, answer.headers["location"]) == (202, "/v1/collections/c")
    job = answer.json()
    assert (job["generation"], job["state"], job["phase"], job["waiting_for"]) == (
        "c@1",
        "running",
        "finish",
        ["dense"],
    )
    assert (await shown(built))[0] == job
    release(built)
    assert await until_ended(built) == job | {"state": "published", "phase": "switch", "waiting_for": []}
    assert await built.live() == {"lexical": 40, "dense": 40}


async def test_the_same_call_joins_the_publish_that_runs(built: RealStack) -> None:
    first = await publish(built)
    assert await publish(built) == first
    waiting = asyncio.create_task(built.post("/publish", build="b"))
    await asyncio.sleep(0.1)
    release(built)
    answer = await waiting
    assert (answer.status_code, answer.json()["documents"]) == (200, 40)
    assert await publish(built) == (200, answer.json()), "published already"


async def test_a_publish_that_failed_shows_its_problem_and_another_takes_its_place(built: RealStack) -> None:
    await publish(built, expected_documents=41)
    release(built)
    failed = await until_ended(built)
    assert (failed["state"], "41 were expected" in str(failed["problem"])) == ("failed", True)
    assert (await built.post("/publish", build="b", expected_documents=40)).json()["documents"] == 40
    assert [job["state"] for job in await shown(built)] == ["published"]


async def test_a_service_is_asked_to_finish_until_it_has(built: RealStack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "CALL_S", 0.3)
    publication = asyncio.create_task(built.post("/publish", build="b"))
    await asyncio.sleep(0.8)
    assert not publication.done(), "two calls have ended without an answer"
    release(built)
    assert (await publication).json()["documents"] == 40


async def test_a_gateway_that_ends_cancels_its_publications(tmp_path: Path) -> None:
    async with asyncio.timeout(20):
        async with real_stack(tmp_path) as stack:
            assert (await stack.begin(build="b")).status_code == 200
            assert (await stack.send(numbered(2), build="b")).json()["complete"]
            stack.ways["dense"].hold = (b"/finish", asyncio.Event())
            assert (await publish(stack))[0] == 202
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "publish"]


async def test_a_collection_that_is_begun_again_has_no_publication_of_the_removed_one(built: RealStack) -> None:
    assert (await publish(built))[0] == 202
    assert (await built.client.delete("/v1/collections/c")).status_code == 204
    release(built)
    assert (await built.begin(build="again")).json()["generation"] == "c@1"
    assert await shown(built) == []
    assert (await built.send(numbered(3), build="again")).json()["complete"]
    answer = await built.post("/publish", build="again")
    assert (answer.status_code, answer.json()["documents"]) == (200, 3)


async def test_the_age_of_a_publication_and_the_free_disk_are_metrics(built: RealStack) -> None:
    def metric(text: str, name: str) -> float:
        return next(float(line.split()[1]) for line in text.splitlines() if line.startswith(f"{name} "))

    assert (await publish(built))[0] == 202
    assert 0 < metric((await built.client.get("/metrics")).text, "publication_seconds") < 60
    release(built)
    await until_ended(built)
    assert metric((await built.client.get("/metrics")).text, "publication_seconds") == 0
    for service in (built.lexical, built.dense):
        text = (await service.get("/metrics")).text
        assert metric(text, "data_disk_free_bytes") > metric(text, "data_disk_least_free_bytes") == 256e6
