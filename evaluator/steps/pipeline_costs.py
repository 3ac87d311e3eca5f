"""Measures what a query of each pipeline costs every process, in a block of queries of its own; and sizes of indexes.

The timed queries of all pipelines take turns, so no reading around them belongs to one pipeline; reading before and
after each query would cost more than a query, and CPU counters have steps of 10 ms.
"""

import time
from collections.abc import Mapping, Sequence
from itertools import cycle

from evaluator.client.client import GatewayClient, GatewayError
from evaluator.datasets.reader import Dataset
from evaluator.experiments.experiment import Experiment
from evaluator.machine.process_costs import PipelineCost, Reader, costs_between, known_sum, mean_cost, process_reader
from evaluator.progress import progress
from evaluator.runs.run_folder import RunFolder
from evaluator.steps.arms import Arm, search_request
from evaluator.steps.ingest import live_states
from services.contracts.base import Count, Wire
from services.contracts.collections import CollectionState
from services.contracts.pipelines import Pipeline, Rerank, Retrieve

# A block ends after so many queries, or seconds, whichever comes first, but not before its first query, and of fast
# queries not before the least time: counters have steps of 10 ms in every process.
BLOCK_QUERIES = 100
BLOCK_S = 10.0
LEAST_BLOCK_S = 2.0

COSTS = "costs.json"


class CostReport(Wire):
    """costs.json: bytes of the indexes by backend, read after the queries, and costs by pipeline."""

    indexes: dict[str, Count | None]  # null: its engine does not report it
    indexes_reason: str | None = None  # why no index is known
    pipelines: dict[str, PipelineCost]


NO_COSTS = CostReport(indexes={}, pipelines={})  # of an imported run


async def pipeline_costs(
    client: GatewayClient,
    experiment: Experiment,
    dataset: Dataset,
    queries: Sequence[str],
    arms: Sequence[Arm],
    processes: Mapping[str, str],
) -> CostReport:
    """Reads the sizes of the indexes; with `processes`, sends a block of queries through each arm, one at a time.

    Sizes are read here and not before the queries: Elasticsearch reports them ten seconds late, so those after loading
    would be of segments that were merged since.
    """
    indexes, reason = await _index_sizes(client, experiment)
    if not processes:
        return CostReport(indexes=indexes, indexes_reason=reason, pipelines={})
    costs = {}
    async with process_reader(processes) as read:
        with progress("Measuring the cost of pipelines", len(arms), "blocks") as advance:
            for arm in arms:
                costs[arm.name] = await _cost_of(client, experiment, dataset, queries, arm, read)
                advance(1)
    return CostReport(indexes=indexes, indexes_reason=reason, pipelines=costs)


async def _index_sizes(client: GatewayClient, experiment: Experiment) -> tuple[dict[str, int | None], str | None]:
    try:
        view = await client.collection(experiment.target)
    except GatewayError as error:
        return {}, str(error)
    return {name: state.bytes for name, state in live_states(view).items()}, None


async def _cost_of(
    client: GatewayClient, experiment: Experiment, dataset: Dataset, queries: Sequence[str], arm: Arm, read: Reader
) -> PipelineCost:
    sent = lost = 0
    before = await read()
    started = time.monotonic()
    for query in cycle(queries):
        spent_s = time.monotonic() - started
        if sent and (spent_s >= BLOCK_S or (sent >= BLOCK_QUERIES and spent_s >= LEAST_BLOCK_S)):
            break
        sent += 1
        request = search_request(arm, dataset, query, experiment.timed_top)
        try:
            await client.search(experiment.target, request, experiment.deadline_ms, caches=experiment.caches)
        except GatewayError:
            lost += 1
    seconds = time.monotonic() - started
    return mean_cost(costs_between(before, await read()), sent, lost, seconds)


def index_bytes(
    pipeline: Pipeline | None, backends: Mapping[str, CollectionState], sizes: Mapping[str, int | None]
) -> int | None:
    """Returns the bytes of the indexes that a pipeline reads; None where one of them is not known.

    Those of its retrieves, and of its re-rankings over stored vectors; another re-ranking reads those that hold texts.
    """
    if pipeline is None:
        return None
    stages = [item.stage for item in pipeline.identified]
    read = {stage.backend for stage in stages if isinstance(stage, Retrieve)}
    rerankers = {stage.backend for stage in stages if isinstance(stage, Rerank)}
    read |= rerankers & backends.keys()
    if rerankers - backends.keys():
        read |= {name for name, state in backends.items() if state.vectors is None}
    total = known_sum(sizes.get(name) for name in read)
    return None if total is None else int(total)


def costs_of(folder: RunFolder) -> CostReport:
    """Returns what a query of each pipeline costs, as far as the run has measured it."""
    return folder.read(COSTS, CostReport) if folder.has(COSTS) else NO_COSTS
