"""What a pupil comes close to: the teachers' cosines and BM25 as one distribution over a question's candidates.

The teachers know what a passage is about, BM25 which words it has, and the sum of both orders held-out questions
better than either (DECISIONS 47). How much each counts is read off the labels.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workshop.training.mined_questions import Line

Float64 = NDArray[np.float64]
# Labelled questions of each file that the fit looks at: no file counts for its size.
FITTED_ON = 300
ROUNDS = 30


@dataclass(frozen=True, slots=True)
class Target:
    """What each teacher's cosine and the z-score of BM25 add to a candidate's logit, in the order of `features`."""

    shares: tuple[float, ...]

    def logits(self, line: Line) -> Float64:
        logits: Float64 = features(line) @ np.array(self.shares)
        return logits


def features(line: Line) -> Float64:
    """[candidates, teachers + 1]: the cosines, then BM25's z-score; what BM25 did not find counts as its last."""
    found = [score for score in line["bm25"] if score is not None]
    last = min(found, default=0.0)
    scores = np.array([last if score is None else score for score in line["bm25"]])
    spread = scores.std()
    lexical = (scores - scores.mean()) / spread if spread > 0 else np.zeros_like(scores)
    return np.stack([*(np.array(of) for of in line["teachers"]), lexical], axis=1)


def fitted(lines: Sequence[Line]) -> Target:
    """The shares that make the labels of these questions likeliest: a conditional logit (McFadden 1973).

    Newton's method, a step halved while it overshoots; of several relevant passages the probabilities are summed.
    Raises ValueError when no line has a label.
    """
    by_file: dict[str, list[tuple[Float64, list[int]]]] = {}
    draw = random.Random(0)
    for line in draw.sample(lines, len(lines)):
        relevant = [place for place, one in enumerate(line["candidates"]) if one in set(line["relevant"])]
        of_file = by_file.setdefault(line["file"], [])
        if relevant and len(of_file) < FITTED_ON:
            of_file.append((features(line), relevant))
    labelled = [row for of_file in by_file.values() for row in of_file]
    if not labelled:
        raise ValueError("No question has a label: the shares of the target cannot be found.")
    shares = np.zeros(labelled[0][0].shape[1])
    best = _likelihood(labelled, shares)
    for _ in range(ROUNDS):
        slope, curve = np.zeros_like(shares), np.zeros((len(shares), len(shares)))
        for values, relevant in labelled:
            among_all, of_relevant = _softmax(values @ shares), _softmax(values[relevant] @ shares)
            centre = among_all @ values
            slope += of_relevant @ values[relevant] - centre
            curve += (values * among_all[:, None]).T @ values - np.outer(centre, centre)
        step = np.linalg.solve(curve, slope)
        while np.abs(step).max() > 1e-6 and _likelihood(labelled, shares + step) < best:
            step /= 2
        if np.abs(step).max() < 1e-3:
            break
        shares = shares + step
        best = _likelihood(labelled, shares)
    return Target(tuple(float(share) for share in shares))


def _likelihood(labelled: Sequence[tuple[Float64, list[int]]], shares: Float64) -> float:
    """The logarithm of how likely the labels are."""
    return sum(float(np.log(_softmax(values @ shares)[relevant].sum() + 1e-300)) for values, relevant in labelled)


def _softmax(logits: Float64) -> Float64:
    odds: Float64 = np.exp(logits - logits.max())
    odds /= odds.sum()
    return odds
