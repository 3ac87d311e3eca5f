"""SmoothQuant: computes smoothing factors and scales of activations for int8.

quantise.py writes them. Knows no graph.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float32]

# Migration strength: share of an activation's range that moves into the weights (arXiv 2211.10438, section 4). A few
# channels before the wide layers are thirty times the others; one scale for all would leave the others few steps.
# On minilm-l6-ce-v1 the scores were off by 15 % of their deviation at 0.5, 6.1 % at 0.75, 4.4 to 5.4 % at 0.85 to 0.95
# (52 pairs); most of what is left comes from gelu's outputs in the first three layers.
MIGRATION = 0.9
# Smoothing costs a pass over the activation, so it is left out where the widest channel is at most this many times the
# median. In minilm-l6-ce-v4 it remains for gelu's outputs of the first three layers and the outputs of five of the
# normalisations after attention: the scores are off by 1.8 % of their deviation instead of 1.6 (mean of 800 held-out
# pairs), and cost 2 to 3.5 % less.
SMOOTH_ABOVE = 7.0
# Migration strength for int8 storage, where activations are not rounded: the scores of run 3 with int8 weights were off
# by 8.3 % of their deviation without it, by 1.0 % at 0.5 (1.1 % at 0.3, 3.1 % at 0.75; 140 pairs).
STORAGE_MIGRATION = 0.5


@dataclass(frozen=True, slots=True)
class ActivationRange:
    """Smallest and largest value of each channel of an activation: fp32 [channels] each, always including 0."""

    low: Values
    high: Values

    @classmethod
    def empty(cls, channels: int) -> "ActivationRange":
        """Returns the range before any value."""
        return cls(np.zeros(channels, dtype=np.float32), np.zeros(channels, dtype=np.float32))

    def widened(self, values: Values) -> "ActivationRange":
        """Returns this range widened to hold `values` [rows, tokens, channels]."""
        return ActivationRange(
            np.minimum(self.low, values.min(axis=(0, 1))), np.maximum(self.high, values.max(axis=(0, 1)))
        )


@dataclass(frozen=True, slots=True)
class ActivationQuantisation:
    """Affine quantisation of an activation: division by `factors` [channels], 256 steps of `scale`, zero point."""

    factors: Values
    scale: np.float32
    zero: int


def smoothing_factors(seen: ActivationRange, matrices: Sequence[Values], migration: float) -> Values:
    """Returns factors [in]: divide the activation's channels by them, multiply the rows of its matrices [in, out]."""
    largest = np.maximum(np.maximum(-seen.low, seen.high), 1e-5)
    weights = np.maximum(np.max([np.abs(matrix).max(axis=1) for matrix in matrices], axis=0), 1e-5)
    return np.asarray(largest**migration / weights ** (1 - migration), dtype=np.float32)


def quantise_activation(seen: ActivationRange, matrices: Sequence[Values]) -> ActivationQuantisation:
    """Computes smoothing factors and scale of an activation; its matrices [in, out] must be multiplied by the factors.

    The factors are all 1 when the widest channel is at most SMOOTH_ABOVE times the median.
    """
    widths = np.maximum(-seen.low, seen.high)
    even = widths.max() <= SMOOTH_ABOVE * np.median(widths)
    factors = np.ones_like(widths) if even else smoothing_factors(seen, matrices, MIGRATION)
    low, high = float(min(0, (seen.low / factors).min())), float(max(0, (seen.high / factors).max()))
    scale = np.float32((high - low) / 255)
    return ActivationQuantisation(factors, scale, round(-low / float(scale)))
