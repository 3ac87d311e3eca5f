"""Times seven copies of one pipeline among two that re-rank, in two orders: equal pipelines must take equal times."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from evaluator.client.client import connected
from evaluator.datasets.reader import read_dataset
from evaluator.experiments.turn_orders import query_turns
from evaluator.load.statistics.ratios import PercentileName, PercentileRatio, percentile_ratios
from evaluator.load.statistics.slice_pairs import LEAST_PAIRS
from services.contracts.query import SearchRequest
from tests.soak.outcome import Bar, Outcome
from tests.soak.stack import COLLECTION, loaded_stack
from tests.support.processes import ROOT

RERANK = ("bm25-rerank", "hybrid-rerank")
ARMS = ("bm25", "bm25", RERANK[0], "bm25", "bm25", "bm25", RERANK[1], "bm25", "bm25")
TURNS = 1_350
OF_NEIGHBOURS = 3  # the bias of that order shows in a third of the turns
DATASET = ROOT / "evaluator" / "collections" / "bicycle-workshop"
WITHIN: dict[PercentileName, tuple[float, float]] = {"p50": (0.95, 1.05), "p95": (0.90, 1.10)}
BALANCED, NEIGHBOURS = "balanced", "neighbours"
SAYS = (
    "Seven copies of `bm25` take turns with `bm25-rerank` and `hybrid-rerank`, one query at a time, over our own "
    "collection with the default models. Every two copies are compared by the ratio of their percentiles over the same "
    "queries, with 95 % intervals. *Balanced*: the order of `rank`, in which every pipeline follows every other "
    "equally often. "
    "*Neighbours*: the list forwards and backwards, so that each follows its two neighbours alone: the copies beside a "
    "re-ranking then read slower than they are."
)


async def run(seed: int, size: int = TURNS, models: bool = True) -> Outcome:
    """Times `size` turns in the balanced order, and a third of them in the other.

    `models`: as those of tests/support/processes.py.
    """
    dataset = read_dataset(DATASET)
    corpus = [document.model_dump(mode="json") for document in dataset.documents()]
    queries = list(dataset.queries.values())
    asked = [queries[number % len(queries)] for number in range(size)]
    orders = {
        BALANCED: list(query_turns([str(number) for number in range(size)], len(ARMS), seed)),
        NEIGHBOURS: list(neighbours_alone(size // OF_NEIGHBOURS, len(ARMS))),
    }
    async with (
        loaded_stack(seed, models=models, corpus=corpus) as stack,
        connected(stack.processes["gateway"].url) as client,
    ):

        async def latency_ms(at: int, query: str) -> float:
            request = SearchRequest(query=query, pipeline=ARMS[at], top=10)
            return (await client.search(COLLECTION, request)).latency_ms

        for at in range(len(ARMS)):
            await latency_ms(at, queries[0])
        found = {}
        for order, turns in orders.items():
            # By number of the query: a ratio then compares the same queries.
            times: dict[int, dict[int, float]] = {at: {} for at, name in enumerate(ARMS) if name not in RERANK}
            for at, number in turns:
                ms = await latency_ms(at, asked[int(number)])
                if at in times:
                    times[at][int(number)] = ms
            found[order] = compared(times, seed)
    return judged(seed, {BALANCED: size, NEIGHBOURS: size // OF_NEIGHBOURS}, found)


def neighbours_alone(queries: int, arms: int) -> Iterator[tuple[int, str]]:
    """Yields (arm, number of the query): the list of arms forwards, backwards, and so on."""
    for number in range(queries):
        for arm in range(arms) if number % 2 == 0 else reversed(range(arms)):
            yield arm, str((number + arm * queries // arms) % queries)


def compared(times: Mapping[int, Mapping[int, float]], seed: int) -> tuple[PercentileRatio, ...]:
    """Returns the ratios of every two copies, from blocks of queries: they take turns one by one, not in slices."""
    blocks = {str(at): request_blocks([of[number] for number in sorted(of)]) for at, of in times.items()}
    return percentile_ratios("", blocks, seed)


def request_blocks(times_ms: Sequence[float]) -> list[Sequence[float]]:
    """Cuts requests that took turns one by one into blocks of n^(1/3) neighbours, which stand for slices.

    Neighbours in time are alike, because they share what the machine did and a queue (Künsch 1989).
    """
    n = len(times_ms)
    size = max(1, min(round(math.cbrt(n)), n // LEAST_PAIRS))
    cuts = [n * number // (n // size) for number in range(n // size + 1)] if n else []
    return [times_ms[begin:end] for begin, end in pairwise(cuts)]


def beyond(ratio: PercentileRatio) -> bool:
    """Returns whether an interval reaches beyond the bounds of its percentile."""
    low, high = WITHIN[ratio.percentile]
    return _interval(ratio)[0] < low or _interval(ratio)[1] > high


def _interval(ratio: PercentileRatio) -> tuple[float, float]:
    assert ratio.interval is not None  # there are blocks enough
    return ratio.interval


def judged(seed: int, turns: Mapping[str, int], found: Mapping[str, Sequence[PercentileRatio]]) -> Outcome:
    """Returns the widest intervals with their bars."""
    rows, bars = [], []
    for order, ratios in found.items():
        for percentile, (low, high) in WITHIN.items():
            of_one = [one for one in ratios if one.percentile == percentile]
            outside = sum(map(beyond, of_one))
            lowest, highest = min(_interval(one)[0] for one in of_one), max(_interval(one)[1] for one in of_one)
            between = f"{min(one.ratio for one in of_one):.3f} to {max(one.ratio for one in of_one):.3f}"
            rows.append((order, percentile, str(turns[order]), between, f"{lowest:.3f} to {highest:.3f}", str(outside)))
            if order == BALANCED:
                promise = f"all {len(of_one)} intervals of {percentile} lie within {low:.2f} to {high:.2f}"
                bars.append(Bar(promise, f"{lowest:.3f} to {highest:.3f}", outside == 0, needs_cores=True))
    seen = sum(map(beyond, found[NEIGHBOURS]))
    bars.append(Bar("beside neighbours alone at least one does not", str(seen), seen > 0, needs_cores=True))
    columns = ("order", "of", "turns", "ratios of two copies", "their intervals", "beyond the bounds")
    return Outcome("copies", SAYS, seed, columns, tuple(rows), tuple(bars), ())
