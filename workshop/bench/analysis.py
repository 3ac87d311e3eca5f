"""Computes ratios and HTTP share from turns. Pure; every ratio is of turns of the same round."""

from collections.abc import Callable, Sequence

import numpy as np

from workshop.bench.report import BenchReport, BenchTurn, CostRatio, HttpShare, Int8Comparison, Interval

# Our own contenders; every other name is a peer's.
OURS, INT8, SESSION, HTTP = "ours", "ours-int8", "session", "http"

# sentence-transformers' default; the padding of such batches in arrival order is reported for each set.
DEFAULT_BATCH = 32
RESAMPLES = 10_000


def analyse(report: BenchReport, served: str, int8: str | None, no_int8: str | None) -> BenchReport:
    """Returns the report with every section that follows from its turns; contenders with unequal scores are left out.

    `int8` names the model that took part as INT8; when none did, `no_int8` says why.
    """
    turns, sets = report.turns, list(report.sets)
    peers = [name for name in report.largest_difference if name != HTTP and name not in report.unequal]
    ratios: dict[str, dict[str, CostRatio] | Interval | None] = {
        peer: {name: cost_ratio(turns, peer, OURS, name) for name in sets} for peer in peers
    }
    if int8 is None:
        ratios["int8_over_fp32"], quantised = None, Int8Comparison(served=None, reason=no_int8)
    else:
        # All sets of a round together.
        seconds = [list(_by_round(turns, each, None, _cpu_s).values()) for each in (OURS, INT8)]
        ratios["int8_over_fp32"] = paired_ratio(*seconds)
        quantised = Int8Comparison(
            served=int8, reason=None, by_set={name: cost_ratio(turns, OURS, INT8, name) for name in sets}
        )
    http = None
    if HTTP not in report.unequal:
        http = HttpShare(
            model=served,
            share={name: _ratio(turns, SESSION, HTTP, name, _wall_s) for name in sets},
            cpu={name: _ratio(turns, HTTP, SESSION, name, _cpu_s) for name in sets},
        )
    return report.model_copy(update={"ratios": ratios, "int8": quantised, "http": http})


def cost_ratio(turns: Sequence[BenchTurn], above: str, below: str, set_name: str) -> CostRatio:
    """Divides CPU and wall seconds of `above` by those of `below`."""
    return CostRatio(
        cpu=_ratio(turns, above, below, set_name, _cpu_s), wall=_ratio(turns, above, below, set_name, _wall_s)
    )


def padding_ratio(lengths: Sequence[Sequence[int]], rows: int = DEFAULT_BATCH) -> float:
    """Divides padded tokens by real ones for batches of `rows` in arrival order. `lengths`: one sequence a list."""
    padded = sum(
        len(batch) * max(batch)
        for of_list in lengths
        for batch in (of_list[start : start + rows] for start in range(0, len(of_list), rows))
    )
    return padded / sum(map(sum, lengths))


def score_difference(scores: Sequence[Sequence[float]], reference: Sequence[Sequence[float]]) -> float:
    """Returns the largest |difference| of two contenders' scores. Raises ValueError when their numbers differ."""
    pairs = [pair for both in zip(scores, reference, strict=True) for pair in zip(*both, strict=True)]
    return max(abs(score - other) for score, other in pairs)


def _cpu_s(turn: BenchTurn) -> float:
    return sum(turn.cpu_s)


def _wall_s(turn: BenchTurn) -> float:
    return sum(turn.wall_s)


def _ratio(
    turns: Sequence[BenchTurn], above: str, below: str, set_name: str, of: Callable[[BenchTurn], float]
) -> Interval:
    return paired_ratio(*(list(_by_round(turns, each, set_name, of).values()) for each in (above, below)))


def _by_round(
    turns: Sequence[BenchTurn], contender: str, set_name: str | None, of: Callable[[BenchTurn], float]
) -> dict[int, float]:
    """Sums `of` for each round, in round order, over one set or all (None)."""
    sums: dict[int, float] = {}
    for turn in turns:
        if turn.contender == contender and set_name in (None, turn.set):
            sums[turn.round] = sums.get(turn.round, 0.0) + of(turn)
    return dict(sorted(sums.items()))


def bootstrap_interval(values: Sequence[float], seed: int = 0) -> Interval:
    """Computes the percentile bootstrap of the median over whole rounds (samples within one are not independent)."""
    if not values:
        raise ValueError("an interval needs at least one round")
    rounds = np.asarray(values, dtype=np.float64)
    drawn = np.random.default_rng(seed).integers(0, len(rounds), size=(RESAMPLES, len(rounds)))
    low, high = np.percentile(np.median(rounds[drawn], axis=1), [2.5, 97.5])
    return Interval(median=float(np.median(rounds)), low=float(low), high=float(high))


def paired_ratio(numerators: Sequence[float], denominators: Sequence[float]) -> Interval:
    """Returns the interval of numerator / denominator, each pair measured in the same round."""
    return bootstrap_interval([above / below for above, below in zip(numerators, denominators, strict=True)])
