"""An encoder as a function: texts in, vectors out. Pooling and normalisation are the profile's."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from services.inference.model import Engine, OpenModel
from services.inference.profiles import EncoderProfile
from services.inference.tokens import Row

Float32 = NDArray[np.float32]


class TextEncoder:
    """An open encoder. A vector depends on its text alone, not on its neighbours or on other requests."""

    def __init__(self, profile: EncoderProfile, folder: Path, engine: Engine | None = None) -> None:
        """Opens the model in `folder` (blocking, below a second); raises ModelError when it is not the declared one."""
        self.profile = profile
        self._model = OpenModel(profile, folder, engine or Engine())

    @property
    def weights_sha256(self) -> str:
        """The sha256 of the graph: what a collection is stamped with."""
        return self._model.weights_sha256

    async def encode_query(self, text: str, deadline: float | None = None) -> Float32:
        """One vector, fp32 [dimension]; its turn comes before that of passages that wait.

        `deadline` is a time.monotonic() value. Raises ModelError, and what Workers.run raises.
        """
        vectors = await self._encode([self.profile.query_prefix + text], deadline, urgent=True)
        return np.asarray(vectors[0], dtype=np.float32)

    async def encode_passages(self, texts: Sequence[str], deadline: float | None = None) -> Float32:
        """One vector a text, fp32 [texts, dimension], in their order; raises as encode_query."""
        if not texts:
            return np.empty((0, self.profile.dimension), dtype=np.float32)
        return await self._encode([self.profile.passage_prefix + text for text in texts], deadline, urgent=False)

    async def lengths(self, texts: Sequence[str], deadline: float | None = None, *, query: bool) -> list[int]:
        """Tokens of each text, its prefix and special ones among them, before it is cut; raises as encode_query."""
        prefix = self.profile.query_prefix if query else self.profile.passage_prefix

        def lengths_of(chunk: list[str]) -> list[int]:
            return [self._model.tokens.single_length(ids) for ids in self._model.tokens.ids(chunk)]

        return await self._model.rows([prefix + text for text in texts], lengths_of, deadline, urgent=False)

    def close(self) -> None:
        """Stops the threads."""
        self._model.close()

    async def _encode(self, texts: list[str], deadline: float | None, *, urgent: bool) -> Float32:
        rows = await self._model.rows(texts, self._rows, deadline, urgent=urgent)
        finish = partial(pooled, profile=self.profile)
        return await self._model.results(rows, finish, deadline, urgent=urgent)

    def _rows(self, texts: list[str]) -> list[Row]:
        return [self._model.tokens.single(ids) for ids in self._model.tokens.ids(texts)]


def pooled(hidden: Float32, lengths: Sequence[int], profile: EncoderProfile) -> Float32:
    """One vector a row of `hidden` [rows, tokens, dimension], over its first `lengths` tokens: fp32 [rows, dimension].

    Each row is averaged over its own tokens alone, so that padding cannot change even the last bit.
    """
    match profile.pooling:
        case "mean":
            vectors = np.stack([hidden[place, :length].mean(axis=0) for place, length in enumerate(lengths)])
        case "cls":
            vectors = hidden[:, 0].copy()
    if profile.normalise:
        with np.errstate(invalid="ignore"):  # 0/0 gives NaN, which the model refuses
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors
