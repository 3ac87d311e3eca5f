"""Computes ratios of percentiles of two sides that took turns, with intervals from pairs of slices. Pure.

Sides are two stacks (against/speed.py) or two pipelines of one run (ratios.py). Leaves the judgment to these.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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
        least = [np.ceil(share * reached[..., -1:]) for share in shares]
        return np.stack([self.values[np.argmax(reached >= one, axis=-1)] for one in least])
