"""A verdict is one of four sentences with a fixed grammar; each names queries and minimum detectable difference."""

import random
import re

import pytest

from evaluator.comparison.verdict import PairedComparison, ScoredPair, compare_pairs, no_worse_gate

NUMBER = r"[+-]\d\.\d{4}"
GRAMMAR = re.compile(
    r"(B is (better|worse) than A(, by less than 0\.01)?|B is the same as A( within 0\.01)?"
    r"|This collection cannot tell B from A)"
    rf": nDCG@10 {NUMBER} \((95 % interval {NUMBER} to {NUMBER}|no interval); "
    r"p (= \d\.\d{4}|< 0\.0001)( after Holm over \d+)?\)"
    r"\. [\d,]+ quer(y|ies); minimum detectable difference"
    r"( \d\.\d{4}( \([\d,]+ queries would find the one seen\))?|: so few can detect none"
    r"|: it cannot be estimated, because all differences are equal)\."
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


def test_systems_that_are_equal_on_every_query_are_the_same() -> None:
    values = [0.0, 0.5, 1.0] * 100
    (found,) = compare_pairs([ScoredPair("A", "B", values, values)], "nDCG@10", 7)
    assert (found.outcome, found.difference, found.p, found.ties) == ("same", 0.0, 1.0, 300)
    assert found.sentence == (
        "B is the same as A: nDCG@10 +0.0000 (95 % interval +0.0000 to +0.0000; p = 1.0000). 300 queries; "
        "minimum detectable difference: it cannot be estimated, because all differences are equal."
    )


def test_a_difference_that_is_certain_alone_may_not_be_so_in_a_family() -> None:
    alone, in_family = compared(0.0125, 0.1), compared(0.0125, 0.1, family=5)
    assert (alone.outcome, in_family.outcome) == ("better", "cannot tell")
    assert "after Holm over 5" in in_family.sentence


@pytest.mark.parametrize("queries", range(1, 6))
def test_up_to_five_queries_cannot_tell(queries: int) -> None:
    found = compared(0.5, 0.01, queries)
    assert found.outcome == "cannot tell"
    assert found.sentence.endswith("so few can detect none.")
    assert GRAMMAR.fullmatch(found.sentence), found.sentence


def test_wins_ties_and_losses_are_counted_for_the_second() -> None:
    (found,) = compare_pairs([ScoredPair("A", "B", [0, 0, 0.5, 1], [0.5, 1, 0.5, 0])], "nDCG@10", 7)
    assert (found.wins, found.ties, found.losses) == (2, 1, 1)


def test_the_gate_passes_what_is_certainly_no_worse_than_the_margin() -> None:
    first = [0.5, 0.6] * 150
    alike = ScoredPair("A", "B", first, [value + 0.001 * (-1) ** at for at, value in enumerate(first)])
    worse = ScoredPair("A", "B", first, [value - 0.02 - 0.001 * (-1) ** at for at, value in enumerate(first)])
    passed, failed = (no_worse_gate(pair, "MAP@20", 0.01).sentence for pair in (alike, worse))
    assert passed == "Gate passed: B is worse than A by less than 0.01 in MAP@20 (p < 0.0001)."
    assert failed.startswith("Gate failed: not shown that B is worse than A by less than 0.01 in MAP@20 (p = ")


def test_a_gate_is_not_passed_by_a_handful_of_equal_queries() -> None:
    assert not no_worse_gate(ScoredPair("A", "B", [0.5] * 4, [0.5] * 4), "nDCG@10", 0.01).passed
    assert no_worse_gate(ScoredPair("A", "B", [0.5] * 5, [0.5] * 5), "nDCG@10", 0.01).passed
