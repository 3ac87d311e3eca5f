"""Fits the distillation target: the teachers' cosines and BM25 as one distribution over a question's candidates.

Their weighted sum orders held-out questions better than either part (DECISIONS 45). Shares are fitted on the labels.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workshop.training.mined_questions import MinedQuestion

Float64 = NDArray[np.float64]
# Labelled questions of each file in the fit, so that no file counts for its size.
FITTED_ON = 300
ROUNDS = 30


@dataclass(frozen=True, slots=True)
class DistillationTarget:
    """Shares of each teacher's cosine and BM25's z-score in a candidate's logit, in the order of `features`."""

    shares: tuple[float, ...]

    def logits(self, line: MinedQuestion) -> Float64:
        logits: Float64 = features(line) @ np.array(self.shares)
        return logits


def features(line: MinedQuestion) -> Float64:
    """Returns [candidates, teachers + 1]: cosines, then BM25's z-score (its last for candidates not found)."""
    scored = [score for score in line["bm25"] if score is not None]
    last = min(scored, default=0.0)
    scores = np.array([last if score is None else score for score in line["bm25"]])
    spread = scores.std()
    lexical = (scores - scores.mean()) / spread if spread > 0 else np.zeros_like(scores)
    return np.stack([*(np.array(of) for of in line["teachers"]), lexical], axis=1)


def fit_target(lines: Sequence[MinedQuestion]) -> DistillationTarget:
    """Fits a conditional logit to the labels by maximum likelihood (McFadden 1973).

    Newton's method, halving a step that overshoots; the probabilities of several relevant passages are summed.
    Raises ValueError when no line has a label.
    """
    by_file: dict[str, list[tuple[Float64, list[int]]]] = {}
    draw = random.Random(0)
    for line in draw.sample(lines, len(lines)):
        relevant = [place for place, passage in enumerate(line["candidates"]) if passage in set(line["relevant"])]
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
    return DistillationTarget(tuple(float(share) for share in shares))


def _likelihood(labelled: Sequence[tuple[Float64, list[int]]], shares: Float64) -> float:
    """Returns the log likelihood of the labels."""
    return sum(float(np.log(_softmax(values @ shares)[relevant].sum() + 1e-300)) for values, relevant in labelled)


def _softmax(logits: Float64) -> Float64:
    odds: Float64 = np.exp(logits - logits.max())
    odds /= odds.sum()
    return odds
