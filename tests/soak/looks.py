"""Experiments between equal arms, looked at 1,000 times each, have few winners; an imbalance raises the alarm."""

import math
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from statistics import median

import numpy as np

from evaluator.metrics.sequential import DifferenceSequence, MeanSequence, SampleRatio, outcome
from tests.soak.outcome import Bar, Outcome

EXPERIMENTS, UNITS, STEP, PROCESSES = 500, 12_000, 12, 2
WINNERS, ALARMS, FOUND = 35, 11, 0.95  # of 500: 5 % and 1 % with their Monte Carlo error
LIMIT, IMBALANCE = 30_000, 0.52
Draw = Callable[[np.random.Generator], "np.ndarray[tuple[int, ...], np.dtype[np.float64]]"]


def clicks(rate: float) -> Draw:
    """Draws values that are 1 at a rate, else 0."""
    return lambda dice: (dice.random(UNITS) < rate).astype(np.float64)


def sales(dice: np.random.Generator) -> "np.ndarray[tuple[int, ...], np.dtype[np.float64]]":
    """Draws values with a heavy tail: a tenth of the units buys, for sums whose logarithm has a spread of 1.5."""
    return (dice.random(UNITS) < 0.1) * dice.lognormal(0.0, 1.5, UNITS)


# The share of the treated arm, none in an interleaving, and the values of the units.
KINDS: dict[str, tuple[float | None, Draw]] = {
    "50:50, 30 % click": (0.5, clicks(0.3)),
    "90:10, 30 % click": (0.1, clicks(0.3)),
    "90:10, 2 % click": (0.1, clicks(0.02)),
    "50:50, heavy tail": (0.5, sales),
    "90:10, heavy tail": (0.1, sales),
    "interleaving, 20 % prefer one": (None, lambda dice: dice.choice([-1.0, 0.0, 1.0], UNITS, p=[0.1, 0.8, 0.1])),
}
SAYS = (
    f"Experiments of {UNITS:,} units between equal arms, with a look every {STEP} units: winners are those that any "
    "look calls better or worse, alarms those of the sample ratio, checked at every unit. With an imbalance, units "
    f"arrive 52:48 where 50:50 is declared, {LIMIT:,} at most."
)


async def run(seed: int, size: int = EXPERIMENTS) -> Outcome:
    """Simulates `size` experiments of each kind."""
    jobs = [(kind, [seed, at, number]) for at, kind in enumerate(KINDS) for number in range(size)]
    with ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("spawn")) as pool:
        seen = list(pool.map(experiment, jobs, chunksize=5))
        times = list(pool.map(until_alarm, [[seed, len(KINDS), number] for number in range(size)], chunksize=5))
    by_kind = {kind: seen[at * size : (at + 1) * size] for at, kind in enumerate(KINDS)}
    winners = {kind: sum(winner for winner, _ in found) for kind, found in by_kind.items()}
    alarms = {kind: sum(alarm for _, alarm in found) for kind, found in by_kind.items()}
    most_winners, most_alarms = (math.ceil(most * size / EXPERIMENTS) for most in (WINNERS, ALARMS))
    winning, alarming = max(winners.values()), max(alarms.values())
    found = [units for units in times if units is not None]
    after = f", half of them within {median(found):,.0f} units" if found else ""
    return Outcome(
        name="looks",
        says=SAYS,
        seed=seed,
        columns=("experiments between equal arms", "winners", "alarms"),
        rows=tuple(
            (kind, f"{winners[kind]} of {size}", "–" if share is None else f"{alarms[kind]} of {size}")
            for kind, (share, _) in KINDS.items()
        ),
        bars=(
            Bar(f"at most {most_winners} winners of a kind", str(winning), winning <= most_winners),
            Bar(f"at most {most_alarms} alarms of a kind", str(alarming), alarming <= most_alarms),
            Bar("95 % of the imbalances found", f"{len(found)} of {size}{after}", len(found) >= FOUND * size),
        ),
        broken=(),
    )


def experiment(job: tuple[str, list[int]]) -> tuple[bool, bool]:
    """Returns whether any look at an experiment without a difference had a winner, and whether there was an alarm."""
    kind, seed = job
    share, draw = KINDS[kind]
    dice = np.random.default_rng(seed)
    values = draw(dice).tolist()
    treated = (dice.random(UNITS) < (share or 0.0)).tolist()
    means, differences, ratio, winner = MeanSequence(), DifferenceSequence(), SampleRatio(), False
    shares = {"control": 1 - (share or 0.0), "treated": share or 0.0}
    for at, (value, is_treated) in enumerate(zip(values, treated, strict=True), 1):
        if share is None:
            means.add(value)
        else:
            differences.add(is_treated, share, value)
            ratio.add("treated" if is_treated else "control", shares)
        if at % STEP == 0:
            interval = means.interval if share is None else differences.interval
            winner = winner or outcome(interval) in ("better", "worse")
    return winner, ratio.alarm


def until_alarm(seed: list[int]) -> int | None:
    """Returns the units until an imbalance is found."""
    ratio, shares = SampleRatio(), {"control": 0.5, "treated": 0.5}
    for at, is_control in enumerate((np.random.default_rng(seed).random(LIMIT) < IMBALANCE).tolist(), 1):
        ratio.add("control" if is_control else "treated", shares)
        if ratio.alarm:
            return at
    return None
