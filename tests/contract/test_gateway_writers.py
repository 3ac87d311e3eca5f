"""Concurrent writers of one collection, over real services: no acknowledged write is lost, no writer is blocked."""

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.real_stack import RealStack, numbered, real_stack

# `make test` tries the first one, `make test-integration` the others.
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.integration) for seed in (1, 2))]


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[RealStack]:
    async with real_stack(tmp_path) as stack:
        yield stack


@pytest.fixture
async def loaded(stack: RealStack) -> RealStack:
    await stack.load()
    return stack


async def found(stack: RealStack, query: str) -> list[str]:
    answer = await stack.post("/search", query=query, pipeline="bm25")
    return [hit["id"] for hit in answer.json()["hits"]]


# Two writers


async def test_a_second_writer_neither_joins_nor_publishes_a_running_rebuild(loaded: RealStack) -> None:
    rebuild = (await loaded.begin(new_generation=True)).json()
    assert (await loaded.send(numbered(5, "new"), build=rebuild["build"])).json()["collection"] == "c@2"
    second = (await loaded.begin()).json()
    assert (second["generation"], second["created"], second["build"]) == ("c@1", False, None)
    assert (await loaded.send([{"id": "x", "text": "one more"}])).json()["collection"] == "c@1"
    assert (await loaded.post("/publish")).json()["generation"] == "c@1"
    assert await loaded.live() == {"lexical": 41, "dense": 41}
    # Writes to the live generation meanwhile are in the rebuild too; the caller that began it publishes it.
    assert (await loaded.send(numbered(40, "new"), build=rebuild["build"])).json()["complete"]
    published = await loaded.post("/publish", build=rebuild["build"], expected_documents=41)
    assert (published.json()["generation"], published.json()["documents"]) == ("c@2", 41)
    assert await found(loaded, "one more") == ["x"]


async def test_a_killed_loader_continues_its_own_build(loaded: RealStack) -> None:
    for created in (True, False):
        begun = (await loaded.begin(new_generation=True, build="nightly")).json()
        assert (begun["generation"], begun["created"], begun["build"]) == ("c@2", created, "nightly")
        assert (await loaded.send(numbered(10, "new"), build="nightly")).json()["complete"]
    assert (await loaded.post("/publish", build="nightly")).json()["documents"] == 10
    again = (await loaded.begin(build="nightly")).json()
    assert (again["generation"], again["created"]) == ("c@2", False)
    assert (await loaded.begin(build="nightly", new_generation=True)).json()["generation"] == "c@3"


async def test_another_declaration_under_the_same_build_begins_another_generation(loaded: RealStack) -> None:
    await loaded.begin(presets=["anserini-flat"], build="mine")
    other = (await loaded.begin(metadata={"year": "number"}, build="mine")).json()
    assert (other["generation"], other["created"]) == ("c@3", True)
    assert (await loaded.send(numbered(2), build="mine")).json()["collection"] == "c@3"


async def test_writers_of_one_build_and_of_others_may_begin_at_the_same_moment(stack: RealStack) -> None:
    answers = await asyncio.gather(*(stack.begin(build=f"b{number % 3}") for number in range(9)))
    assert {answer.status_code for answer in answers} == {200}
    begun = {(answer.json()["build"], answer.json()["generation"]) for answer in answers}
    assert len(begun) == len({build for build, _ in begun}) == 3
    lexical, dense = await stack.states("lexical"), await stack.states("dense")
    assert {one: state["build"] for one, state in lexical.items()} == {
        one: state["build"] for one, state in dense.items()
    }


@pytest.mark.parametrize(
    ("path", "body"),
    [("/documents", {"documents": [{"id": "x", "text": ""}]}), ("/documents/delete", {"ids": ["x"]}), ("/publish", {})],
)
async def test_without_a_live_generation_a_write_says_what_to_send(
    stack: RealStack, path: str, body: dict[str, object]
) -> None:
    await stack.begin(build="mine")
    refused = await stack.post(path, **body)
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:problem:build-token-needed")
    assert "send the `build` that PUT /v1/collections/c" in refused.json()["detail"]
    wrong = await stack.post(path, **body, build="yours")
    assert (wrong.status_code, wrong.json()["type"]) == (409, "urn:problem:build-conflict")
    assert "PUT /v1/collections/c with the same `build` begins one" in wrong.json()["detail"]


