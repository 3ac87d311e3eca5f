"""Tests while requests arrive whether at most 1 % of all requests are misses. Pure: requests in, an outcome out.

`within` is the exact binomial test, `above` a t test over blocks, because slow answers come in bursts. Each further
look is another chance to err. Chance of `within` at a share of exactly 1 %, of independent requests:

    one look                                            1 in 20
    a series of up to five looks                        1 in 7
    six series in a row (evaluator/load/capacity/search.py)    below 1 in 10,000
"""

import itertools
import math
from collections.abc import Sequence
from typing import Literal

from evaluator.runs.order_statistics import CONFIDENCE

MOST_SHARE = 0.01
# So few requests, none of them a miss, are `within`: 299.
FEWEST_REQUESTS = math.ceil(math.log(1 - CONFIDENCE) / math.log(1 - MOST_SHARE))
# `above` ends the search in this direction, so that it has to be surer.
CONFIDENCE_ABOVE = 0.99
BLOCKS = 20

ShareOutcome = Literal["within", "above", "open"]


def share_outcome(missed: Sequence[bool]) -> ShareOutcome:
    """Returns whether the share of misses is at most 1 % (`within`), more (`above`), or not known yet (`open`).

    `missed`: of each request, in planned order.
    """
    from scipy.stats import binom  # type: ignore[import-untyped]  # ships no types

    if binom.cdf(sum(missed), len(missed), MOST_SHARE) <= 1 - CONFIDENCE:
        return "within"
    return "above" if _least_share(missed) > MOST_SHARE else "open"


def _least_share(missed: Sequence[bool]) -> float:
    """Returns the lower bound of the share of misses, from the spread of its blocks (Cochran 1977, chapter 9)."""
    from scipy.stats import sem, t

    if len(missed) < FEWEST_REQUESTS:
        return 0.0
    cuts = [len(missed) * number // BLOCKS for number in range(BLOCKS + 1)]
    shares = [sum(missed[begin:end]) / (end - begin) for begin, end in itertools.pairwise(cuts)]
    return float(sum(shares) / BLOCKS - t.ppf(CONFIDENCE_ABOVE, BLOCKS - 1) * sem(shares))
