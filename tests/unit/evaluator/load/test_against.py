"""The judgment of two stacks that took turns, and its report."""

import math
import random
import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from evaluator.experiments.experiment import Experiment
from evaluator.experiments.gates import Gates
from evaluator.experiments.load_plan import LoadPlan
from evaluator.load.against_report import (
    AgainstReport,
    ComparedStacks,
    DrivenPair,
    against_point,
    against_remarks,
    render_against,
)
from evaluator.load.points.ratios import LEAST_PAIRS, SlicePair, judge_speed
from evaluator.load.sending.drives import GeneratorUse, LoadedPoint
from evaluator.machine.machine_conditions import MachineConditions
from tests.support.load_samples import load_sample

SEEDS = range(4)
SHARE = r"\d+\.\d %"
WORDS = rf"slower by {SHARE}(, beyond the margin of {SHARE})?|faster by {SHARE}|no slower than {SHARE}|cannot tell"
CLAUSE = rf"p\d\d ({WORDS}) \([+-]{SHARE} to [+-]{SHARE}\)"
STACKS = ComparedStacks(("http://old", "http://new"), ("a", "a"), "bm25", 20.0, 0.05, 1)
# Two stacks that take turns on a machine whose speed wanders.
PAIRS = 20
REQUESTS = 60  # a slice
# Standard deviations of logarithms: of the machine's speed by slice, by request within a slice, of queries, and alone.
MACHINE, NEIGHBOURS, QUERIES, ALONE = 0.10, 0.15, 0.50, 0.15
MACHINE_CORRELATION, NEIGHBOUR_CORRELATION = 0.9, 0.8
STALLS, STALL_MS = 0.02, 40.0


def simulated_pairs(seed: int, slowdown: float = 1.0) -> list[SlicePair]:
    """Returns slices of 20 ms at the median; of the second stack every request takes `slowdown` times as long."""
    dice = random.Random(seed)
    machine, pairs = dice.gauss(0, MACHINE), []
    for _ in range(PAIRS):
        queries = [dice.lognormvariate(3.0, QUERIES) for _ in range(REQUESTS)]
        slices = []
        for factor in (1.0, slowdown):
            machine = _next(machine, MACHINE_CORRELATION, MACHINE, dice)
            slices.append(_slice([factor * query for query in queries], machine, dice))
        pairs.append(SlicePair(*slices))
    return pairs


def _slice(queries: list[float], machine: float, dice: random.Random) -> list[float]:
    neighbours, values = 0.0, []
    for query in queries:
        neighbours = _next(neighbours, NEIGHBOUR_CORRELATION, NEIGHBOURS, dice)
        stall = dice.expovariate(1 / STALL_MS) if dice.random() < STALLS else 0.0
        values.append(query * math.exp(machine + neighbours + dice.gauss(0, ALONE)) + stall)
    return values


def _next(value: float, correlation: float, deviation: float, dice: random.Random) -> float:
    """Returns the next value of a first-order autoregressive process."""
    return correlation * value + dice.gauss(0, deviation * math.sqrt(1 - correlation**2))


def alarms(slowdown: float) -> int:
    return sum(judge_speed("old", "new", simulated_pairs(seed, slowdown), 0.05, seed).slower for seed in SEEDS)


def test_a_slowdown_of_15_percent_is_found() -> None:
    assert alarms(1.15) >= len(SEEDS) - 1


def test_a_stack_is_hardly_ever_slower_than_itself() -> None:
    assert alarms(1.0) <= 1


@pytest.mark.parametrize("slowdown", [0.5, 1.0, 1.02, 2.0])
def test_the_sentence_has_one_grammar(slowdown: float) -> None:
    verdict = judge_speed("old", "new", simulated_pairs(7, slowdown), 0.05, 7)
    assert re.fullmatch(
        rf"new against old: {CLAUSE}(; {CLAUSE})* \(intervals: {SHARE} each, 95 % together\)\.", verdict.sentence
    )


def test_equal_slices_are_no_slower_and_small_slowdowns_are_within_the_margin() -> None:
    even = [SlicePair([10.0, 20.0, 30.0] * 100, [10.0, 20.0, 30.0] * 100)] * LEAST_PAIRS
    assert {ratio.outcome for ratio in judge_speed("old", "new", even, 0.05, 1).ratios} == {"no slower"}
    later = [SlicePair([10.0, 20.0, 30.0] * 100, [10.3, 20.6, 30.9] * 100)] * LEAST_PAIRS
    verdict = judge_speed("old", "new", later, 0.05, 1)
    assert {ratio.outcome for ratio in verdict.ratios} == {"slower"}
    assert not verdict.slower


def test_few_pairs_are_not_judged_and_few_requests_have_no_p99() -> None:
    few = simulated_pairs(1, 2.0)[: LEAST_PAIRS - 1]
    assert "cannot tell (7 pairs of slices, at least 8 are needed)" in judge_speed("old", "new", few, 0.05, 1).sentence
    short = [SlicePair(pair.first_ms[:20], pair.second_ms[:20]) for pair in simulated_pairs(1)]
    assert [ratio.percentile for ratio in judge_speed("old", "new", short, 0.05, 1).ratios] == ["p50", "p95"]