# What is published


async def test_an_empty_collection_is_not_published(stack: RealStack) -> None:
    await stack.begin(build="mine")
    refused = await stack.post("/publish", build="mine")
    assert refused.status_code == 409
    assert "no documents" in refused.json()["detail"]
    assert (await stack.client.get("/v1/collections/c")).json()["live"] is None


async def test_another_number_of_documents_than_expected_is_not_published(stack: RealStack) -> None:
    await stack.begin(build="mine")
    await stack.send(numbered(5), build="mine")
    refused = await stack.post("/publish", build="mine", expected_documents=6)
    assert refused.status_code == 409
    assert "hold 5 documents, and 6 were expected" in refused.json()["detail"]


async def test_equal_counts_of_different_contents_are_not_published(stack: RealStack) -> None:
    await stack.begin(build="mine")
    await stack.send(numbered(5), build="mine")
    # Bypasses the gateway, to simulate a service restored from older files.
    await stack.dense.post("/v1/collections/c@1/documents", json={"documents": numbered(1, "another")})
    refused = await stack.post("/publish", build="mine")
    assert refused.status_code == 409
    assert "different contents under the same ids" in refused.json()["detail"]
    assert "lexical" in refused.json()["detail"]
    assert (await stack.send(numbered(5), build="mine")).json()["complete"]
    assert (await stack.post("/publish", build="mine")).status_code == 200


async def test_a_publication_of_what_was_removed_does_not_publish_what_was_begun_since(stack: RealStack) -> None:
    await stack.begin(build="mine")
    await stack.send(numbered(5), build="mine")
    removals = asyncio.Event()
    for way in stack.ways.values():
        way.hold = (b"DELETE", removals)
    async with asyncio.TaskGroup() as group:
        removal = group.create_task(stack.client.delete("/v1/collections/c"))
        await asyncio.sleep(0.2)
        again = group.create_task(stack.begin(build="mine"))
        publication = group.create_task(stack.post("/publish", build="mine"))
        for _ in range(200):
            if '"phase":"switch"' in (await stack.client.get("/v1/collections/c")).text:
                break
            await asyncio.sleep(0.05)
        removals.set()
    assert (removal.result().status_code, again.result().json()["generation"]) == (204, "c@1")
    assert publication.result().status_code == 409
    assert "was removed" in publication.result().json()["detail"]
    assert (await stack.client.get("/v1/collections/c")).json()["live"] is None


# Going back


async def test_rollbacks_go_back_and_forth(loaded: RealStack) -> None:
    await loaded.begin(new_generation=True, build="next")
    await loaded.send(numbered(3, "new"), build="next")
    await loaded.post("/publish", build="next")
    view = (await loaded.client.get("/v1/collections/c")).json()
    assert (view["live"], view["previous"], view["building"]) == ("c@2", "c@1", None)
    back = await loaded.client.post("/v1/collections/c/rollback", json={})
    assert (back.json()["generation"], back.json()["documents"]) == ("c@1", 40)
    assert (await found(loaded, "word 7"))[0] == "d07"
    # c@2 is no build: new writes go only to the live generation, and do not wait.
    assert (await loaded.send([{"id": "x", "text": "after going back"}])).json()["collection"] == "c@1"
    assert [one["documents"] for one in (await loaded.states("lexical")).values()] == [41, 3]
    assert (await loaded.post("/publish", generation="c@2")).json()["documents"] == 3
    assert (await loaded.client.get("/v1/collections/c")).json()["live"] == "c@2"


