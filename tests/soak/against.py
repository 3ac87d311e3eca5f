"""Counts the alarms of `load --against` over simulated comparisons, of a slower stack and of a stack with itself."""

from evaluator.load.against.speed import MARGIN, SpeedVerdict, judge_speed
from tests.soak.outcome import Bar, Outcome
from tests.support.simulated_stacks import PAIRS, REQUESTS, simulated_pairs

COMPARISONS = 20
SLOWDOWN = 1.15
PERCENT = f"{100 * (SLOWDOWN - 1):.0f} %"
CAUGHT, FALSE_ALARMS = 18, 2
SAYS = (
    f"Each comparison has {PAIRS} pairs of slices with {REQUESTS} requests. Latencies are log-normal by query and "
    "request, the speed of the machine wanders from slice to slice and from request to request, and one request in "
    "fifty stalls (`tests/support/simulated_stacks.py`). An alarm is exit status 4: a percentile is slower beyond the "
    f"margin of {100 * MARGIN:.0f} %."
)
COLUMNS = ("stacks", "comparisons", "alarms", "p50 slower", "p50 faster", "p50 no slower", "p50 cannot tell", "p50")


def row(name: str, verdicts: list[SpeedVerdict]) -> tuple[str, ...]:
    """Returns the row of some comparisons: alarms, outcomes of p50, and the range of its ratios."""
    p50s = [verdict.ratios[0] for verdict in verdicts]
    outcomes = [sum(one.outcome == kind for one in p50s) for kind in ("slower", "faster", "no slower", "cannot tell")]
    ratios = [one.ratio for one in p50s]
    alarms = sum(verdict.slower for verdict in verdicts)
    spread = f"{min(ratios):.3f} to {max(ratios):.3f}" if ratios else "–"
    return (name, str(len(verdicts)), str(alarms), *map(str, outcomes), spread)


def bars(slower: list[SpeedVerdict], same: list[SpeedVerdict], size: int, needs_cores: bool) -> tuple[Bar, Bar]:
    """Returns the two promises, scaled where `size` is less than 20; neither holds where fewer were judged."""
    few = [f" ({size} wanted)" if len(found) < size else "" for found in (slower, same)]
    caught, raised = (sum(verdict.slower for verdict in found) for found in (slower, same))
    return (
        Bar(
            f"p50 {PERCENT} longer: at least {CAUGHT} of {COMPARISONS} caught",
            f"{caught} of {len(slower)}{few[0]}",
            not few[0] and caught >= CAUGHT / COMPARISONS * len(slower),
            needs_cores,
        ),
        Bar(
            f"a stack with itself: at most {FALSE_ALARMS} of {COMPARISONS} alarms",
            f"{raised} of {len(same)}{few[1]}",
            not few[1] and raised <= max(1, FALSE_ALARMS / COMPARISONS * len(same)),
            needs_cores,
        ),
    )


async def run(seed: int, size: int = COMPARISONS) -> Outcome:
    """Judges `size` simulated comparisons of each kind."""

    def judged(slowdown: float) -> list[SpeedVerdict]:
        return [
            judge_speed("old", "new", simulated_pairs(seed + number, slowdown), MARGIN, seed) for number in range(size)
        ]

    slower, same = judged(SLOWDOWN), judged(1.0)
    rows = (row(f"{PERCENT} slower", slower), row("the same", same))
    return Outcome("against", SAYS, seed, COLUMNS, rows, bars(slower, same, size, needs_cores=False), ())
