"""Smoothing of activations before static int8; shared by quantise.py and quantisation_aware.py."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float32]

# Share of an activation's range that moves into the weights (SmoothQuant, arXiv 2211.10438, section 4): a few channels
# before the wide layers are thirty times the others, and one scale for all would leave those to a handful of steps.
# On minilm-l6-ce-v1 the scores were off by 15 % of their deviation at 0.5, 6.1 % at 0.75, 4.4 to 5.4 % at 0.85 to 0.95
# (52 pairs); most of what is left comes from gelu's outputs in the first three layers.
MIGRATION = 0.9
# Evening out is a pass over the activation; one whose widest channel is at most so many times the median one goes
# without. In minilm-l6-ce-v4 that leaves gelu's outputs of the first three layers and what five of the normalisations
# after attention make: the scores are off by 1.8 % of their deviation instead of 1.6 (mean of 800 held-out pairs), and
# cost 2 to 3.5 % less.
EVEN_ENOUGH = 7.0
# The same share where activations are not rounded: the scores of run 3 with int8 weights were off by 8.3 % of their
# deviation without it, by 1.0 % at 0.5 (1.1 % at 0.3, 3.1 % at 0.75; 140 pairs).
STORAGE_MIGRATION = 0.5


@dataclass(frozen=True, slots=True)
class Range:
    """The smallest and the largest value of each channel of an activation: fp32 [channels] each, 0 within."""

    low: Values
    high: Values

    @classmethod
    def none(cls, channels: int) -> "Range":
        """Of nothing seen yet."""
        return cls(np.zeros(channels, dtype=np.float32), np.zeros(channels, dtype=np.float32))

    def joined(self, values: Values) -> "Range":
        """This range, widened to hold `values` [rows, tokens, channels]."""
        return Range(np.minimum(self.low, values.min(axis=(0, 1))), np.maximum(self.high, values.max(axis=(0, 1))))


@dataclass(frozen=True, slots=True)
class Steps:
    """An activation divided by `factors` [channels] lies within 256 steps of `scale`, the zero at step `zero`."""

    factors: Values
    scale: np.float32
    zero: int


def evening(seen: Range, matrices: Sequence[Values], migration: float) -> Values:
    """What each channel of an activation is divided by, and the rows of its matrices [in, out] multiplied: [in]."""
    largest = np.maximum(np.maximum(-seen.low, seen.high), 1e-5)
    weights = np.maximum(np.max([np.abs(matrix).max(axis=1) for matrix in matrices], axis=0), 1e-5)
    return np.asarray(largest**migration / weights ** (1 - migration), dtype=np.float32)


def steps(seen: Range, matrices: Sequence[Values]) -> Steps:
    """Evens out the channels; the matrices [in, out] that the activation meets are to be multiplied by the factors.

    The factors are all 1 where the channels are even enough.
    """
    widths = np.maximum(-seen.low, seen.high)
    even = widths.max() <= EVEN_ENOUGH * np.median(widths)
    factors = np.ones_like(widths) if even else evening(seen, matrices, MIGRATION)
    low, high = float(min(0, (seen.low / factors).min())), float(max(0, (seen.high / factors).max()))
    scale = np.float32((high - low) / 255)
    return Steps(factors, scale, round(-low / float(scale)))