async def test_only_the_previous_generation_is_kept_and_only_for_its_time(tmp_path: Path) -> None:
    async with real_stack(tmp_path, keep_previous_s=1.5, refresh_s=0.2) as stack:
        for number in range(1, 4):
            await stack.begin(new_generation=True, build=f"b{number}")
            await stack.send(numbered(number), build=f"b{number}")
            await stack.post("/publish", build=f"b{number}")
        assert list(await stack.states("lexical")) == list(await stack.states("dense")) == ["c@2", "c@3"]
        for _ in range(150):
            await asyncio.sleep(0.2)
            if list(await stack.states("lexical")) == list(await stack.states("dense")) == ["c@3"]:
                break
        else:
            raise AssertionError("the generation before is still there")
        assert (await stack.client.get("/v1/collections/c")).json()["live"] == "c@3"


async def test_a_keep_time_of_0_removes_at_once(tmp_path: Path) -> None:
    async with real_stack(tmp_path, keep_previous_s=0) as stack:
        for number in (1, 2):
            await stack.begin(new_generation=True, build=f"b{number}")
            await stack.send(numbered(3), build=f"b{number}")
            await stack.post("/publish", build=f"b{number}")
        assert list(await stack.states("lexical")) == list(await stack.states("dense")) == ["c@2"]


# Live writes during a rebuild


async def test_writes_and_deletions_during_a_rebuild_survive_its_publication(loaded: RealStack) -> None:
    await loaded.begin(new_generation=True, build="next")
    await loaded.send(numbered(40), build="next")
    assert (await loaded.send([{"id": "x", "text": "written meanwhile"}])).json()["complete"]
    assert (await loaded.post("/documents/delete", ids=["d00"])).json()["complete"]
    assert await found(loaded, "written meanwhile") == ["x"]
    assert (await loaded.post("/publish", build="next")).json()["documents"] == 40
    assert await found(loaded, "written meanwhile") == ["x"]
    assert "d00" not in await loaded.texts(["d00", "d01"])


async def test_a_write_in_flight_when_a_rebuild_begins_is_in_the_rebuild(loaded: RealStack) -> None:
    way = loaded.ways["lexical"]
    way.hold = (b"meanwhile", asyncio.Event())
    writing = asyncio.create_task(loaded.send([{"id": "x", "text": "written meanwhile"}]))
    await asyncio.sleep(0.2)
    await loaded.begin(new_generation=True, build="next")
    await loaded.send(numbered(40), build="next")
    way.hold[1].set()
    assert (await writing).json()["complete"]
    assert (await loaded.post("/publish", build="next")).json()["documents"] == 41
    assert await found(loaded, "written meanwhile") == ["x"]


async def test_a_build_of_another_model_does_not_make_live_writes_incomplete(tmp_path: Path) -> None:
    async with real_stack(tmp_path) as stack:
        await stack.load()
        await stack.begin(new_generation=True, build="next")
    record = tmp_path / "dense" / "c@2" / "collection.json"
    record.write_text(record.read_text().replace("hashing", "another"))
    async with real_stack(tmp_path) as stack:
        assert (await stack.send([{"id": "x", "text": "one more"}])).json()["complete"]
        assert (await stack.post("/publish")).json()["documents"] == 41


async def test_a_document_that_a_build_refuses_is_reported_with_the_build(loaded: RealStack) -> None:
    await loaded.begin(metadata={"year": "number"}, build="stricter")
    report = (await loaded.send([{"id": "x", "text": "", "metadata": {"year": "long ago"}}])).json()
    assert not report["complete"]
    assert "In c@2, which is being built: year" in report["services"][0]["report"]["errors"][0]["reason"]


# All at once


