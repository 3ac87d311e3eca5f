"""Runs rounds: every contender scores the same lists once a round, in changing order. Opens no contender."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from evaluator.experiments.turn_orders import balanced_turns
from evaluator.machine.machine_conditions import TAKEN_LIMIT, conditions_between, read_conditions
from evaluator.progress import show
from workshop.bench.analysis import score_difference
from workshop.bench.candidate_lists import CandidateList
from workshop.bench.contender import Contender
from workshop.bench.report import BenchTurn

# Threads that spin after a call must not cost the next contender CPU time.
PAUSE_S = 0.3


@dataclass(frozen=True, slots=True)
class RoundResults:
    """`differences`: by contender, the largest difference of a score from the reference that `equals` names."""

    turns: tuple[BenchTurn, ...]
    differences: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """Rounds to run. `equals`: the reference contender of each contender, whose scores it must equal."""

    rounds: int
    sets: Mapping[str, Sequence[CandidateList]]
    equals: Mapping[str, str]
    seed: int  # of the order of the contenders


def run_rounds(plan: RoundPlan, contenders: Mapping[str, Contender]) -> RoundResults:
    """Runs all rounds after one uncounted list each, and shows each turn."""
    for contender in contenders.values():
        contender.score([next(iter(plan.sets.values()))[0]])
    turns: list[BenchTurn] = []
    differences: dict[str, float] = {}
    names = list(contenders)
    for number, order in enumerate(islice(balanced_turns(len(names), plan.seed), plan.rounds)):
        for set_name, lists in plan.sets.items():
            scores = {}
            for name in (names[at] for at in order):
                time.sleep(PAUSE_S)
                before = read_conditions()
                answer = contenders[name].score(lists)
                conditions = conditions_between(before, read_conditions())
                scores[name] = answer.scores
                turns.append(
                    BenchTurn(
                        round=number,
                        set=set_name,
                        contender=name,
                        cpu_s=answer.cpu_s,
                        wall_s=answer.wall_s,
                        foreign=conditions.foreign,
                        steal=conditions.steal,
                        quiet=conditions.taken <= TAKEN_LIMIT and not conditions.throttled,
                    )
                )
                show(
                    f"round {number + 1}/{plan.rounds} {set_name:8} {name:32} "
                    f"CPU {sum(answer.cpu_s):7.2f} s, wall {sum(answer.wall_s):7.2f} s"
                    + ("" if conditions.foreign is None else f", others {conditions.foreign:4.0%}")
                )
            for name, reference in plan.equals.items():
                difference = score_difference(scores[name], scores[reference])
                differences[name] = max(difference, differences.get(name, 0.0))
    return RoundResults(tuple(turns), differences)
