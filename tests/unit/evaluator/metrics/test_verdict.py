"""A verdict is one of four sentences with a fixed grammar; each names queries and minimum detectable difference."""

import random
import re

import pytest

from evaluator.metrics.verdict import NoWorseGate, PairedComparison, ScoredPair, compare_pairs, no_worse_gate

NUMBER = r"[+-]\d\.\d{4}"
P = r"p (= \d\.\d{4}|< 0\.0001)"
GRAMMAR = re.compile(
    r"(B is (better|worse) than A(, by less than 0\.01)?|B is the same as A( within 0\.01)?"
    r"|This collection cannot tell B from A)"
    rf": nDCG@10 {NUMBER} \((95 % interval {NUMBER} to {NUMBER}"
    rf"(, although two one-sided tests keep to 0\.01 with {P})?|no interval)(; |, although )"
    rf"{P}( after Holm over \d+)?\)"
    r"\. [\d,]+ quer(y|ies)(, although only differences above \d\.\d{4} are found reliably"
    r"|; minimum detectable difference"
    r"( \d\.\d{4}( \([\d,]+ queries would find the one seen\))?|: so few can detect none"
    r"|: none can be estimated, because every query has the same one))\."
)


def compared(mean: float, spread: float, queries: int = 300, family: int = 1) -> PairedComparison:
    """Compares two systems of the given mean difference and spread of differences."""
    dice = random.Random(7)
    first = [dice.random() for _ in range(queries)]
    noise = [dice.gauss(0.0, spread) for _ in range(queries)]
    centred = [value - sum(noise) / queries + mean for value in noise]
    pair = ScoredPair("A", "B", first, [value + gain for value, gain in zip(first, centred, strict=True)])
    same = ScoredPair("A", "C", first, first)
    return compare_pairs([pair, *[same] * (family - 1)], "nDCG@10", 7)[0]


@pytest.mark.parametrize(
    ("mean", "spread", "words"),
    [
        (0.03, 0.1, "B is better than A: nDCG@10 +0.0300"),
        (-0.03, 0.1, "B is worse than A: nDCG@10 -0.0300"),
        (0.004, 0.01, "B is better than A, by less than 0.01: nDCG@10 +0.0040"),
        (0.0005, 0.02, "B is the same as A within 0.01: nDCG@10 +0.0005"),
        (0.005, 0.1, "This collection cannot tell B from A: nDCG@10 +0.0050"),
    ],
)
def test_a_verdict_follows_difference_and_spread(mean: float, spread: float, words: str) -> None:
    sentence = compared(mean, spread).sentence
    assert sentence.startswith(words)
    assert GRAMMAR.fullmatch(sentence), sentence


def test_a_difference_that_cannot_be_told_comes_with_the_queries_it_needs() -> None:
    found = compared(0.005, 0.1)
    assert found.sentence.endswith(f"0.0162 ({found.queries_needed:,} queries would find the one seen).")


def test_a_difference_that_is_told_below_the_one_that_is_found_reliably_comes_with_although() -> None:
    found = compared(0.0125, 0.1)
    assert (found.outcome, found.minimum_detectable is not None) == ("better", True)
    assert found.sentence.endswith("300 queries, although only differences above 0.0162 are found reliably.")
    assert "although" not in compared(0.03, 0.1).sentence


def test_a_family_that_cannot_tell_what_an_interval_tells_comes_with_although() -> None:
    found = compared(0.0125, 0.1, family=5)
    assert found.interval is not None
    assert (found.outcome, found.interval[0] > 0) == ("cannot tell", True)
    assert f"{found.interval[1]:+.4f}, although p = {found.p_holm:.4f} after Holm over 5)" in found.sentence
    assert GRAMMAR.fullmatch(found.sentence), found.sentence


