"""Runs rounds: every contender scores the same lists once a round, in changing order. Opens no contender.

`python -m workshop.bench.rounds` prints GFLOP per CPU second of fp32 matrix products on one core.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from evaluator.experiments.turn_orders import balanced_turns
from evaluator.machine.machine_conditions import condition_faults, conditions_between, read_conditions
from services.inference.profiles import ROOT
from workshop.bench.analysis import score_difference
from workshop.bench.candidate_lists import CandidateList
from workshop.bench.contender import Contender
from workshop.bench.report import BenchTurn

# Threads that spin after a call must not cost the next contender CPU time.
PAUSE_S = 0.3
# Of the matrices, and how long they are multiplied.
SIZE = 1024
SECONDS = 0.5

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class RoundResults:
    """`differences`: by contender, the largest difference of a score from the reference that `equals` names."""

    turns: tuple[BenchTurn, ...]
    sgemm_gflops: tuple[float, ...]  # one a round
    differences: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """Rounds to run. `equals`: the reference contender of each contender, whose scores it must equal."""

    rounds: int
    sets: Mapping[str, Sequence[CandidateList]]
    equals: Mapping[str, str]
    seed: int  # of the order of the contenders


def run_rounds(
    plan: RoundPlan, contenders: Mapping[str, Contender], probe: Callable[[], float], say: Say
) -> RoundResults:
    """Runs all rounds after one uncounted list each. `probe` measures the machine once a round, in GFLOP/s a core."""
    for contender in contenders.values():
        contender.score([next(iter(plan.sets.values()))[0]])
    turns: list[BenchTurn] = []
    rates: list[float] = []
    differences: dict[str, float] = {}
    names = list(contenders)
    for number, order in enumerate(islice(balanced_turns(len(names), plan.seed), plan.rounds)):
        rates.append(probe())
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
                        quiet=not list(condition_faults(conditions)),
                    )
                )
                say(
                    f"round {number + 1}/{plan.rounds} {set_name:8} {name:32} "
                    f"CPU {sum(answer.cpu_s):7.2f} s, wall {sum(answer.wall_s):7.2f} s"
                    + ("" if conditions.foreign is None else f", others {conditions.foreign:4.0%}")
                )
            for name, reference in plan.equals.items():
                found = score_difference(scores[name], scores[reference])
                differences[name] = max(found, differences.get(name, 0.0))
    return RoundResults(tuple(turns), tuple(rates), differences)


def measure_gflops() -> float:
    """Returns GFLOP per CPU second of one thread, measured in a process of its own; takes about a second."""
    # Numpy's BLAS reads its number of threads when it is loaded.
    one_thread = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, "-m", "workshop.bench.rounds"],
        cwd=ROOT,
        env=os.environ | one_thread,
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


def _print_gflops() -> None:
    """Multiplies for SECONDS after one warm-up product, and prints the rate."""
    left, right = np.random.default_rng(0).standard_normal((2, SIZE, SIZE), dtype=np.float32)
    out = left @ right
    products, start = 0, time.process_time()
    while time.process_time() - start < SECONDS:
        np.matmul(left, right, out=out)
        products += 1
    sys.stdout.write(f"{products * 2 * SIZE**3 / (time.process_time() - start) / 1e9}\n")


if __name__ == "__main__":
    _print_gflops()
