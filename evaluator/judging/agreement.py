"""Measures how far judges agree: kappas and confusion of each two of them, Fleiss' kappa of more. Pure.

statsmodels computes the kappas; which pairs are disputed is left to `evaluator.judging.consensus`.
"""

from collections.abc import Mapping
from itertools import combinations

from pydantic import FiniteFloat

from evaluator.judging.consensus import JudgesGrades, grades_by_pair
from evaluator.judging.judgment_log import MOST_GRADE
from evaluator.judging.pool import PooledPair
from services.contracts.base import Count, Wire

GRADES = range(MOST_GRADE + 1)


class JudgeAgreement(Wire):
    """Agreement of two judges over the pairs that both graded.

    Kappa is 1 for equal grades and 0 for what chance gives (Cohen 1960); null where it is not defined: no pair, or both
    gave all pairs one grade. The weighted ones count a disagreement by its size, or its square (Cohen 1968).
    """

    first: str
    second: str
    pairs: Count
    agreement: FiniteFloat | None  # share of equal grades; null without a pair
    kappa: FiniteFloat | None
    kappa_linear: FiniteFloat | None
    kappa_quadratic: FiniteFloat | None
    confusion: tuple[tuple[Count, ...], ...]  # pairs by grade of the first judge (row) and of the second (column)


class GroupAgreement(Wire):
    """Fleiss' kappa (1971) over the pairs that all judges graded; null as in JudgeAgreement."""

    judges: tuple[str, ...]
    pairs: Count
    kappa: FiniteFloat | None


def judge_agreements(judges: JudgesGrades) -> tuple[JudgeAgreement, ...]:
    """Returns the agreement of each two judges."""
    return tuple(_agreement(one, other, judges[one], judges[other]) for one, other in combinations(judges, 2))


def group_agreement(judges: JudgesGrades) -> GroupAgreement | None:
    """Returns the agreement of all judges together; None for fewer than three."""
    if len(judges) < 3:
        return None
    rated = [list(grades.values()) for grades in grades_by_pair(judges).values() if len(grades) == len(judges)]
    counts = [[grades.count(grade) for grade in GRADES] for grades in rated]
    kappa = None
    if len({grade for grades in rated for grade in grades}) > 1:
        from statsmodels.stats.inter_rater import fleiss_kappa  # type: ignore[import-untyped]  # ships no types

        kappa = float(fleiss_kappa(counts))
    return GroupAgreement(judges=tuple(judges), pairs=len(rated), kappa=kappa)


def _agreement(
    first: str, second: str, one: Mapping[PooledPair, int], other: Mapping[PooledPair, int]
) -> JudgeAgreement:
    both = [(one[pair], other[pair]) for pair in one.keys() & other.keys()]
    table = [[both.count((row, column)) for column in GRADES] for row in GRADES]
    kappa, linear, quadratic = (
        _kappas(table) if len({grade for grades in both for grade in grades}) > 1 else (None,) * 3
    )
    return JudgeAgreement(
        first=first,
        second=second,
        pairs=len(both),
        agreement=sum(a == b for a, b in both) / len(both) if both else None,
        kappa=kappa,
        kappa_linear=linear,
        kappa_quadratic=quadratic,
        confusion=tuple(map(tuple, table)),
    )


def _kappas(table: list[list[int]]) -> tuple[float, float, float]:
    from statsmodels.stats.inter_rater import cohens_kappa

    plain, linear, quadratic = (
        float(cohens_kappa(table, wt=weighted, return_results=False)) for weighted in (None, "linear", "quadratic")
    )
    return plain, linear, quadratic