@pytest.mark.parametrize(("mean", "spread"), [(0.0079, 0.022), (0.0005, 0.0965)])
def test_no_sentence_keeps_to_a_margin_that_its_interval_leaves_without_although(mean: float, spread: float) -> None:
    found = compared(mean, spread)
    assert found.interval is not None
    beyond = max(-found.interval[0], found.interval[1]) > found.margin
    claimed = "within" in found.sentence or "by less than" in found.sentence
    assert ("two one-sided tests keep to 0.01" in found.sentence) == (beyond and claimed)
    assert GRAMMAR.fullmatch(found.sentence), found.sentence


def test_systems_that_are_equal_on_every_query_are_the_same() -> None:
    values = [0.0, 0.5, 1.0] * 100
    (found,) = compare_pairs([ScoredPair("A", "B", values, values)], "nDCG@10", 7)
    assert (found.outcome, found.difference, found.p, found.ties) == ("same", 0.0, 1.0, 300)
    assert found.sentence == (
        "B is the same as A: nDCG@10 +0.0000 (95 % interval +0.0000 to +0.0000; p = 1.0000). 300 queries, "
        "with equal values on each."
    )


@pytest.mark.parametrize("queries", [1, 5])
def test_up_to_five_queries_cannot_tell(queries: int) -> None:
    found = compared(0.5, 0.01, queries)
    assert found.outcome == "cannot tell"
    assert found.sentence.endswith("so few can detect none.")
    assert GRAMMAR.fullmatch(found.sentence), found.sentence


def test_wins_ties_and_losses_are_counted_for_the_second() -> None:
    (found,) = compare_pairs([ScoredPair("A", "B", [0, 0, 0.5, 1], [0.5, 1, 0.5, 0])], "nDCG@10", 7)
    assert (found.wins, found.ties, found.losses) == (2, 1, 1)


def test_one_difference_on_every_query_has_no_minimum_detectable_one() -> None:
    (found,) = compare_pairs([ScoredPair("A", "B", [0.5] * 300, [0.6] * 300)], "nDCG@10", 7)
    assert found.sentence.startswith("B is better than A: nDCG@10 +0.1000 ")
    assert GRAMMAR.fullmatch(found.sentence), found.sentence


def gate_of(mean: float, spread: float, queries: int = 300) -> NoWorseGate:
    """Returns the gate at 0.01 of two systems with these differences, evenly around their mean."""
    first = [0.5, 0.6] * (queries // 2)
    second = [value + mean + spread * (-1) ** at for at, value in enumerate(first)]
    pair = ScoredPair("A", "B", first, second)
    (verdict,) = compare_pairs([pair], "MAP@20", 7)
    return no_worse_gate(pair, verdict, 0.01)


@pytest.mark.parametrize("mean", [0.0, 0.0673, -0.001])
def test_the_gate_passes_what_is_shown_to_be_not_worse_by_the_margin(mean: float) -> None:
    found = gate_of(mean, 0.001)
    assert found.passed
    assert found.sentence == "Gate passed: B is not worse than A by 0.01 or more in MAP@20 (p < 0.0001)."


def test_a_failed_gate_says_that_a_system_is_worse_and_by_how_much() -> None:
    assert gate_of(-0.02, 0.001).sentence == (
        "Gate failed: not shown that B is not worse than A by 0.01 or more in MAP@20 (p = 1.0000): "
        "it is worse, by 0.0200."
    )


def test_a_gate_over_too_few_queries_names_how_many_its_margin_needs() -> None:
    found = gate_of(0.0, 0.2)
    # Normal approximation: ((1.645 + 0.842) * 0.2 / 0.01)^2.
    assert found.queries_needed == pytest.approx(2_473, rel=0.01)
    assert found.sentence == (
        "Gate failed: not shown that B is not worse than A by 0.01 or more in MAP@20 (p = 0.1940). "
        f"Between equal systems, {found.queries_needed:,} queries would show it; these are 300."
    )


def test_a_gate_is_not_passed_by_a_handful_of_equal_queries() -> None:
    assert [gate_of(0.0, 0.0, queries).passed for queries in (4, 6)] == [False, True]
