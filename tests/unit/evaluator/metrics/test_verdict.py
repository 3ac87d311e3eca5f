"""A verdict is one of four sentences with a fixed grammar, whose figures agree with its outcome."""

import random
import re

import pytest

from evaluator.metrics.verdict import NoWorseGate, PairedComparison, ScoredPair, compare_pairs, no_worse_gate

NUMBER = r"[+-]\d\.\d{4}"
GRAMMAR = re.compile(
    r"(B is (better|worse) than A(, by less than 0\.01)?|B is the same as A( within 0\.01)?"
    r"|This collection cannot tell B from A)"
    rf": nDCG@10 {NUMBER} \((95 % interval {NUMBER} to {NUMBER}, p (= \d\.\d{{4}}|< 0\.0001)"
    r"(, of \d+ pairs together)?|no interval)\)\. [\d,]+ quer(y|ies)(, too few to show anything)?\."
)


def scored(first: list[float], second: list[float], name: str = "B") -> ScoredPair:
    return ScoredPair(
        "A", name, *({f"q{number}": value for number, value in enumerate(side)} for side in (first, second))
    )


def compared(mean: float, spread: float, queries: int = 300, family: int = 1) -> PairedComparison:
    """Compares two systems of the given mean difference and spread of differences."""
    dice = random.Random(7)
    first = [dice.random() for _ in range(queries)]
    noise = [dice.gauss(0.0, spread) for _ in range(queries)]
    gains = [value - sum(noise) / queries + mean for value in noise]
    others = [[dice.gauss(0.0, 0.1) for _ in range(queries)] for _ in range(family - 1)]
    pairs = [
        scored(first, [value + gain for value, gain in zip(first, by_query, strict=True)], name)
        for name, by_query in zip("BCDEFGH", [gains, *others], strict=False)
    ]
    return compare_pairs(pairs, "nDCG@10")[0]


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


def test_a_difference_that_cannot_be_told_has_the_queries_that_it_needs() -> None:
    verdict = compared(0.005, 0.1)
    assert verdict.queries_needed == pytest.approx(((1.96 + 0.8416) * 0.1 / 0.005) ** 2, rel=0.05)
    assert verdict.minimum_detectable == pytest.approx((1.96 + 0.8416) * 0.1 / 300**0.5, rel=0.05)


def test_a_family_decides_as_its_interval_does() -> None:
    single, of_five = compared(0.0125, 0.1), compared(0.0125, 0.1, family=5)
    assert (single.outcome, of_five.outcome, of_five.family) == ("better", "cannot tell", 5)
    for verdict in (single, of_five):
        assert verdict.interval is not None
        assert (verdict.interval[0] > 0) == (verdict.outcome == "better")
        assert GRAMMAR.fullmatch(verdict.sentence), verdict.sentence


@pytest.mark.parametrize(("mean", "spread"), [(0.0079, 0.022), (0.0005, 0.0965)])
def test_no_sentence_keeps_to_a_margin_that_its_interval_leaves(mean: float, spread: float) -> None:
    verdict = compared(mean, spread)
    assert verdict.interval is not None
    beyond = max(-verdict.interval[0], verdict.interval[1]) > verdict.margin
    assert beyond != ("within" in verdict.sentence or "by less than" in verdict.sentence)


def test_systems_that_are_equal_on_every_query_are_the_same() -> None:
    values = [0.0, 0.5, 1.0] * 100
    (verdict,) = compare_pairs([scored(values, values)], "nDCG@10")
    assert (verdict.outcome, verdict.difference, verdict.p, verdict.ties) == ("same", 0.0, 1.0, 300)
    assert verdict.sentence == (
        "B is the same as A: nDCG@10 +0.0000 (95 % interval +0.0000 to +0.0000, p = 1.0000). 300 queries."
    )


@pytest.mark.parametrize("queries", [1, 5])
def test_up_to_five_queries_cannot_tell(queries: int) -> None:
    verdict = compared(0.5, 0.01, queries)
    assert verdict.outcome == "cannot tell"
    assert verdict.sentence.endswith("too few to show anything.")
    assert GRAMMAR.fullmatch(verdict.sentence), verdict.sentence


def test_wins_ties_and_losses_are_counted_for_the_second() -> None:
    (verdict,) = compare_pairs([scored([0, 0, 0.5, 1], [0.5, 1, 0.5, 0])], "nDCG@10")
    assert (verdict.wins, verdict.ties, verdict.losses) == (2, 1, 1)


def gate_of(mean: float, spread: float, queries: int = 300) -> NoWorseGate:
    """Returns the gate at 0.01 of two systems with these differences, evenly around their mean."""
    first = [0.5, 0.6] * (queries // 2)
    second = [value + mean + spread * (-1) ** at for at, value in enumerate(first)]
    (verdict,) = compare_pairs([scored(first, second)], "MAP@20")
    return no_worse_gate(verdict, 0.01)


@pytest.mark.parametrize("mean", [0.0, 0.0673, -0.001])
def test_the_gate_passes_what_is_shown_to_be_not_worse_by_the_margin(mean: float) -> None:
    gate = gate_of(mean, 0.001)
    assert gate.passed
    assert gate.sentence.startswith("Gate passed: B is not worse than A by 0.01 or more in MAP@20 (95 % interval from ")


def test_a_failed_gate_says_that_a_system_is_worse_and_by_how_much() -> None:
    assert gate_of(-0.02, 0.001).sentence.endswith("): it is worse, by 0.0200.")


def test_a_gate_over_too_few_queries_names_how_many_its_margin_needs() -> None:
    gate = gate_of(0.0, 0.2)
    # Normal approximation: ((1.96 + 0.842) * 0.2 / 0.01)^2.
    assert gate.queries_needed == pytest.approx(3_140, rel=0.05)
    assert f"Between equal systems, {gate.queries_needed:,} queries would show it; these are 300." in gate.sentence


def test_a_gate_is_not_passed_by_a_handful_of_equal_queries() -> None:
    assert [gate_of(0.0, 0.0, queries).passed for queries in (4, 6)] == [False, True]
