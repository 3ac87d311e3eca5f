"""Intervals and the sample ratio are those of an independent implementation, and honest at the first looks."""

import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.metrics.sequential import DifferenceSequence, MeanSequence, SampleRatio, outcome, units_needed

GOLDEN = json.loads((Path(__file__).parents[3] / "golden" / "sequences.json").read_text())
Unit = tuple[bool, float, float]
EQUAL = {"control": 0.5, "treated": 0.5}


def difference(units: list[Unit]) -> DifferenceSequence:
    sequence = DifferenceSequence()
    for treated, share, value in units:
        sequence.add(treated, share, value)
    return sequence


def ratio(arms: list[str], shares: dict[str, float]) -> SampleRatio:
    found = SampleRatio()
    for arm in arms:
        found.add(arm, shares)
    return found


def drawn(seed: int, share: float, rates: tuple[float, float], count: int) -> list[Unit]:
    dice = random.Random(seed)
    return [(side := dice.random() < share, share, float(dice.random() < rates[side])) for _ in range(count)]


@pytest.mark.parametrize("case", GOLDEN["differences"])
def test_a_difference_has_the_interval_of_the_integrated_mixture(case: dict[str, list[Unit]]) -> None:
    sequence = difference(case["units"])
    assert sequence.difference == pytest.approx(case["difference"], rel=1e-9)
    assert sequence.interval == pytest.approx(case["interval"], rel=1e-8)


@pytest.mark.parametrize("case", GOLDEN["means"])
def test_a_mean_has_the_interval_of_the_integrated_mixture(case: dict[str, list[float]]) -> None:
    sequence = MeanSequence()
    for value in case["values"]:
        sequence.add(value)
    assert sequence.interval == pytest.approx(case["interval"], rel=1e-8)


@pytest.mark.parametrize("case", GOLDEN["ratios"])
def test_the_sample_ratio_has_the_bayes_factors_of_the_package_beside_its_paper(case: dict[str, list[float]]) -> None:
    shares = {str(arm): share for arm, share in enumerate(case["shares"])}
    for units, factor in zip((1, 100, 400), case["factors"], strict=True):
        assert ratio([str(arm) for arm in case["arms"][:units]], shares).bayes_factor == pytest.approx(factor, rel=1e-9)


def test_there_is_no_interval_before_100_units_of_each_arm_nor_of_values_that_do_not_vary() -> None:
    units = [(at % 2 == 1, 0.5, float(at % 3)) for at in range(200)]
    assert difference(units[:199]).interval is None
    assert difference(units).interval is not None
    assert difference([(treated, share, 0.0) for treated, share, _ in units]).interval is None
    assert units_needed(MeanSequence(), 0.1) is None


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1_000), st.sampled_from([0.1, 0.5, 0.8]), st.floats(-50, 50), st.floats(0.1, 10))
def test_an_interval_follows_offset_scale_and_the_exchange_of_the_arms(
    seed: int, share: float, offset: float, scale: float
) -> None:
    units = drawn(seed, share, (0.3, 0.4), 1_500)
    low, high = difference(units).interval or (0.0, 0.0)
    moved = difference([(side, share, offset + scale * value) for side, share, value in units]).interval
    assert moved == pytest.approx((scale * low, scale * high), rel=1e-6, abs=1e-9)
    exchanged = difference([(not side, 1 - share, value) for side, share, value in units]).interval
    assert exchanged == pytest.approx((-high, -low), rel=1e-6, abs=1e-9)


def test_an_arm_that_by_chance_has_no_click_is_not_worse() -> None:
    units = [(at % 10 == 9, 0.1, float(at % 50 == 0)) for at in range(1_500)]
    assert outcome(difference(units).interval) == "cannot tell"


@pytest.mark.parametrize(
    ("interval", "word"),
    [
        (None, "cannot tell"),
        ((0.001, 0.002), "better"),
        ((-0.3, -0.1), "worse"),
        ((-0.009, 0.009), "same"),
        ((-0.009, 0.01), "cannot tell"),
        ((0.0, 0.2), "cannot tell"),
    ],
)
def test_the_outcome_is_read_from_the_interval(interval: tuple[float, float] | None, word: str) -> None:
    assert outcome(interval) == word


def test_an_effect_is_seen_within_the_units_needed_in_four_of_five_experiments() -> None:
    rates, share = (0.3, 0.4), 0.5
    needed = units_needed(difference(drawn(0, share, rates, 2_000)), rates[1] - rates[0])
    assert needed is not None
    seen = sum(outcome(difference(drawn(seed, share, rates, needed)).interval) == "better" for seed in range(1, 61))
    assert 0.68 * 60 <= seen <= 0.92 * 60  # 80 %, and its Monte Carlo error


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from(["control", "treated"]), max_size=60), st.randoms(use_true_random=False))
def test_a_bayes_factor_ignores_the_order_and_is_a_product_over_sets_of_shares(
    arms: list[str], dice: random.Random
) -> None:
    other, found = {"control": 0.9, "treated": 0.1}, SampleRatio()
    units = [(arm, shares) for arm in arms for shares in (EQUAL, other)]
    dice.shuffle(units)
    for arm, shares in units:
        found.add(arm, shares)
    product = ratio(arms, EQUAL).bayes_factor * ratio(arms, other).bayes_factor
    assert found.bayes_factor == pytest.approx(product, rel=1e-9)


def test_an_alarm_stays() -> None:
    found = ratio(["control"] * 200 + ["treated"] * 200, EQUAL)
    assert found.bayes_factor < 1
    assert found.alarm
    assert not ratio(["control", "treated"] * 200, EQUAL).alarm
