"""Makes one grade of those of several judges, and lists where they differ. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evaluator.judging.pool import PooledPair

JudgesGrades = Mapping[str, Mapping[PooledPair, int]]  # judge → pair → grade

RULE = "the lower median: the grade that more than half of the judges gave, or the lower one in the middle"


@dataclass(frozen=True, slots=True)
class DisputedPair:
    """A pair on which judges differ. `grades`: by judge."""

    pair: PooledPair
    grades: Mapping[str, int]

    @property
    def spread(self) -> int:
        """Highest less lowest grade."""
        return max(self.grades.values()) - min(self.grades.values())


def consensus_grade(grades: Sequence[int]) -> int:
    """Returns the lower median of at least one grade.

    It is the majority's grade wherever more than half agree. Grades are ordered, so where no majority is, the middle is
    nearer to all of them than any mode: of 0, 2 and 3 it is 2. In a tie of two the lower counts: a document is as
    relevant as half of its judges at least agree on, and one without a judgment counts as 0 as well.
    """
    return sorted(grades)[(len(grades) - 1) // 2]


def consensus_grades(judges: JudgesGrades) -> dict[PooledPair, int]:
    """Returns the consensus of every pair that any judge has graded."""
    return {pair: consensus_grade(list(grades.values())) for pair, grades in grades_by_pair(judges).items()}


def disputed_pairs(judges: JudgesGrades) -> list[DisputedPair]:
    """Returns the pairs on which judges differ, those that differ most first."""
    found = [DisputedPair(pair, grades) for pair, grades in grades_by_pair(judges).items()]
    return sorted((one for one in found if one.spread), key=lambda one: (-one.spread, one.pair))


def grades_by_pair(judges: JudgesGrades) -> dict[PooledPair, dict[str, int]]:
    """Returns the grades of each pair by judge."""
    found: dict[PooledPair, dict[str, int]] = {}
    for judge, grades in judges.items():
        for pair, grade in grades.items():
            found.setdefault(pair, {})[judge] = grade
    return found
