"""An encoder as a function: texts in, vectors out. Pooling and normalisation are the profile's."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from services.chassis.deadlines import Deadline
from services.inference.graph import Arithmetic
from services.inference.model_tokenizer import Row
from services.inference.open_model import Engine, OpenModel
from services.inference.profiles import TOKENIZER, EncoderProfile
from services.vectorstore.representation import Dense

Float32 = NDArray[np.float32]


class TextEncoder:
    """An open encoder; it keeps the promises of the dense service's port, DenseEncoder."""

    def __init__(self, profile: EncoderProfile, folder: Path, engine: Engine | None = None) -> None:
        """Opens the model in `folder` (blocking, below a second); raises ModelError when it is not the declared one."""
        engine = engine or Engine()
        self._profile = profile
        self._model = OpenModel(profile, folder, engine, inputs="documents")
        self.representation = Dense(profile.dimension)
        self.max_tokens = profile.max_tokens
        self.stamp = stamp_of(profile, self._model.weights_sha256, engine.arithmetic)

    async def encode_query(self, text: str, deadline: Deadline | None = None) -> Float32:
        """Encodes one query: fp32 [dimension]. Its turn comes before that of passages that wait.

        Raises ModelError, DeadlineExceeded, Overloaded, Unavailable (while shutting down).
        """
        vectors = await self._encode([self._profile.query_prefix + text], deadline, urgent=True)
        return np.asarray(vectors[0], dtype=np.float32)

    async def encode_passages(self, texts: Sequence[str], deadline: Deadline | None = None) -> Float32:
        """Encodes one passage a row, in their order: fp32 [texts, dimension]; raises as encode_query."""
        if not texts:
            return np.empty((0, self._profile.dimension), dtype=np.float32)
        return await self._encode([self._profile.passage_prefix + text for text in texts], deadline, urgent=False)

    async def lengths(
        self, texts: Sequence[str], role: Literal["query", "passage"], deadline: Deadline | None = None
    ) -> tuple[int, ...]:
        """Counts the tokens of each text, its prefix and special ones among them, before it is cut.

        Raises as encode_query.
        """
        prefix = self._profile.query_prefix if role == "query" else self._profile.passage_prefix

        def lengths_of(chunk: list[str]) -> list[int]:
            return [self._model.tokens.single_length(ids) for ids in self._model.tokens.ids(chunk)]

        return tuple(await self._model.rows([prefix + text for text in texts], lengths_of, deadline, urgent=False))

    async def close(self) -> None:
        """Stops the threads after the micro-batches that they are in."""
        self._model.close()

    async def _encode(self, texts: list[str], deadline: Deadline | None, *, urgent: bool) -> Float32:
        rows = await self._model.rows(texts, self._rows, deadline, urgent=urgent)
        finish = partial(pooled, profile=self._profile)
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


def stamp_of(profile: EncoderProfile, weights_sha256: str, arithmetic: Arithmetic = "f32") -> Mapping[str, str]:
    """Names all that decides the vectors of a model; library, device and number of threads do not.

    In f32 the libraries agree but for rounding (the last digits of a component); in bf16 a vector is another one.
    """
    return {
        "model": profile.name,
        "weights_sha256": weights_sha256,
        "tokenizer_sha256": profile.files[TOKENIZER],
        "precision": profile.precision if arithmetic == "f32" else f"{profile.precision} in {arithmetic}",
        "pooling": profile.pooling,
        "normalise": str(profile.normalise).lower(),
        "query_prefix": profile.query_prefix,
        "passage_prefix": profile.passage_prefix,
        "max_tokens": str(profile.max_tokens),
        "dimension": str(profile.dimension),
        "schema": "1",
    }
