"""The port of models that generate queries for passages, and how they draw tokens."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Logits = NDArray[np.float32]


class QueryGenerator(Protocol):
    """Generates queries that a passage answers.

    The same passage, count and seed give the same queries, whatever was generated before.
    """

    @property
    def weights_sha256(self) -> str:
        """The sha256 of the weights, and of the files beside them that change queries."""

    @property
    def settings(self) -> str:
        """All beside the weights that changes queries: sampling, prompt, limits."""

    def generate(self, passage: str, count: int, seed: int) -> Sequence[str]:
        """Returns `count` queries as the model wrote them: some may be empty, equal or copied."""


def random_numbers(passage: str, count: int, seed: int) -> list[np.random.Generator]:
    """Returns a stream of random numbers for each of `count` queries; no other passage or query has the same."""
    digest = int.from_bytes(hashlib.sha256(passage.encode()).digest()[:8], "big")
    return [np.random.default_rng((seed, digest, number)) for number in range(count)]


def drawn_token(logits: Logits, top: int, temperature: float, random: np.random.Generator) -> int:
    """Draws one of the `top` most probable tokens by its probability at this temperature (Fan et al. 2018, section 5).

    `logits`: [vocabulary].
    """
    best = np.argpartition(logits, -top)[-top:] if top < len(logits) else np.arange(len(logits))
    shares = np.exp((logits[best].astype(np.float64) - float(logits.max())) / temperature)
    bounds = np.cumsum(shares)
    # Rounding may leave the last bound below the number drawn.
    place = min(int(np.searchsorted(bounds, random.random() * bounds[-1], side="right")), len(best) - 1)
    return int(best[place])


def sha256_of(files: Sequence[Path]) -> str:
    """Returns the sha256 of the files' bytes, one after the other."""
    digest = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            while part := file.read(1 << 20):
                digest.update(part)
    return digest.hexdigest()
