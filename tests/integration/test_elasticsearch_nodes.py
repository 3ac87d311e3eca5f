"""Three nodes of one Elasticsearch cluster on this machine: searches over the copies that they hold, one node killed,
all of them restarted."""

import asyncio
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from elasticsearch import AsyncElasticsearch

from deploy.elasticsearch.account import substitute_directory
from deploy.elasticsearch.configuration import Membership
from deploy.elasticsearch.data_lock import is_locked, read_record
from deploy.elasticsearch.install import install
from deploy.elasticsearch.nodes import all_directories, node_directories
from deploy.elasticsearch.server import say, start_server
from services.chassis.deadlines import Deadline, set_deadline
from services.lexical.app import build_app, open_engine
from services.lexical.settings import LexicalSettings
from tests.support.lexical_notes import (
    ALL_PRESETS,
    NOTES,
    documents,
    filled,
    rankings_of,
    request_for,
    tied_documents,
)

# Three servers start at once.
pytestmark = [pytest.mark.integration, pytest.mark.alone, pytest.mark.timeout(900)]
COMMAND = [sys.executable, "-m", "deploy.elasticsearch"]


def started(data: Path, nodes: int, *more: str) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, "start", "--data", str(data), "--nodes", str(nodes), *more]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def restarted(data: Path, url: str) -> subprocess.CompletedProcess[str]:
    """Ends the three nodes and starts them on their data, the first on its port."""
    subprocess.run([*COMMAND, "stop", "--data", str(data)], check=True)
    return started(data, 3, "--port", url.rsplit(":", 1)[1])


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    data = tmp_path_factory.mktemp("three nodes")
    yield data
    subprocess.run([*COMMAND, "stop", "--data", str(data)], check=True)
    for place in all_directories(data):
        shutil.rmtree(substitute_directory(place), ignore_errors=True)


@pytest.fixture(scope="module")
def url(data: Path) -> str:
    answer = started(data, 3)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.strip().removeprefix("export ELASTICSEARCH_URL=")


async def test_three_nodes_are_a_green_cluster_on_loopback(url: str) -> None:
    async with AsyncElasticsearch(url) as client:
        health = await client.cluster.health()
        nodes = (await client.nodes.info(metric="transport,http"))["nodes"].values()
    assert (health["status"], health["number_of_nodes"]) == ("green", 3)
    bound = [address for node in nodes for port in ("transport", "http") for address in node[port]["bound_address"]]
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


async def test_three_shards_on_three_nodes_rank_and_score_as_one_does(url: str) -> None:
    rankings = {}
    for shards in (1, 3):
        settings = LexicalSettings(
            engine="elasticsearch", elasticsearch_url=url, index_prefix="ranks-", shards=shards, replicas=1
        )
        engine = open_engine(settings)
        generation = await filled(engine, tied_documents(), generation=f"notes@{shards}")
        rankings[shards] = await rankings_of(engine, generation)
        await engine.close()
    assert rankings[3] == rankings[1]


def rejoin(victim: Path, number: int, ports: tuple[int, ...]) -> None:
    """Starts a node again on its directory and port, once its process has ended."""
    while is_locked(victim):
        time.sleep(0.1)
    with (victim / "server.log").open("ab") as output:
        membership = Membership(number, ports)
        server = start_server(install(say), victim, output=output, detached=True, membership=membership)
    server.wait_until_healthy()


