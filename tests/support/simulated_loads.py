"""Simulates a load and the calibration of its machine, for comparisons of two runs of the same requests."""

import math
import random
from dataclasses import dataclass

from evaluator.load.calibration import Calibration, CalibrationReading
from evaluator.load.calibration_stub import WORK
from evaluator.load.figures import load_percentiles
from evaluator.load.samples import LoadSample
from evaluator.machine.machine_conditions import MachineConditions
from tests.support.load_samples import load_sample

REQUESTS = 600
READINGS = 600
STUB_MS = 2.6
# Standard deviations of logarithms: of queries, by request with its neighbours, of a request alone, of the stub.
QUERIES, NEIGHBOURS, ALONE, STUB = 0.50, 0.15, 0.15, 0.05
NEIGHBOUR_CORRELATION = 0.8
STALLS, STALL_MS = 0.02, 40.0
QUIET = MachineConditions(seconds=4.0, cores=2, foreign=0.0, steal=0.0, throttled=0.0, pressure=0.0, frequency=None)


@dataclass(frozen=True, slots=True)
class SimulatedLoad:
    """The measured requests of a run, and its calibration."""

    samples: list[LoadSample]
    calibration: Calibration


def simulated_load(
    seed: int, run: str, service: float = 1.0, machine: float = 1.0, requests: int = REQUESTS
) -> SimulatedLoad:
    """Returns a run of the requests of a seed: 20 ms at the median, times what the service and the machine take."""
    asked, dice = random.Random(f"{seed} queries"), random.Random(f"{seed} {run}")
    neighbours, samples = 0.0, []
    for number in range(requests):
        query_ms = asked.lognormvariate(3.0, QUERIES)
        neighbours = NEIGHBOUR_CORRELATION * neighbours + dice.gauss(
            0, NEIGHBOURS * math.sqrt(1 - NEIGHBOUR_CORRELATION**2)
        )
        stall = dice.expovariate(1 / STALL_MS) if dice.random() < STALLS else 0.0
        own_ms = query_ms * math.exp(neighbours + dice.gauss(0, ALONE)) + stall
        samples.append(load_sample(number, latency_ms=service * machine * own_ms))
    return SimulatedLoad(samples, simulated_calibration(f"{seed} {run}", machine, machine))


def simulated_calibration(seed: str, before: float, after: float, foreign: float = 0.0) -> Calibration:
    """Returns the calibration of a machine that takes so many times as long as another one at both ends of a load."""
    dice = random.Random(f"{seed} stub")
    readings = [
        CalibrationReading(
            service_ms=load_percentiles([STUB_MS * speed * dice.lognormvariate(0, STUB) for _ in range(READINGS)]),
            conditions=QUIET.model_copy(update={"foreign": foreign}),
        )
        for speed in (before, after)
    ]
    return Calibration(work=WORK, before=readings[0], after=readings[1])
