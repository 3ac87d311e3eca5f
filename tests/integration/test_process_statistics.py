"""What a real Elasticsearch tells of its CPU time, memory and start."""

import time

import pytest

from evaluator.machine.process_costs import costs_between, process_reader

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]


async def test_elasticsearch_tells_cpu_time_memory_and_one_start(elasticsearch_url: str) -> None:
    async with process_reader({"elasticsearch": elasticsearch_url}) as read:
        before, after = await read(), await read()
    statistics = before["elasticsearch"]
    assert statistics.reason is None
    assert statistics.started_s is not None
    assert 0 < time.time() - statistics.started_s < 3_600 * 24 * 365
    assert (statistics.cpu_s or 0) > 0
    assert (statistics.memory_bytes or 0) > 100_000_000
    cost = costs_between(before, after)["elasticsearch"]
    assert (cost.cpu_ms is not None, cost.reason) == (True, None)