async def writer(
    stack: RealStack, rng: random.Random, number: int, acknowledged: dict[str, str], refused: dict[str, str]
) -> None:
    """Rebuilds from the documents acknowledged so far, writes and publishes in a random order. Records which writes are
    acknowledged and which are refused; one service may have taken a refused one.

    Live writes have ids of their own, because a rebuild from older texts may rightly replace others.
    """
    build: str | None = None
    for step in range(8):
        await asyncio.sleep(rng.uniform(0.0, 0.03))
        match rng.choice(["begin", "write", "live", "live", "publish"]):
            case "begin":
                answer = await stack.begin(new_generation=True)
                build = answer.json()["build"] if answer.status_code == 200 else None
                held = [{"id": one, "text": text} for one, text in acknowledged.items()]
                if build and held:
                    sent = await stack.send(held, build=build)
                    build = build if sent.status_code == 200 and sent.json()["complete"] else None
            case "write" if build:
                await stack.send(numbered(rng.randint(1, 20), f"w{number}s{step}"), build=build)
            case "publish" if build:
                await stack.post("/publish", build=build)
            case _:
                mine, text = f"own{number}-{step}", f"kept {number} {step}"
                report = await stack.send([{"id": mine, "text": text}])
                taken = report.status_code == 200 and report.json()["complete"]
                (acknowledged if taken else refused)[mine] = text


async def whole(stack: RealStack) -> None:
    """Every published generation is held by both services, with the same documents and at least one."""
    lexical, dense = await stack.states("lexical"), await stack.states("dense")
    live = (await stack.client.get("/v1/collections")).json()["collections"]
    for view in live:
        if view["live"] is None:
            continue
        assert view["live"] in lexical, (lexical, dense)
        assert view["live"] in dense, (lexical, dense)
        assert lexical[view["live"]]["documents"] == dense[view["live"]]["documents"] > 0, (lexical, dense)
        digests = await stack.digests(view["live"])
        assert digests["lexical"] == digests["dense"]


@pytest.mark.parametrize("seed", SEEDS)
async def test_writers_who_rebuild_and_publish_at_once_lose_nothing_acknowledged(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    async with real_stack(tmp_path) as stack:
        await stack.load()
        acknowledged: dict[str, str] = {}
        refused: dict[str, str] = {}
        await asyncio.gather(*(writer(stack, random.Random(rng.random()), n, acknowledged, refused) for n in range(4)))
        # A write that only one service took reports `complete: false` and is sent again.
        again = [{"id": one, "text": text} for one, text in refused.items()]
        assert (await stack.send([*numbered(20, "last"), *again])).json()["complete"]
        acknowledged |= refused
        await whole(stack)
        assert acknowledged
        assert await stack.texts(list(acknowledged)) == acknowledged


@pytest.mark.parametrize("seed", SEEDS)
async def test_concurrent_publish_ingest_put_and_delete_leave_both_services_equal(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    async with real_stack(tmp_path) as stack:
        await stack.load()

        async def one(kind: str) -> int:
            await asyncio.sleep(rng.uniform(0.0, 0.25))
            build = rng.choice(["first", "second", "third"])
            match kind:
                case "put":
                    answer = await stack.begin(build=build, new_generation=rng.random() < 0.5)
                case "documents":
                    answer = await stack.send(numbered(40), build=build)
                case "publish":
                    answer = await stack.post("/publish", build=build)
                case _:
                    answer = await stack.client.delete("/v1/collections/c")
            return answer.status_code

        kinds = rng.choices(["put", "documents", "publish", "delete"], [2, 3, 3, 1], k=24)
        statuses = await asyncio.gather(*(one(kind) for kind in kinds))
        assert set(statuses) <= {200, 204, 404, 409}
        await whole(stack)


async def test_a_discarded_build_is_gone_everywhere_and_nothing_that_was_published_is_discarded(
    loaded: RealStack,
) -> None:
    await loaded.begin(build="second", new_generation=True)
    await loaded.send(numbered(3), build="second")
    for _ in range(2):  # the second time there is nothing left
        assert (await loaded.post("/discard", build="second")).status_code == 204
    assert [list(await loaded.states(service)) for service in ("lexical", "dense")] == [["c@1"]] * 2
    refused = await loaded.post("/discard", build="first")
    assert (refused.status_code, "was published" in refused.json()["detail"]) == (409, True)
    assert await loaded.live() == {"lexical": 40, "dense": 40}
