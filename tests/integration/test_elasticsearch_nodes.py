"""Three nodes of one Elasticsearch cluster on this machine, and searches over the copies that they hold.

`make soak SOAK=node-lost` kills one of them.
"""

from collections import Counter
from collections.abc import Iterator

import pytest
from elasticsearch import AsyncElasticsearch

from services.lexical.app import open_engine
from services.lexical.settings import LexicalSettings
from tests.support.elasticsearch_nodes import ThreeNodes
from tests.support.lexical_notes import ALL_PRESETS, NOTES, documents, filled, request_for

# Three servers start at once.
pytestmark = [pytest.mark.integration, pytest.mark.alone, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    nodes = ThreeNodes(tmp_path_factory.mktemp("three nodes"))
    yield nodes.start_all()
    nodes.close()


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
