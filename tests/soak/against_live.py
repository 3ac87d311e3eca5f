"""Counts the alarms of `load --against` over comparisons of two stubs on real sockets, of which one is slower."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from evaluator.experiments.load_plan import LoadPlan
from evaluator.load.against_report import AgainstPoint, ComparedStacks, against_point
from evaluator.load.against_step import driven_pairs
from evaluator.load.points.ratios import MARGIN, SpeedVerdict
from evaluator.load.sending.traffic import LoadTarget
from services.contracts.query import SearchRequest
from tests.soak.outcome import Bar, Outcome
from tests.support.processes import ROOT

COMPARISONS = 20
SLOWDOWN = 1.15
PERCENT = f"{100 * (SLOWDOWN - 1):.0f} %"
CAUGHT, FALSE_ALARMS = 18, 2
MEDIAN_MS = 20.0
RATE = 60.0
PAIRS = 12
# Of one comparison on the mean, at most.
TRIES = 3
QUERIES = tuple(f"q{number}" for number in range(50))
SAYS = (
    f"Two stubs answer after a log-normal time of {MEDIAN_MS:.0f} ms at the median, one of them {PERCENT} "
    f"later, or neither. {RATE:.0f} requests a second go to each in turn, in {PAIRS} pairs of slices of a second. "
    "A comparison in which the machine or the generators were too busy is not judged (exit status 3) and made again, "
    f"up to {TRIES} tries for each that is wanted. Where fewer are judged than wanted, neither bar holds."
)
COLUMNS = ("stacks", "comparisons", "alarms", "p50 slower", "p50 faster", "p50 no slower", "p50 cannot tell", "p50")


async def run(seed: int, size: int = COMPARISONS) -> Outcome:
    """Makes comparisons of each kind until `size` of them are judged."""
    (slower, slower_faults), (same, same_faults) = [await _judged(seed, kind, size) for kind in (SLOWDOWN, 1.0)]
    rows = (
        (*row(f"{PERCENT} slower", slower), str(len(slower_faults))),
        (*row("the same", same), str(len(same_faults))),
    )
    held = bars(slower, same, size)
    return Outcome("against_live", SAYS, seed, (*COLUMNS, "not judged"), rows, held, (*slower_faults, *same_faults))


def row(name: str, verdicts: list[SpeedVerdict]) -> tuple[str, ...]:
    """Returns the row of some comparisons: alarms, outcomes of p50, and the range of its ratios."""
    p50s = [verdict.ratios[0] for verdict in verdicts]
    outcomes = [sum(one.outcome == kind for one in p50s) for kind in ("slower", "faster", "no slower", "cannot tell")]
    ratios = [one.ratio for one in p50s]
    alarms = sum(verdict.slower for verdict in verdicts)
    spread = f"{min(ratios):.3f} to {max(ratios):.3f}" if ratios else "–"
    return (name, str(len(verdicts)), str(alarms), *map(str, outcomes), spread)


def bars(slower: list[SpeedVerdict], same: list[SpeedVerdict], size: int) -> tuple[Bar, Bar]:
    """Returns the two promises, scaled where `size` is less than 20; neither holds where fewer were judged."""
    few = [f" ({size} wanted)" if len(found) < size else "" for found in (slower, same)]
    caught, raised = (sum(verdict.slower for verdict in found) for found in (slower, same))
    return (
        Bar(
            f"p50 {PERCENT} longer: at least {CAUGHT} of {COMPARISONS} caught",
            f"{caught} of {len(slower)}{few[0]}",
            not few[0] and caught >= CAUGHT / COMPARISONS * len(slower),
            needs_cores=True,
        ),
        Bar(
            f"a stack with itself: at most {FALSE_ALARMS} of {COMPARISONS} alarms",
            f"{raised} of {len(same)}{few[1]}",
            not few[1] and raised <= max(1, FALSE_ALARMS / COMPARISONS * len(same)),
            needs_cores=True,
        ),
    )


async def _judged(seed: int, slowdown: float, size: int) -> tuple[list[SpeedVerdict], list[str]]:
    """Returns the verdicts, at most `size`, and why each of the others was not judged."""
    verdicts: list[SpeedVerdict] = []
    faults: list[str] = []
    for number in range(size * TRIES):
        point = await _compared(seed + number, slowdown)
        if point.speed is None:
            faults.append("; ".join(point.timing_faults))
        else:
            verdicts.append(point.speed)
        if len(verdicts) == size:
            break
    return verdicts, faults


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
