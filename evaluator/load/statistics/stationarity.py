"""Says whether times went up or down while a load ran: later halves against earlier ones, later slices too. Pure.

Requests wait for one another, so neighbours in time are alike, the more so the nearer the load is to saturation. An
interval over single requests then finds differences where there are none. So a line and a step are fitted to medians
of blocks, with Student's t, as in memory_trend.py. Near saturation a short load cannot show that the halves differ;
then the times stay valid.
"""

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import FiniteFloat

from evaluator.runs.latency import percentile
from services.contracts.base import Wire

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

# Blocks of a point. In simulated M/D/1 queues at 90 % load, fewer find less overload and more find drift that is none.
BLOCKS = 10
LEAST_IN_BLOCK = 3
# A slice begins with an empty queue, which fills: near saturation the begin differs from the rest in any case.
LEFT_OUT = 0.25
# Fewer medians of slices have no line with a spread about it that means anything.
LEAST_SLICES = 4
# Surer than 95 %, because there are two comparisons of blocks that are still a little alike.
CONFIDENCE_APART = 0.99


class HalfMedians(Wire):
    """The later requests of a point against the earlier ones, by planned time."""

    # Ratio of the medians: later over earlier halves of slices. The first quarter of each of several is left out.
    ratio: FiniteFloat
    apart: bool  # times go up or down within slices, with 99 % confidence
    slices_ratio: FiniteFloat | None = None  # of the medians, later over earlier slices; null below 4 slices
    slices_apart: bool = False  # times go up or down over the slices, with 99 % confidence


def half_medians(slices_ms: Sequence[Sequence[float]]) -> HalfMedians | None:
    """Compares the halves of slices, each in planned order, and the slices; None where there are too few requests."""
    blocks = max(2, 2 * math.ceil(BLOCKS / max(1, len(slices_ms)) / 2))
    kept = slices_ms if len(slices_ms) == 1 else [part[int(len(part) * LEFT_OUT) :] for part in slices_ms]
    if min(map(len, kept), default=0) < blocks * LEAST_IN_BLOCK:
        return None
    halves = [[value for part in kept for value in part[: len(part) // 2]],
              [value for part in kept for value in part[len(part) // 2 :]]]  # fmt: skip
    if _median(halves[0]) <= 0:
        return None
    several = len(slices_ms) >= LEAST_SLICES
    middle = len(slices_ms) // 2
    groups = [[value for part in group for value in part] for group in (slices_ms[:middle], slices_ms[middle:])]
    return HalfMedians(
        ratio=_median(halves[1]) / _median(halves[0]),
        apart=_moves([_block_medians(part, blocks) for part in kept]),
        slices_ratio=_median(groups[1]) / _median(groups[0]) if several else None,
        slices_apart=several and _moves([[_median(part) for part in slices_ms]]),
    )


def _median(values: Sequence[float]) -> float:
    return percentile(sorted(values), 0.5)


def _block_medians(values: Sequence[float], blocks: int) -> list[float]:
    cuts = [len(values) * number // blocks for number in range(blocks + 1)]
    return [_median(values[begin:end]) for begin, end in itertools.pairwise(cuts)]


def _moves(rows: "ArrayLike") -> bool:
    """Returns whether a common line or a common step at the middle of rows differs from 0 (least squares).

    Each row has a level of its own. A queue that grows is a line; what begins to disturb the system is a step.
    """
    import numpy as np
    from scipy.stats import t  # type: ignore[import-untyped]  # ships no types

    values = np.asarray(rows, dtype=np.float64)
    count, length = values.shape
    levelled = values - values.mean(axis=1, keepdims=True)
    freedom = count * length - count - 1
    # Two shapes are tried, so each has half of the chance of an error.
    least = float(t.isf((1 - CONFIDENCE_APART) / 4, freedom))
    for shape in (np.arange(length), np.arange(length) >= length // 2):
        places = shape - shape.mean()
        spread = count * float(places @ places)
        height = float((levelled @ places).sum()) / spread
        error = math.sqrt(float(((levelled - height * places) ** 2).sum()) / freedom / spread)
        if abs(height) > least * error:
            return True
    return False
