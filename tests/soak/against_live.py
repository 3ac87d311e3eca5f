"""Counts the alarms of `load --against` over comparisons of two stubs on real sockets, of which one is slower."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from evaluator.load.against import MARGIN
from evaluator.load.against_report import AgainstPoint, ComparedStacks, against_point
from evaluator.load.against_step import driven_pairs
from evaluator.load.traffic import LoadTarget
from evaluator.load_plan import LoadPlan
from services.contracts.query import SearchRequest
from tests.soak.against import COLUMNS, COMPARISONS, PERCENT, SLOWDOWN, bars, row
from tests.soak.outcome import Outcome
from tests.support.processes import ROOT

MEDIAN_MS = 20.0
RATE = 60.0
PAIRS = 12
QUERIES = tuple(f"q{number}" for number in range(50))
SAYS = (
    f"Two stubs answer after a log-normal time of {MEDIAN_MS:.0f} ms at the median, one of them {PERCENT} "
    f"later, or neither. {RATE:.0f} requests a second go to each in turn, in {PAIRS} pairs of slices of a second. "
    "A comparison in which the machine or the generators were too busy is not judged (exit status 3), and counts for "
    "neither bar."
)


async def run(seed: int, size: int = COMPARISONS) -> Outcome:
    """Makes `size` comparisons of each kind."""
    slower = [await _compared(seed + number, SLOWDOWN) for number in range(size)]
    same = [await _compared(seed + number, 1.0) for number in range(size)]
    caught, raised = ([point.speed for point in points if point.speed is not None] for points in (slower, same))
    rows = (row(f"{PERCENT} slower", caught), row("the same", raised))
    not_judged = tuple(fault for point in (*slower, *same) for fault in point.timing_faults)
    return Outcome("against_live", SAYS, seed, COLUMNS, rows, bars(caught, raised, needs_cores=True), not_judged)


async def _compared(seed: int, slowdown: float) -> AgainstPoint:
    async with _stub(MEDIAN_MS, seed) as first, _stub(MEDIAN_MS * slowdown, seed + 1) as second:
        plan = LoadPlan(rates=(RATE,), seconds=PAIRS, slice_seconds=1.0, warmup_seconds=0.0)
        pairs = await driven_pairs((_target(first), _target(second)), "bm25", RATE, plan, seed, None)
        stacks = ComparedStacks((first, second), ("", ""), "bm25", RATE, MARGIN, seed)
        return against_point(stacks, pairs, {query: {"d1": 1} for query in QUERIES}, {})


def _target(url: str) -> LoadTarget:
    return LoadTarget(
        url=f"{url}/v1/collections/demo/search",
        top=10,
        deadline_ms=10_000,
        queries=QUERIES,
        words=dict.fromkeys(QUERIES, 1),
        bodies={("bm25", one): SearchRequest(query=one, pipeline="bm25").model_dump_json().encode() for one in QUERIES},
        excluded=frozenset(),
        reranks={"bm25": {}},
        caches=False,
    )


@asynccontextmanager
async def _stub(median_ms: float, seed: int) -> AsyncIterator[str]:
    command = (sys.executable, "-m", "tests.soak.delay_stub", str(median_ms), str(seed))
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(await process.stdout.readline())}"
    finally:
        process.kill()
        await process.wait()
