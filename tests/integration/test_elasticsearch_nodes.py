"""Three nodes of one Elasticsearch cluster on this machine, and searches over the copies that they hold."""

import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from elasticsearch import AsyncElasticsearch

from deploy.elasticsearch.account import substitute_directory
from deploy.elasticsearch.nodes import all_directories
from services.lexical.app import open_engine
from services.lexical.settings import LexicalSettings
from tests.support.lexical_notes import ALL_PRESETS, NOTES, documents, filled, request_for

# Three servers start at once.
pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]
COMMAND = [sys.executable, "-m", "deploy.elasticsearch"]


def started(data: Path, nodes: int) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, "start", "--data", str(data), "--nodes", str(nodes)]
    return subprocess.run(command, check=False, capture_output=True, text=True)


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
