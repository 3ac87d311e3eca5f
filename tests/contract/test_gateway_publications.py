"""The order of publications and what a publish removes, over real services whose clocks differ and go back."""

import asyncio
import time
from pathlib import Path

import httpx
import pytest

from gateway.collections import publishing
from tests.support.real_stack import RealStack, numbered, real_stack

AN_HOUR_S = 3_600.0


class ShiftedClock:
    """The clock of a service: Unix seconds, so many seconds ahead of this machine's."""

    def __init__(self, ahead_s: float = 0.0) -> None:
        self.ahead_s = ahead_s

    def __call__(self) -> float:
        return time.time() + self.ahead_s


async def publish(stack: RealStack, build: str, documents: int = 2) -> httpx.Response:
    assert (await stack.begin(new_generation=True, build=build)).status_code == 200
    assert (await stack.send(numbered(documents, build), build=build)).json()["complete"]
    return await stack.post("/publish", build=build)


async def held(stack: RealStack) -> tuple[list[str], list[str]]:
    return list(await stack.states("lexical")), list(await stack.states("dense"))


async def numbers(stack: RealStack, service: str) -> dict[str, object]:
    return {one: state.get("publication") for one, state in (await stack.states(service)).items()}


# The order of publications


@pytest.mark.parametrize("services", [("lexical", "dense"), ("lexical",), ("dense",)])
async def test_a_rollback_goes_to_what_was_live_before_where_a_clock_was_fifty_minutes_ahead(
    tmp_path: Path, services: tuple[str, ...]
) -> None:
    clock = ShiftedClock()
    async with real_stack(tmp_path, clocks=dict.fromkeys(services, clock)) as stack:
        await publish(stack, "first")
        clock.ahead_s = 3_000.0
        await publish(stack, "faulty")
        clock.ahead_s = 0.0
        assert (await stack.post("/rollback")).json()["generation"] == "c@1"
        # The generation that was rolled back gets no live writes.
        assert (await stack.send([{"id": "x", "text": "after going back"}])).json()["complete"]
        assert [state["documents"] for state in (await stack.states("lexical")).values()] == [3, 2]
        await publish(stack, "next")
        assert (await stack.client.get("/v1/collections/c")).json()["previous"] == "c@1"
        back = (await stack.post("/rollback")).json()
        assert (back["generation"], back["documents"]) == ("c@1", 3)


@pytest.mark.parametrize("ahead_s", [-AN_HOUR_S, AN_HOUR_S])
async def test_what_was_live_before_is_kept_where_the_gateways_clock_differs_from_the_services(
    tmp_path: Path, ahead_s: float
) -> None:
    clock = ShiftedClock(ahead_s)
    async with real_stack(tmp_path, {"lexical": clock, "dense": clock}, keep_previous_s=30.0, refresh_s=0.1) as stack:
        await publish(stack, "first")
        await publish(stack, "second")
        # A second publish checks ages, as the gateway does every ten seconds.
        assert (await stack.post("/publish")).json()["generation"] == "c@2"
        assert await held(stack) == (["c@1", "c@2"], ["c@1", "c@2"])
        # Both services' own clocks say that it was kept long enough.
        clock.ahead_s += 31.0
        assert (await stack.post("/publish")).json()["generation"] == "c@2"
        assert await held(stack) == (["c@2"], ["c@2"])


async def test_repeating_a_publish_raises_no_number_and_a_restart_keeps_all(tmp_path: Path) -> None:
    expected = {"c@1": 1, "c@2": 2}
    async with real_stack(tmp_path) as stack:
        await publish(stack, "first")
        await publish(stack, "second")
        for _ in range(3):
            assert (await stack.post("/publish")).is_success
            assert (await stack.post("/publish", build="second")).is_success
        assert await numbers(stack, "lexical") == await numbers(stack, "dense") == expected
    async with real_stack(tmp_path) as stack:
        assert await numbers(stack, "lexical") == await numbers(stack, "dense") == expected
        assert (await stack.post("/rollback")).json()["generation"] == "c@1"
        assert await numbers(stack, "lexical") == await numbers(stack, "dense") == {"c@1": 3, "c@2": 2}


async def test_a_rollback_after_a_publish_that_one_service_missed_goes_to_the_last_one_that_succeeded(
    tmp_path: Path,
) -> None:
    async with real_stack(tmp_path) as stack:
        await publish(stack, "first")
        await publish(stack, "second")
        # The folder of the generation cannot be written: neither record nor pointer changes.
        obstacle = tmp_path / "dense" / "c@3" / ".collection.json.new"
        await stack.begin(new_generation=True, build="third")
        assert (await stack.send(numbered(3), build="third")).json()["complete"]
        await stack.digests("c@3")
        obstacle.mkdir()
        assert (await stack.post("/publish", build="third")).status_code >= 500
        assert (await stack.client.get("/v1/collections/c")).json()["live"] == "c@3"
        assert (await stack.post("/rollback")).json()["generation"] == "c@2"
        view = (await stack.client.get("/v1/collections/c")).json()
        assert (view["live"], view["previous"]) == ("c@2", "c@1")
        obstacle.rmdir()
        # A later one does not go back to what only one service had published.
        assert (await publish(stack, "fourth")).json()["generation"] == "c@4"
        assert (await stack.client.get("/v1/collections/c")).json()["previous"] == "c@2"
        assert (await stack.post("/rollback")).json()["generation"] == "c@2"


