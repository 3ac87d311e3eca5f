"""Compares percentiles of two sides that took turns (pipelines of a run, or two stacks), with intervals. Pure.

The judgment of two stacks is a sentence. Its ratios are B's percentile over A's, and all its intervals hold together
with 95 % (Bonferroni):

    sentence := B " against " A ": " clause { "; " clause } " (intervals: " k " % each, 95 % together)."
    clause   := p " " words " (" low " to " high ")"
      words  := "slower by " r [", beyond the margin of " m] | "faster by " r | "no slower than " m | "cannot tell"
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from statistics import median
from typing import TYPE_CHECKING, Literal

from pydantic import FiniteFloat

from evaluator.runs.latency import CONFIDENCE, MIN_SAMPLES_FOR_P99, Interval, median_interval, percentile
from services.contracts.base import Count, Wire

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PercentileName = Literal["p50", "p95"]
SpeedOutcome = Literal["slower", "faster", "no slower", "cannot tell"]
Slices = Sequence[Sequence[float]]  # milliseconds, slice by slice, in planned order
SHARES: dict[PercentileName, float] = {"p50": 0.5, "p95": 0.95}  # of the ratios of pipelines
SPEED_SHARES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}  # of the ratios of stacks
# Fewer show nothing of a percentile.
LEAST_REQUESTS = 20
# The least number of values beyond a percentile: as many as p99 has from its least number of samples.
LEAST_BEYOND = MIN_SAMPLES_FOR_P99 * (1 - SPEED_SHARES["p99"])
MARGIN = 0.05
ALPHA = 0.05
# Fewer pairs of slices show too little of how much slices differ.
LEAST_PAIRS = 8
RESAMPLES = 999
# Elements that a batch of resamples holds: 16 MB of floats.
BATCH = 2_000_000


@dataclass(frozen=True, slots=True)
class SlicePair:
    """Milliseconds of the same planned requests at two sides, in slices that took turns."""

    first_ms: Sequence[float]
    second_ms: Sequence[float]


def log_ratios(
    pairs: Sequence[SlicePair], shares: Sequence[float], confidence: float, seed: int
) -> list[tuple[float, float]]:
    """Returns, for each percentile, the logarithm of the ratio second over first and half the width of its interval.

    Pairs of slices are drawn, not requests: neighbours in time are alike, and a pair met the same machine (block
    bootstrap, Künsch 1989). Student's t, because there are few pairs.
    """
    import numpy as np
    from scipy import stats  # type: ignore[import-untyped]  # ships no types

    n = len(pairs)
    first = _Slices([pair.first_ms for pair in pairs])
    second = _Slices([pair.second_ms for pair in pairs])
    everything = np.arange(n)
    t = float(stats.t.ppf((1 + confidence) / 2, n - 1))

    def by_share(drawn: "NDArray[np.int64]", axis: int = -1) -> "NDArray[np.float64]":
        # How often each pair was drawn, by resample: the same resamples for every percentile.
        times = (drawn[..., None, :] == everything[:, None]).sum(axis=axis)
        return np.asarray(np.log(second.percentiles(times, shares) / first.percentiles(times, shares)))

    drawn = stats.bootstrap(
        (everything,),
        by_share,
        vectorized=True,
        method="percentile",
        n_resamples=RESAMPLES,
        batch=max(1, BATCH // max(n * n, len(first.values), len(second.values))),
        rng=np.random.default_rng(seed),
    )
    errors = np.atleast_1d(drawn.standard_error)
    return [(float(ratio), t * float(error)) for ratio, error in zip(by_share(everything), errors, strict=True)]


class _Slices:
    """Values of all slices in ascending order, with the slice of each."""

    def __init__(self, slices: Sequence[Sequence[float]]) -> None:
        import numpy as np

        values = np.concatenate([np.asarray(part, dtype=np.float64) for part in slices])
        order = np.argsort(values, kind="stable")
        self.values: NDArray[np.float64] = values[order]
        self._of = np.repeat(np.arange(len(slices)), [len(part) for part in slices])[order]

    def percentiles(self, times: "NDArray[np.int64]", shares: Sequence[float]) -> "NDArray[np.float64]":
        """Returns, by share, the nearest-rank percentiles where slice n counts `times[..., n]` times."""
        import numpy as np

        reached = np.cumsum(times[..., self._of], axis=-1)
        ranks = [np.ceil(share * reached[..., -1:]) for share in shares]
        return np.stack([self.values[np.argmax(reached >= rank, axis=-1)] for rank in ranks])


class PercentileRatio(Wire):
    """How many times as long `second` takes as `first` at a percentile, in one kind of traffic."""

    traffic: str
    first: str  # a pipeline
    second: str  # another one
    percentile: PercentileName
    ratio: FiniteFloat
    interval: Interval | None  # 95 %, from the spread of slices; null: fewer than 8
    n: Count  # requests of each
    block: Count  # requests that stand together: of the longest slice
    timing_valid: bool = True  # of both


class RepeatedFigure(Wire):
    """One figure over the repeats of a run."""

    values: tuple[FiniteFloat, ...]
    median: FiniteFloat
    interval: Interval  # of the median, from order statistics; of fewer than 6 repeats the least and the greatest value
    confidence: FiniteFloat = CONFIDENCE  # of the interval: 0.5, 0.75, 0.875, 0.9375 of 2 to 5 repeats


def percentile_ratios(
    traffic: str, slices_ms: Mapping[str, Slices], seed: int, doubtful: Collection[str] = ()
) -> tuple[PercentileRatio, ...]:
    """Returns the ratios of every two pipelines. `slices_ms`: of the same requests by pipeline, slice by slice.

    Pipelines with other slices, or with fewer than 20 requests, are left out. Slices are drawn, the same ones of every
    pipeline: pipelines run in different slices, which differ as a whole. Fewer than 8 slices give no interval.
    `doubtful`: pipelines whose times are not valid.
    """
    n = max((sum(map(len, parts)) for parts in slices_ms.values()), default=0)
    if n < LEAST_REQUESTS:
        return ()
    sizes = next(lengths for parts in slices_ms.values() if sum(lengths := [len(part) for part in parts]) == n)
    names = [name for name, parts in slices_ms.items() if [len(part) for part in parts] == sizes]
    ordered = {name: sorted(chain.from_iterable(slices_ms[name])) for name in names}
    ratios = []
    for first, second in combinations(names, 2):
        intervals = _intervals(slices_ms[first], slices_ms[second], seed)
        for name, share in SHARES.items():
            ratios.append(
                PercentileRatio(
                    traffic=traffic,
                    first=first,
                    second=second,
                    percentile=name,
                    ratio=percentile(ordered[second], share) / percentile(ordered[first], share),
                    interval=intervals.get(name),
                    n=n,
                    block=max(sizes),
                    timing_valid=first not in doubtful and second not in doubtful,
                )
            )
    return tuple(ratios)


def repeated_figure(values: Sequence[float]) -> RepeatedFigure:
    """Returns the median of a figure over at least two repeats, with its interval."""
    interval, confidence = median_interval(sorted(values))
    return RepeatedFigure(values=tuple(values), median=median(values), interval=interval, confidence=confidence)


def _intervals(first: Slices, second: Slices, seed: int) -> dict[PercentileName, Interval]:
    if len(first) < LEAST_PAIRS:
        return {}
    pairs = [SlicePair(*both) for both in zip(first, second, strict=True)]
    logs = log_ratios(pairs, list(SHARES.values()), CONFIDENCE, seed)
    return {name: (math.exp(log - half), math.exp(log + half)) for name, (log, half) in zip(SHARES, logs, strict=True)}


class SpeedRatio(Wire):
    """One percentile of the second stack over that of the first one."""

    percentile: str
    ratio: FiniteFloat
    interval: tuple[FiniteFloat, FiniteFloat]
    outcome: SpeedOutcome
    beyond: bool  # slower, and the ratio is above 1 + margin


class SpeedVerdict(Wire):
    """How `second` answers against `first`. `slower`: a percentile is slower beyond the margin."""

    first: str
    second: str
    margin: FiniteFloat
    pairs: Count
    ratios: tuple[SpeedRatio, ...]  # empty: there were too few pairs
    slower: bool
    sentence: str

    @property
    def decided(self) -> bool:
        """Whether there is a judgment of every percentile."""
        return bool(self.ratios) and all(ratio.outcome != "cannot tell" for ratio in self.ratios)


def judge_speed(first: str, second: str, pairs: Sequence[SlicePair], margin: float, seed: int) -> SpeedVerdict:
    """Compares the percentiles for which there are enough samples."""
    requests = sum(len(pair.first_ms) for pair in pairs)
    chosen = [name for name, share in SPEED_SHARES.items() if requests * (1 - share) >= LEAST_BEYOND]
    if len(pairs) < LEAST_PAIRS or not chosen:
        sentence = (
            f"{second} against {first}: cannot tell ({len(pairs)} pairs of slices, at least {LEAST_PAIRS} are needed)."
        )
        return SpeedVerdict(
            first=first, second=second, margin=margin, pairs=len(pairs), ratios=(), slower=False, sentence=sentence
        )
    shares = [SPEED_SHARES[name] for name in chosen]
    centres = log_ratios(pairs, shares, 1 - ALPHA / len(shares), seed)
    ratios = tuple(_judged(name, *logs, margin) for name, logs in zip(chosen, centres, strict=True))
    level = 100 * (1 - ALPHA / len(ratios))
    return SpeedVerdict(
        first=first,
        second=second,
        margin=margin,
        pairs=len(pairs),
        ratios=ratios,
        slower=any(ratio.beyond for ratio in ratios),
        sentence=f"{second} against {first}: {'; '.join(_clause(ratio, margin) for ratio in ratios)} "
        f"(intervals: {level:.1f} % each, {100 * (1 - ALPHA):g} % together).",
    )


def _judged(name: str, centre: float, half: float, margin: float) -> SpeedRatio:
    ratio, low, high = (math.exp(value) for value in (centre, centre - half, centre + half))
    outcome: SpeedOutcome = "cannot tell"
    if low > 1:
        outcome = "slower"
    elif high < 1:
        outcome = "faster"
    elif high < 1 + margin:
        outcome = "no slower"
    beyond = outcome == "slower" and ratio > 1 + margin
    return SpeedRatio(percentile=name, ratio=ratio, interval=(low, high), outcome=outcome, beyond=beyond)


def _clause(speed: SpeedRatio, margin: float) -> str:
    match speed.outcome:
        case "slower":
            words = f"slower by {_percent(speed.ratio - 1)}"
            words += f", beyond the margin of {_percent(margin)}" if speed.beyond else ""
        case "faster":
            words = f"faster by {_percent(1 - speed.ratio)}"
        case "no slower":
            words = f"no slower than {_percent(margin)}"
        case "cannot tell":
            words = "cannot tell"
    low, high = (f"{100 * (bound - 1):+z.1f} %" for bound in speed.interval)
    return f"{speed.percentile} {words} ({low} to {high})"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
