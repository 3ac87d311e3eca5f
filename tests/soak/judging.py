"""Counts the judgments until a verdict is reached for good, and until it may be stopped, by judge next and at random.

Collections are simulated (`tests/support/simulated_judging.py`), so that the verdict with all judgments is known.
"""

import asyncio
import math
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evaluator.comparison.verdict import Outcome as Verdict
from evaluator.comparison.verdict import outcomes_of
from evaluator.judging.compared_pool import ComparedPool, compared_pool
from evaluator.judging.judge_next import JudgeNext
from evaluator.judging.outlook import CONFIDENCE, grade_counts, verdict_outlooks
from evaluator.judging.pool import PooledPair, pooled_pairs
from tests.soak.outcome import Bar, Outcome
from tests.support.simulated_judging import QUERIES, TOP, Known, simulated_collection

SIMULATIONS = 50  # of each kind
RANDOM_ORDERS = 2  # of a simulation; their mean counts
STEP = 0.03  # of the pool: how often the verdict is looked at
MOST_SHARE = 2 / 3
LEAST_RIGHT = 0.9
KINDS = {"none judged before": False, "an older system judged before": True}
COLUMNS = (
    "collections",
    "simulations",
    "pool",
    "verdict changes",
    "order",
    "judgments until the final verdict stays",
    "until judging may stop",
    "right there",
)
SAYS = (
    f"Two simulated systems over {QUERIES} queries; the pool is their top {TOP}, without what was judged before. "
    "Systems differ by a draw around 0, so that the final verdict, by `evaluator/comparison/verdict.py` with the whole "
    "pool judged, is often that the collection cannot tell. Counts are means over the simulations.\n\n"
    "*Until the final verdict stays*: judgments after which the verdict is the final one and no later judgment changes "
    "it, looked at every 3 % of the pool; unjudged documents count as not relevant. It is known only afterwards. "
    f"*Until judging may stop*: where at least {CONFIDENCE:.0%} of the drawn completions of the judgments have the "
    "present verdict (`evaluator/judging/outlook.py`), as judges are told. *Right there*: the verdict at the stop is "
    "the final one. Random orders shuffle all pairs of the pool; the same rule stops them. *Verdict changes*: "
    "simulations whose final verdict is not that of the judgments before. Where the documents of an older system are "
    "judged, few verdicts change, and there is less to save."
)

Order = Sequence[tuple[PooledPair, int]]  # pairs with their true grades


@dataclass(frozen=True, slots=True)
class JudgedOrder:
    """Judgments of one order: until the final verdict stays, until they may stop, and whether they stop right."""

    needed: int
    stopped: int
    right: bool


@dataclass(frozen=True, slots=True)
class JudgedSimulation:
    """One collection judged to its end in the order of judge next and in random ones."""

    seed: int
    pool: int
    changes: bool
    by_impact: JudgedOrder
    by_chance: tuple[JudgedOrder, ...]


def judged_in(pool: ComparedPool, judged: Known, order: Order, seed: int, share: float) -> tuple[JudgedOrder, bool]:
    """Judges the pairs in their order. Returns the counts, and whether the verdict at the end is not the first one.

    `share`: of the pool, between two looks at the verdict.
    """
    grades = {query: dict(known) for query, known in judged.items()}
    step = max(1, math.ceil(share * len(order)))
    points = [*range(0, len(order), step), len(order)]
    verdicts: list[Verdict] = []
    stopped = None
    done = 0
    for point in points:
        for pair, grade in order[done:point]:
            grades[pair.query][pair.document] = grade
        done = point
        verdicts.append(outcomes_of(pool.differences(grades), seed)[0])
        if stopped is None:
            left = [pair for pair, _ in order[point:]]
            counts = grade_counts(pool, dict(order[:point]))
            stopped = point if verdict_outlooks(pool, grades, left, counts, seed)[0].settled else None
    assert stopped is not None, "judging may stop where no pair is left"
    last_other = max((at for at, verdict in enumerate(verdicts) if verdict != verdicts[-1]), default=-1)
    right = verdicts[points.index(stopped)] == verdicts[-1]
    return JudgedOrder(points[last_other + 1], stopped, right), verdicts[0] != verdicts[-1]


