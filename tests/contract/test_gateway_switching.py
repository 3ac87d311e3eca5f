"""Rollbacks and publishing during writes, over real services: no write is lost, and none waits for ever."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.real_stack import RealStack, numbered, real_stack


@pytest.fixture
async def loaded(tmp_path: Path) -> AsyncIterator[RealStack]:
    """40 documents, live."""
    async with real_stack(tmp_path) as stack:
        await rebuild(stack, "first")
        yield stack


async def rebuild(stack: RealStack, build: str) -> None:
    assert (await stack.begin(new_generation=True, build=build)).status_code == 200
    assert (await stack.send(numbered(40, build), build=build)).json()["complete"]
    assert (await stack.post("/publish", build=build)).status_code == 200


PRECIOUS: list[dict[str, object]] = [{"id": "x", "text": "precious"}]


async def test_a_write_in_flight_during_a_rollback_is_in_the_generation_live_then(loaded: RealStack) -> None:
    await rebuild(loaded, "faulty")
    way = loaded.ways["dense"]
    way.hold = (b"precious", asyncio.Event())
    writing = asyncio.create_task(loaded.send(PRECIOUS))
    await asyncio.sleep(0.3)
    assert (await loaded.post("/rollback")).json()["generation"] == "c@1"
    way.hold[1].set()
    assert (await writing).json()["complete"]
    assert await loaded.live() == {"lexical": 41, "dense": 41}
    assert await loaded.texts(["x"]) == {"x": "precious"}


async def test_a_write_during_the_beginning_of_a_build_reaches_all_of_it(loaded: RealStack) -> None:
    way = loaded.ways["dense"]  # the second one where a build is begun
    way.hold = (b"anserini-flat", asyncio.Event())
    beginning = asyncio.create_task(loaded.begin(presets=["anserini-flat"], build="next"))
    await asyncio.sleep(0.3)
    writing = asyncio.create_task(loaded.send(PRECIOUS))
    await asyncio.sleep(0.5)
    way.hold[1].set()
    assert (await beginning).json()["generation"] == "c@2"
    assert (await writing).json()["complete"]
    assert (await loaded.send(numbered(40), build="next")).json()["complete"]
    assert (await loaded.post("/publish", build="next")).json()["documents"] == 41


async def test_an_incomplete_build_delays_writes_once_and_can_be_continued(loaded: RealStack) -> None:
    begun = await loaded.begin(presets=["anserini-flat"], build="next")
    assert (await loaded.lexical.delete("/v1/collections/c@2")).status_code == 204
    assert (await loaded.send(PRECIOUS)).json()["complete"]
    async with asyncio.timeout(1.5):
        assert (await loaded.send([{"id": "y", "text": "more"}])).json()["complete"]
    assert (await loaded.begin(presets=["anserini-flat"], build="next")).json()["generation"] == begun.json()[
        "generation"
    ]
    assert (await loaded.send(numbered(40), build="next")).json()["complete"]
    assert (await loaded.post("/publish", build="next")).json()["documents"] == 40


async def test_a_write_after_an_interrupted_publish_is_in_the_build_published_later(
    loaded: RealStack, tmp_path: Path
) -> None:
    await loaded.begin(new_generation=True, build="next")
    assert (await loaded.send(numbered(40), build="next")).json()["complete"]
    obstacles = [tmp_path / name / ".published.json.new" for name in ("lexical", "dense")]
    for obstacle in obstacles:  # as for a process that ends between its two records
        obstacle.mkdir()
    assert (await loaded.post("/publish", build="next")).status_code >= 500
    for obstacle in obstacles:
        obstacle.rmdir()
    assert (await loaded.client.get("/v1/collections/c")).json()["live"] == "c@1"
    assert (await loaded.send(PRECIOUS)).json()["complete"]
    assert (await loaded.post("/publish", build="next")).json()["documents"] == 41
    assert await loaded.texts(["x"]) == {"x": "precious"}


async def test_a_slow_publish_does_not_replace_what_was_published_meanwhile(loaded: RealStack) -> None:
    for build in ("slow", "quick"):
        await loaded.begin(new_generation=True, build=build)
        assert (await loaded.send(numbered(40, build), build=build)).json()["complete"]
    way = loaded.ways["dense"]
    way.hold = (b"2/finish", asyncio.Event())
    slow = asyncio.create_task(loaded.post("/publish", build="slow"))
    await asyncio.sleep(0.3)
    assert (await loaded.post("/publish", build="quick")).json()["generation"] == "c@3"
    assert (await loaded.send(PRECIOUS)).json()["complete"]
    way.hold[1].set()
    late = await slow
    assert (late.status_code, late.json()["type"]) == (409, "urn:problem:superseded")
    assert (await loaded.client.get("/v1/collections/c")).json()["live"] == "c@3"
    assert await loaded.texts(["x"]) == {"x": "precious"}


async def test_a_rebuild_is_published_during_continuous_writes(loaded: RealStack) -> None:
    written: dict[str, str] = {}
    publishing = True

    async def writer(number: int) -> None:
        count = 0
        while publishing:
            count += 1
            identity, text = f"w{number}-{count}", f"text {count}"
            report = await loaded.send([{"id": identity, "text": text}])
            assert report.json()["complete"], report.text
            written[identity] = text

    writers = [asyncio.create_task(writer(number)) for number in range(4)]
    await asyncio.sleep(0.2)
    assert (await loaded.begin(new_generation=True, build="next")).status_code == 200
    held = [{"id": identity, "text": text} for identity, text in written.items()]
    assert (await loaded.send([*numbered(40, "next"), *held], build="next")).json()["complete"]
    published = await loaded.post("/publish", build="next")
    publishing = False
    await asyncio.gather(*writers)
    assert (published.status_code, published.json().get("generation")) == (200, "c@2"), published.text
    assert await loaded.texts(list(written)) == written
    digests = await loaded.digests("c@2")
    assert digests["lexical"] == digests["dense"]
