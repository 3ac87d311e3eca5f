"""Counts the alarms of `load --compare` over simulated pairs of runs, of a slower service and of a slower machine."""

from evaluator.load.against import MARGIN
from evaluator.load.compared_report import ComparedPoint, compared_point
from tests.soak.outcome import Bar, Outcome
from tests.support.load_points import load_point
from tests.support.simulated_loads import READINGS, REQUESTS, simulated_load

COMPARISONS = 20
SLOWDOWN, SLOWER_MACHINE = 1.15, 1.30
LENGTHS = (REQUESTS, 4 * REQUESTS)  # of a run, in requests
MOST, FALSE_ALARMS = 11, 2
SAYS = (
    f"A run has {LENGTHS[0]} or {LENGTHS[1]} requests, and {READINGS} answers of the stub before and after them. "
    "Latencies are log-normal by query and request, neighbours are alike, and one request in fifty stalls; a slower "
    "machine slows the stub too (`tests/support/simulated_loads.py`). An alarm is exit status 4: the 95 % interval of "
    f"a percentile's ratio, divided by that of the stub, lies above the margin of {100 * MARGIN:.0f} %."
)
COLUMNS = ("new run", "requests", "comparisons", "slower", "not slower", "cannot tell", "p50, divided", "as measured")


def row(name: str, requests: int, points: list[ComparedPoint]) -> tuple[str, ...]:
    """Returns the row of some comparisons: outcomes, and the range of the ratios of p50."""
    counts = [sum(point.outcome == kind for point in points) for kind in ("slower", "not slower", "cannot tell")]
    p50s = [point.ratios[0] for point in points]
    ranges = ([one.ratio for one in p50s], [one.as_measured for one in p50s])
    spans = [f"{min(one):.3f} to {max(one):.3f}" for one in ranges]
    return (name, str(requests), str(len(points)), *map(str, counts), *spans)


async def run(seed: int, size: int = COMPARISONS) -> Outcome:
    """Judges `size` simulated pairs of runs of each kind and length."""
    service, machine = (f"{100 * (factor - 1):.0f} % slower" for factor in (SLOWDOWN, SLOWER_MACHINE))
    rows, bars = [], []
    for requests in LENGTHS:
        for name, factors, slower in (
            (f"a service {service}", (SLOWDOWN, 1.0), True),
            (f"a machine {machine}", (1.0, SLOWER_MACHINE), False),
            ("the same", (1.0, 1.0), False),
        ):
            points = [_compared(number, requests, *factors) for number in range(seed, seed + size)]
            rows.append(row(name, requests, points))
            bars.append(_bar(f"{name}, {requests} requests", points, slower))
    return Outcome("compared", SAYS, seed, COLUMNS, tuple(rows), tuple(bars), ())


def _compared(seed: int, requests: int, service: float, machine: float) -> ComparedPoint:
    point = load_point("bm25", n=60)
    old = simulated_load(seed, "old", requests=requests)
    new = simulated_load(seed, "new", service, machine, requests)
    calibrations = (old.calibration, new.calibration)
    return compared_point(point, point, (old.samples, new.samples), calibrations, MARGIN, seed)


def _bar(name: str, points: list[ComparedPoint], slower: bool) -> Bar:
    """Returns the promise of some comparisons, scaled where fewer than 20 were made."""
    alarms, size = sum(point.outcome == "slower" for point in points), len(points)
    measured = f"{alarms} of {size}"
    if slower:
        return Bar(f"{name}: at least {MOST} of {COMPARISONS} alarms", measured, alarms >= MOST / COMPARISONS * size)
    most = max(1, FALSE_ALARMS / COMPARISONS * size)
    return Bar(f"{name}: at most {FALSE_ALARMS} of {COMPARISONS} alarms", measured, alarms <= most)