def simulated(seed: int, with_older: bool, share: float = STEP) -> JudgedSimulation:
    """Judges one simulated collection in each order."""
    found = simulated_collection(seed, with_older)
    rankings = (found.first, found.second)
    pool = compared_pool(rankings, list(found.truth))
    pairs = pooled_pairs(rankings, found.judged, pool.queries, TOP, seed)
    graded = [(pair, found.truth[pair.query][pair.document]) for pair in pairs]
    by_impact, changes = judged_in(pool, found.judged, impact_order(pool, found.judged, dict(graded)), seed, share)
    dice = random.Random(seed)
    orders = [dice.sample(graded, len(graded)) for _ in range(RANDOM_ORDERS)]
    by_chance = tuple(judged_in(pool, found.judged, order, seed, share)[0] for order in orders)
    return JudgedSimulation(seed, len(pairs), changes, by_impact, by_chance)


def impact_order(pool: ComparedPool, judged: Known, grades: dict[PooledPair, int]) -> Order:
    """Returns the pairs in the order of judge next, each asked for after the grades of those before."""
    following = JudgeNext(pool, judged, list(grades), {})
    order = []
    while (pair := following.first()) is not None:
        order.append((pair, grades[pair]))
        following.add(pair, grades[pair])
    return order


async def run(seed: int, size: int = SIMULATIONS, kinds: Mapping[str, bool] = KINDS, share: float = STEP) -> Outcome:
    """Judges `size` simulated collections of each kind. `share`: of the pool, between two looks at the verdict."""
    rows, bars, broken = [], [], []
    for number, (name, with_older) in enumerate(kinds.items()):
        seeds = range(seed + number * size, seed + (number + 1) * size)
        found = [await asyncio.to_thread(simulated, one, with_older, share) for one in seeds]
        orders = {
            "judge next": [one.by_impact for one in found],
            "random": [order for one in found for order in one.by_chance],
        }
        pool = statistics.fmean(one.pool for one in found)
        changes = sum(one.changes for one in found)
        for order, judged in orders.items():
            needed, stopped, right = _means(judged)
            cells = (f"{pool:.0f}", str(changes), order, f"{needed:.0f}", f"{stopped:.0f}", f"{right:.0%}")
            rows.append((name, str(size), *cells))
        bars += _bars(name, with_older, orders["judge next"], orders["random"])
        broken += [f"{name}, seed {one.seed}: stopped wrong" for one in found if not one.by_impact.right]
    return Outcome("judging", SAYS, seed, COLUMNS, tuple(rows), tuple(bars), tuple(broken))


def _bars(name: str, with_older: bool, by_impact: Sequence[JudgedOrder], by_chance: Sequence[JudgedOrder]) -> list[Bar]:
    """Returns the promises: a third fewer judgments where none was judged before, elsewhere no more than at random."""
    most, words = (1.0, "no more") if with_older else (MOST_SHARE, "at least a third fewer")
    (needed, stopped, right), (needed_by_chance, stopped_by_chance, _) = _means(by_impact), _means(by_chance)
    return [
        Bar(
            f"{name}: {words} judgments than in random order until the final verdict stays",
            f"{needed:.0f} of {needed_by_chance:.0f}",
            needed <= most * needed_by_chance,
        ),
        Bar(
            f"{name}: {words} judgments than in random order until judging may stop",
            f"{stopped:.0f} of {stopped_by_chance:.0f}",
            stopped <= most * stopped_by_chance,
        ),
        Bar(
            f"{name}: at least {LEAST_RIGHT:.0%} of the verdicts are the final one where judge next may stop",
            f"{right:.0%}",
            right >= LEAST_RIGHT,
        ),
    ]


def _means(judged: Sequence[JudgedOrder]) -> tuple[float, float, float]:
    count = len(judged)
    needed, stopped, right = (
        sum(column) / count for column in zip(*((one.needed, one.stopped, one.right) for one in judged), strict=True)
    )
    return needed, stopped, right
