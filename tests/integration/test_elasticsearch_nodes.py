"""Three nodes of one Elasticsearch cluster on this machine: searches over the copies that they hold, one node killed,
all of them restarted."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from elasticsearch import AsyncElasticsearch

from services.chassis.deadlines import Deadline, set_deadline
from services.lexical.app import build_app, open_engine
from services.lexical.settings import LexicalSettings
from tests.support.elasticsearch_nodes import ThreeNodes
from tests.support.lexical_notes import ALL_PRESETS, NOTES, documents, filled, request_for
from tests.support.opened_client import opened_client

# Three servers start at once.
pytestmark = [pytest.mark.integration, pytest.mark.alone, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeNodes]:
    nodes = ThreeNodes(tmp_path_factory.mktemp("three nodes"))
    yield nodes
    nodes.close()


@pytest.fixture(scope="module")
def url(nodes: ThreeNodes) -> str:
    return nodes.start_all()


async def test_three_nodes_are_a_green_cluster_on_loopback(url: str) -> None:
    async with AsyncElasticsearch(url) as client:
        health = await client.cluster.health()
        members = (await client.nodes.info(metric="transport,http"))["nodes"].values()
    assert (health["status"], health["number_of_nodes"]) == ("green", 3)
    bound = [address for node in members for port in ("transport", "http") for address in node[port]["bound_address"]]
    assert len(bound) == 6
    assert all(address.startswith("127.0.0.1:") for address in bound)


async def test_queries_are_spread_over_all_copies_and_a_repeated_one_stays_on_its_own(url: str) -> None:
    settings = LexicalSettings(
        engine="elasticsearch", elasticsearch_url=url, index_prefix="spread-", shards=3, replicas=1
    )
    engine = open_engine(settings)
    async with AsyncElasticsearch(url) as client:
        generation = await filled(engine, documents(NOTES), ALL_PRESETS)
        index = f"spread-{generation}"
        assert (await client.cluster.health(index=index, wait_for_status="green", timeout="60s"))["status"] == "green"

        async def queries_by_copy() -> Counter[tuple[str, str]]:
            shards = (await client.indices.stats(index=index, level="shards"))["indices"][index]["shards"]
            return Counter(
                {
                    (shard, copy["routing"]["node"]): copy["search"]["query_total"]
                    for shard, copies in shards.items()
                    for copy in copies
                }
            )

        before = await queries_by_copy()
        for number in range(40):
            await engine.search(generation, request_for(f"brake {number}"))
        spread = await queries_by_copy()
        for _ in range(10):
            await engine.search(generation, request_for("brake cable"))
        repeated = await queries_by_copy()
    await engine.close()
    assert len(spread) == 6
    assert all(spread[copy] > before[copy] for copy in spread)
    assert sorted(repeated[copy] - spread[copy] for copy in spread) == [0, 0, 0, 10, 10, 10]


async def test_no_search_fails_when_a_node_is_killed_and_it_recovers_when_it_is_back(
    nodes: ThreeNodes, url: str
) -> None:
    settings = LexicalSettings(
        engine="elasticsearch", elasticsearch_url=url, index_prefix="killed-", shards=3, replicas=1
    )
    app = build_app(settings)
    path = "/v1/collections/notes@1"
    queries = [
        {"query": query} for query in ("brake", "cable", "brake cable", "wheel", "pad", "tyre tube", "rim", "bent")
    ]
    answers: list[tuple[int, httpx.Response]] = []
    async with (
        AsyncElasticsearch(url, request_timeout=90) as elasticsearch,
        opened_client(app) as client,
    ):

        async def search(number: int) -> None:
            headers = {"x-deadline-ms": "30000"}
            body = queries[number % len(queries)]
            answers.append((number, await client.post(f"{path}/search", json=body, headers=headers)))

        async def keep_searching(over: asyncio.Event) -> None:
            async with asyncio.TaskGroup() as group:
                number = len(queries)
                while not over.is_set():
                    group.create_task(search(number))
                    number += 1
                    await asyncio.sleep(0.05)

        async def is_green() -> bool:
            health = await elasticsearch.cluster.health(index="killed-*", wait_for_status="green", timeout="60s")
            return str(health["status"]) == "green"

        await client.put(path, json={})
        batch = [note.model_dump() for note in documents(NOTES)]
        for call, sent in (("documents", {"documents": batch}), ("finish", {}), ("publish", {})):
            (await client.post(f"{path}/{call}", json=sent, headers={"x-deadline-ms": "60000"})).raise_for_status()
        assert await is_green()
        for number in range(len(queries)):
            await search(number)
        expected = [answer.json() for _, answer in answers]

        copies: Any = await elasticsearch.cat.shards(index="killed-*", format="json")
        held_by = {copy["node"] for copy in copies}
        number = next(place for place in (2, 3) if f"node-{place}" in held_by)  # we ask the first one

        over = asyncio.Event()
        searching = asyncio.create_task(keep_searching(over))
        await asyncio.sleep(1.0)
        nodes.kill(number)
        await asyncio.to_thread(nodes.rejoin, number)
        assert await is_green()
        await asyncio.sleep(1.0)
        over.set()
        await searching

    # On a busy machine a queue that fills meanwhile refuses some.
    failed = [answer.text for _, answer in answers if answer.status_code not in (200, 429)]
    assert failed == []
    answered = [(number, answer.json()) for number, answer in answers if answer.status_code == 200]
    assert all(answer == expected[number % len(queries)] for number, answer in answered)
    assert len(answered) > 100


async def test_a_cluster_that_is_restarted_has_what_it_had(nodes: ThreeNodes, url: str) -> None:
    set_deadline(Deadline.after_ms(600_000))
    settings = LexicalSettings(
        engine="elasticsearch", elasticsearch_url=url, index_prefix="kept-", shards=3, replicas=1
    )
    engine = open_engine(settings)
    generation = await filled(engine, documents(NOTES))
    await engine.publish(generation)
    before = await engine.digest(generation), await engine.search(generation, request_for("brake cable"))
    await engine.close()
    nodes.stop()
    assert await asyncio.to_thread(nodes.start_all, int(url.rsplit(":", 1)[1])) == url
    async with AsyncElasticsearch(url, request_timeout=90) as client:
        assert (await client.cluster.health(wait_for_status="green", timeout="60s"))["status"] == "green"
    engine = open_engine(settings)
    assert (await engine.state(generation)).published
    assert before == (await engine.digest(generation), await engine.search(generation, request_for("brake cable")))
    await engine.close()