async def test_no_search_fails_when_a_node_is_killed_and_it_recovers_when_it_is_back(data: Path, url: str) -> None:
    settings = LexicalSettings(
        engine="elasticsearch", elasticsearch_url=url, index_prefix="killed-", shards=3, replicas=1
    )
    app = build_app(settings)
    path = "/v1/collections/notes@1"
    asked = [
        {"query": query} for query in ("brake", "cable", "brake cable", "wheel", "pad", "tyre tube", "rim", "bent")
    ]
    answers: list[tuple[int, httpx.Response]] = []
    async with (
        AsyncElasticsearch(url, request_timeout=90) as elasticsearch,
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://lexical") as client,
    ):

        async def search(number: int) -> None:
            headers = {"x-deadline-ms": "30000"}
            body = asked[number % len(asked)]
            answers.append((number, await client.post(f"{path}/search", json=body, headers=headers)))

        async def keep_searching(over: asyncio.Event) -> None:
            async with asyncio.TaskGroup() as group:
                number = len(asked)
                while not over.is_set():
                    group.create_task(search(number))
                    number += 1
                    await asyncio.sleep(0.05)

        async def is_green() -> bool:
            health = await elasticsearch.cluster.health(index="killed-*", wait_for_status="green", timeout="60s")
            return str(health["status"]) == "green"

        await client.put(path, json={})
        batch = [one.model_dump() for one in documents(NOTES)]
        for call, sent in (("documents", {"documents": batch}), ("finish", {}), ("publish", {})):
            (await client.post(f"{path}/{call}", json=sent, headers={"x-deadline-ms": "60000"})).raise_for_status()
        assert await is_green()
        for number in range(len(asked)):
            await search(number)
        expected = [answer.json() for _, answer in answers]

        nodes = (await elasticsearch.nodes.info(metric="transport"))["nodes"]
        ports = {one["name"]: int(one["transport"]["publish_address"].rsplit(":", 1)[1]) for one in nodes.values()}
        copies: Any = await elasticsearch.cat.shards(index="killed-*", format="json")
        held_by = {copy["node"] for copy in copies}
        number = next(place for place in (2, 3) if f"node-{place}" in held_by)  # we ask the first one
        victim = node_directories(data, 3)[number - 1]
        record = read_record(victim)
        assert record is not None

        over = asyncio.Event()
        searching = asyncio.create_task(keep_searching(over))
        await asyncio.sleep(1.0)
        for process in psutil.Process(record.pid).children():  # Java itself, below its launcher
            process.kill()
        await asyncio.to_thread(rejoin, victim, number, tuple(ports[name] for name in sorted(ports)))
        assert await is_green()
        await asyncio.sleep(1.0)
        over.set()
        await searching

    # On a busy machine a queue that fills meanwhile refuses some.
    failed = [answer.text for _, answer in answers if answer.status_code not in (200, 429)]
    assert failed == []
    found = [(number, answer.json()) for number, answer in answers if answer.status_code == 200]
    assert all(answer == expected[number % len(asked)] for number, answer in found)
    assert len(found) > 100


async def test_a_cluster_that_is_restarted_has_what_it_had(data: Path, url: str) -> None:
    set_deadline(Deadline.after_ms(600_000))
    settings = LexicalSettings(
        engine="elasticsearch", elasticsearch_url=url, index_prefix="kept-", shards=3, replicas=1
    )
    engine = open_engine(settings)
    generation = await filled(engine, documents(NOTES))
    await engine.publish(generation)
    before = await engine.digest(generation), await engine.search(generation, request_for("brake cable"))
    await engine.close()
    again = await asyncio.to_thread(restarted, data, url)
    assert again.stdout == f"export ELASTICSEARCH_URL={url}\n"
    async with AsyncElasticsearch(url, request_timeout=90) as client:
        assert (await client.cluster.health(wait_for_status="green", timeout="60s"))["status"] == "green"
    engine = open_engine(settings)
    assert (await engine.state(generation)).published
    assert before == (await engine.digest(generation), await engine.search(generation, request_for("brake cable")))
    await engine.close()


def test_a_cluster_is_started_once(data: Path, url: str) -> None:
    assert started(data, 3).stdout == f"export ELASTICSEARCH_URL={url}\n"
    other = started(data, 1)
    assert other.returncode == 1
    assert "stop it first" in other.stderr


def test_several_nodes_with_tls_are_refused(tmp_path: Path) -> None:
    command = [*COMMAND, "start", "--data", str(tmp_path), "--nodes", "2", "--secure"]
    answer = subprocess.run(command, check=False, capture_output=True, text=True)
    assert answer.returncode == 1
    assert "--secure is for one node" in answer.stderr
