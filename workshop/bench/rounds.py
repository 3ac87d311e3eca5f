"""Rounds: every contender scores the same lists once a round, in an order that turns. Knows no contender."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from workshop.bench.analysis import difference
from workshop.bench.candidate_lists import CandidateList
from workshop.bench.contender import Contender
from workshop.bench.foreign_load import FOREIGN_LIMIT, foreign, moment
from workshop.bench.ratios import order_of
from workshop.bench.report import Turn

# Threads that spin for a while after their last call must not do so on the next one's account.
PAUSE_S = 0.3

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Measured:
    """`differences`: the largest one of any score, by contender, to the one that `equals` names for it."""

    turns: tuple[Turn, ...]
    sgemm_gflops: tuple[float, ...]  # one a round
    differences: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be run. `equals`: by contender, whose scores its own must equal."""

    rounds: int
    sets: Mapping[str, Sequence[CandidateList]]
    equals: Mapping[str, str]
    cores: int  # of the machine: /proc/stat counts them all


def run(plan: Plan, contenders: Mapping[str, Contender], probe: Callable[[], float], say: Say) -> Measured:
    """All rounds, after one list each that does not count. `probe` measures the machine once a round."""
    for contender in contenders.values():
        contender.score([next(iter(plan.sets.values()))[0]])
    turns: list[Turn] = []
    rates: list[float] = []
    differences: dict[str, float] = {}
    for number in range(plan.rounds):
        rates.append(probe())
        for set_name, lists in plan.sets.items():
            scores = {}
            for name in order_of(list(contenders), number):
                time.sleep(PAUSE_S)
                before = moment()
                answer = contenders[name].score(lists)
                others = foreign(before, moment(), plan.cores)
                scores[name] = answer.scores
                turns.append(
                    Turn(
                        round=number,
                        set=set_name,
                        contender=name,
                        cpu_s=answer.cpu_s,
                        wall_s=answer.wall_s,
                        foreign=others,
                        quiet=others <= FOREIGN_LIMIT,
                    )
                )
                say(
                    f"round {number + 1}/{plan.rounds} {set_name:8} {name:32} "
                    f"CPU {sum(answer.cpu_s):7.2f} s, wall {sum(answer.wall_s):7.2f} s, others {others:4.0%}"
                )
            for name, reference in plan.equals.items():
                found = difference(scores[name], scores[reference])
                differences[name] = max(found, differences.get(name, 0.0))
    return Measured(tuple(turns), tuple(rates), differences)