# What a rollback reports


async def test_a_rollback_without_a_target_reports_what_is_true(tmp_path: Path) -> None:
    async with real_stack(tmp_path, keep_previous_s=30.0) as stack:
        await stack.begin(build="first")
        refused = (await stack.post("/rollback")).json()
        assert (refused["status"], "No generation of collection 'c' is published" in refused["detail"]) == (409, True)
    async with real_stack(tmp_path, keep_previous_s=0.0) as stack:
        await publish(stack, "second")
        await publish(stack, "third")
        refused = (await stack.post("/rollback")).json()
        assert refused["status"] == 409
        assert "No generation below c@3" in refused["detail"]
        assert "None is kept" in refused["detail"]
        assert "kept for" not in refused["detail"]


# What a publish removes


async def test_a_publish_removes_the_unpublished_generations_below_it_and_no_other(tmp_path: Path) -> None:
    async with real_stack(tmp_path) as stack:
        await publish(stack, "first")
        for build in ("second", "third", "fourth"):
            await stack.begin(new_generation=True, build=build)
            await stack.send(numbered(3, build), build=build)
        await stack.client.put("/v1/collections/other", json={"build": "other"})
        assert (await stack.post("/publish", build="third")).json()["generation"] == "c@3"
        left = ["c@1", "c@3", "c@4", "other@1"]
        assert await held(stack) == (left, left)


async def test_a_collection_that_was_begun_twice_without_a_build_keeps_only_what_is_published(tmp_path: Path) -> None:
    async with real_stack(tmp_path) as stack:
        await stack.begin()
        build = (await stack.begin()).json()["build"]
        await stack.send(numbered(2), build=build)
        assert (await stack.post("/publish", build=build)).json()["generation"] == "c@2"
        assert await held(stack) == (["c@2"], ["c@2"])


async def test_a_build_that_a_newer_one_superseded_is_refused_and_begins_anew(tmp_path: Path) -> None:
    async with real_stack(tmp_path) as stack:
        await stack.begin(build="slow")
        await stack.send(numbered(2), build="slow")
        await publish(stack, "quick")
        for path, body in (
            ("/documents", {"documents": [{"id": "x", "text": "late"}]}),
            ("/documents/delete", {"ids": ["x"]}),
            ("/publish", {}),
        ):
            refused = await stack.post(path, **body, build="slow")
            assert (refused.status_code, refused.json()["type"]) == (409, "urn:problem:build-conflict"), path
            assert "a newer generation that was published since has removed it" in refused.json()["detail"]
        assert (await stack.begin(build="slow")).json()["generation"] == "c@3"


@pytest.mark.parametrize("path", ["/documents", "/publish"])
async def test_a_call_of_a_build_that_is_removed_meanwhile_says_that_a_newer_one_was_published(
    tmp_path: Path, path: str
) -> None:
    async with real_stack(tmp_path) as stack:
        await stack.begin(build="slow")
        await stack.send(numbered(2), build="slow")
        events = asyncio.Event(), asyncio.Event()
        for way, event in zip(stack.ways.values(), events, strict=True):
            way.hold = (b"1/documents?" if path == "/documents" else b"1/finish", event)
        body: dict[str, object] = {"documents": numbered(1)} if path == "/documents" else {}
        late = asyncio.create_task(stack.post(path, **body, build="slow"))
        await asyncio.sleep(0.3)
        await publish(stack, "quick")
        for event in events:
            event.set()
        refused = await late
        assert refused.status_code == 409
        assert "newer" in refused.json()["detail"]


async def test_a_service_that_fails_to_remove_neither_fails_the_publish_nor_keeps_the_generation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "REMOVING_S", 0.5)
    async with real_stack(tmp_path) as stack:
        await stack.begin(build="abandoned")
        way = stack.ways["dense"]
        way.hold = (b"DELETE ", asyncio.Event())
        assert (await asyncio.wait_for(publish(stack, "next"), 20)).json()["generation"] == "c@2"
        assert await held(stack) == (["c@2"], ["c@1", "c@2"])
        way.hold = None
        assert (await stack.post("/publish")).json()["generation"] == "c@2"
        assert await held(stack) == (["c@2"], ["c@2"])
