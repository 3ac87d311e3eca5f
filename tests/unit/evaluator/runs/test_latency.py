"""Percentiles are observed values, and a p99 of few samples is refused."""

import random

import pytest
from pydantic import ValidationError, model_validator

from evaluator.runs.breakdown import StageTime
from evaluator.runs.latency import Latency, Timed, carry_validity, paired_ratio, percentile, summarise
from services.contracts.base import Wire


def test_percentiles_of_one_to_a_hundred_are_their_ranks() -> None:
    values = [float(value) for value in range(1, 101)]
    assert [percentile(values, share) for share in (0.5, 0.95, 0.99, 1.0)] == [50, 95, 99, 100]


def test_a_p99_needs_662_samples() -> None:
    assert summarise([1.0] * 661).p99.unchecked_ms is None
    assert summarise([1.0] * 662).p99.unchecked_ms == 1.0


def test_a_p99_comes_with_its_interval_from_order_statistics() -> None:
    found = summarise([float(value) for value in range(1, 1_001)]).p99_interval
    assert found is not None
    low, high = (time.unchecked_ms for time in found)
    # Binomial of 1,000 and 0.99: 983 and 996 are its 2.5 % and 97.5 % quantiles.
    assert (low, high) == (983.0, 997.0)
    assert summarise([1.0] * 661).p99_interval is None


def test_no_samples_give_no_figures() -> None:
    found = summarise([]).model_dump()
    assert (found.pop("n"), found.pop("disturbed"), found.pop("least")) == (0, 0.0, {})
    assert set(found.values()) == {None}


@pytest.mark.parametrize("seed", range(4))
def test_the_interval_of_a_disturbed_percentile_contains_what_it_is_without_the_disturbance(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(200):
        true = [10 * dice.lognormvariate(0, 0.4) for _ in range(dice.randrange(20, 800))]
        share = dice.uniform(0, 0.6)
        hit = [dice.random() < share for _ in true]
        seen = [ms + dice.expovariate(0.05) if late else ms for ms, late in zip(true, hit, strict=True)]
        found, exact = summarise(seen, sum(hit) / len(hit)), summarise(true)
        for name in ("p50", "p95", "max"):
            least, ms = found.least.get(name, 0.0), getattr(exact, name).unchecked_ms
            assert least <= ms <= getattr(found, name).unchecked_ms


def test_a_percentile_is_marked_with_its_interval_where_that_is_wider_than_a_tenth() -> None:
    found = summarise([float(ms) for ms in range(1, 101)], disturbed=0.04)
    assert (found.p50.cell(), found.p95.cell()) == ("50.0", "95.0")
    wide = summarise([float(ms) for ms in range(1, 101)], disturbed=0.1)
    assert (wide.p50.cell(), wide.p50.held_ms) == ("40.0 to 50.0?", None)
    assert Latency.model_validate_json(wide.model_dump_json()).p50.cell() == wide.p50.cell()
    assert summarise([1.0, 2.0], disturbed=1.0).p50.cell() == "at most 1.0?"


@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_median_of_few_is_the_lower_middle_one(n: int) -> None:
    assert summarise([float(value) for value in range(n)]).p50.unchecked_ms == (n - 1) // 2


@pytest.mark.parametrize(
    ("ms", "valid", "shown", "held"),
    [(1.25, True, "1.2", 1.25), (1.25, None, "1.2", 1.25), (1.25, False, "1.2?", None), (None, False, "–", None)],
)
def test_a_time_that_does_not_hold_is_marked_and_is_neither_judged_nor_drawn(
    ms: float | None, valid: bool | None, shown: str, held: float | None
) -> None:
    assert (Timed(ms, valid).cell(), Timed(ms, valid).held_ms) == (shown, held)


class _Timed(Wire):
    _carries_validity = model_validator(mode="wrap")(carry_validity)

    latency_ms: Latency
    stages_ms: dict[str, StageTime]
    timing_valid: bool | None


@pytest.mark.parametrize("valid", [True, False, None])
def test_every_time_takes_the_validity_of_its_report_when_made_and_when_read(valid: bool | None) -> None:
    stage = StageTime(p50=2.0, p95=3.0, n=2)
    made = _Timed(latency_ms=summarise([1.0, 2.0]), stages_ms={"dense": stage}, timing_valid=valid)
    read = _Timed.from_record(made.model_dump_json())
    assert read == made
    for one in (made, read):
        assert one.latency_ms.p50 == Timed(1.0, valid)
        assert one.stages_ms["dense"].p95 == Timed(3.0, valid)
    assert made.model_dump()["latency_ms"]["p50"] == 1.0
    assert stage.p95 == Timed(3.0, None)


def test_a_time_that_is_no_finite_number_is_refused() -> None:
    with pytest.raises(ValidationError):
        StageTime(p50="fast", p95=float("nan"), n=2)


def test_a_ratio_is_of_the_queries_that_both_answered_and_other_work_that_meets_both_leaves_it() -> None:
    dice = random.Random(1)
    first = {str(at): 10 * dice.lognormvariate(0, 0.5) for at in range(100)}
    disturbed = {query: 1.0 + (int(query) % 3 == 0) for query in first}
    alone = paired_ratio(first, {query: 1.5 * ms for query, ms in first.items()} | {"more": 1.0})
    beside = paired_ratio(
        {query: ms * disturbed[query] for query, ms in first.items()},
        {query: 1.5 * ms * disturbed[query] for query, ms in first.items()},
    )
    assert alone is not None
    assert beside is not None
    assert (alone.ratio, alone.queries) == (pytest.approx(1.5), 100)
    assert beside.ratio == pytest.approx(alone.ratio)
    assert paired_ratio(first, {"0": 3.0}) is None