def driven(
    number: int, latency_ms: float, disturbed: bool = False, lag_ms: float = 0.1, hit: str = "d1"
) -> LoadedPoint:
    conditions = MachineConditions(seconds=3.0, cores=2, foreign=0.0, steal=None, throttled=None)
    samples = [
        load_sample(
            at, f"q{at % 12}", latency_ms + (at * 7 + number) % 5, ids=(hit,), send_lag_ms=lag_ms, disturbed=disturbed
        )
        for at in range(40)
    ]
    return LoadedPoint(tuple(samples), conditions, (GeneratorUse(0.1, 1.0),), True, datetime.now(UTC), 3.0)


JUDGMENTS = {f"q{number}": {"d1": 1} for number in range(12)}


def test_requests_that_other_work_disturbed_at_one_stack_are_left_out_at_both() -> None:
    pairs = [DrivenPair(driven(at, 10.0), driven(at, 100.0 if at < 3 else 10.0, at < 3)) for at in range(12)]
    point = against_point(STACKS, pairs, JUDGMENTS, {})
    assert point.speed is not None
    assert (point.left_out, point.timing_valid, point.speed.pairs, point.speed.slower) == (120, True, 9, False)


def test_what_a_burst_disturbed_in_every_pair_leaves_the_ratio_of_the_other_requests() -> None:
    def burst(number: int) -> LoadedPoint:
        loaded = driven(number, 10.0)
        late = {"disturbed": True, "counted_ms": 90.0}
        samples = [
            sample.model_copy(update=late if (at + number) % 3 == 0 else {}) for at, sample in enumerate(loaded.samples)
        ]
        return replace(loaded, samples=tuple(samples))

    point = against_point(STACKS, [DrivenPair(driven(at, 10.0), burst(at)) for at in range(12)], JUDGMENTS, {})
    assert point.speed is not None
    assert (point.timing_valid, point.speed.pairs, point.speed.slower) == (True, 12, False)


@pytest.mark.parametrize("slowdown", [1.0, 1.5])
def test_beside_other_work_without_end_the_ratios_of_all_pairs_are_judged_and_milliseconds_are_marked(
    slowdown: float,
) -> None:
    pairs = [DrivenPair(driven(at, 10.0, True), driven(at, slowdown * 10.0, True)) for at in range(12)]
    point = against_point(STACKS, pairs, JUDGMENTS, {})
    assert point.speed is not None
    assert (point.left_out, point.speed.pairs, point.speed.slower) == (0, 12, slowdown > 1)
    assert not point.timing_valid
    report = AgainstReport(
        plan=LoadPlan(rates=(20.0,)), seed=1, baseline="old", judged="new", margin=0.05, points=(point,)
    )
    shown = render_against(report)
    assert report.decided
    assert all(word in shown for word in ("http://old", "http://new", "at most ", "the milliseconds are marked"))


def test_late_generators_leave_no_verdict_of_times_and_quality_stays() -> None:
    pairs = [DrivenPair(driven(at, 10.0), driven(at, 10.0, lag_ms=4.0, hit="d2")) for at in range(12)]
    point = against_point(STACKS, pairs, JUDGMENTS, {})
    assert point.speed is None
    assert "http://new: 1 % of the requests left 4.0 ms or more" in point.timing_faults[0]
    assert point.quality is not None
    assert point.quality.sentence.startswith("http://new is worse than http://old: nDCG@10 -1.0000")


def test_a_percentile_that_cannot_be_told_leaves_the_comparison_untold() -> None:
    pairs = [DrivenPair(driven(at, 10.0 + 20 * (at % 2)), driven(at, 30.0 - 20 * (at % 2))) for at in range(12)]
    point = against_point(STACKS, pairs, JUDGMENTS, {})
    assert point.speed is not None
    assert {ratio.outcome for ratio in point.speed.ratios} == {"cannot tell"}
    report = AgainstReport(
        plan=LoadPlan(rates=(20.0,)), seed=1, baseline="old", judged="new", margin=0.05, points=(point,)
    )
    assert (report.decided, report.slower) == (False, False)


def test_a_comparison_tells_whose_cores_it_used_and_what_it_does_not_judge() -> None:
    point = against_point(STACKS, [DrivenPair(driven(at, 10.0), driven(at, 10.0)) for at in range(12)], JUDGMENTS, {})
    plan, urls = LoadPlan(rates=(20.0,), best_under_ms=250), ("http://127.0.0.1:1", "http://127.0.0.1:2")
    experiment = Experiment(name="small", dataset="shop", pipelines=("bm25",), gates=Gates(errors=0), load=plan)
    said = list(against_remarks(experiment, urls, [point]))
    assert [remark.partition(" ")[0] for remark in said] == ["the", "gates", "best_under_ms", "that"]
    assert said[0] == "the generators share the 2 cores of this machine with the system under test"
    bare = experiment.model_copy(update={"gates": None, "load": LoadPlan(rates=(20.0,)), "caches": True})
    assert [remark.partition(",")[0] for remark in against_remarks(bare, urls, [point])][1:] == ["caches were on"]
    report = AgainstReport(
        plan=plan, seed=1, baseline="old", judged="new", margin=0.05, points=(point,), remarks=tuple(said)
    )
    assert render_against(report).split("\n\n")[-4:] == said
