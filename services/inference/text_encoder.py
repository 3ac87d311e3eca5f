"""Encodes texts as vectors. Owns prefixes, pooling, normalisation and the stamp; running the graph is open_model's."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from services.chassis.deadlines import Deadline
from services.contracts.passages import Passages
from services.inference.model_tokenizer import Row
from services.inference.open_model import Engine, OpenModel
from services.inference.passages import cut_text
from services.inference.profiles import TOKENIZER, EncoderProfile
from services.storage.representation import Dense

Float32 = NDArray[np.float32]


class TextEncoder:
    """Encodes queries and passages with one model; implements the dense service's port, DenseEncoder."""

    def __init__(self, profile: EncoderProfile, folder: Path, engine: Engine | None = None) -> None:
        """Opens the model in `folder` (blocking, below a second); raises ModelError when it is not the declared one."""
        engine = engine or Engine()
        self._profile = profile
        self._model = OpenModel(profile, folder, engine, inputs="documents")
        self._of_queries = self._model
        if profile.query_graph is not None:
            self._of_queries = OpenModel(profile, folder, engine, inputs="queries", graph=profile.query_graph)
        self.representation = Dense(profile.dimension)
        self.max_tokens = profile.max_tokens
        self.stamp = stamp_of(profile, self._model.weights_sha256)

    async def encode_query(self, text: str, deadline: Deadline | None = None) -> Float32:
        """Encodes one query: fp32 [dimension]. Queries are scheduled before waiting passages.

        Raises ModelError, DeadlineExceeded, Overloaded, Unavailable (while shutting down).
        """
        text = self._profile.query_prefix + text
        return await self._of_queries.infer_text(text, self._of_queries.single_rows, self._pool, deadline)

    async def encode_passages(self, texts: Sequence[str], deadline: Deadline | None = None) -> Float32:
        """Encodes each passage as one row, in their order: fp32 [texts, dimension]; raises like encode_query."""
        if not texts:
            return np.empty((0, self._profile.dimension), dtype=np.float32)
        prefixed = [self._profile.passage_prefix + text for text in texts]
        rows = await self._model.document_rows(prefixed, self._model.single_rows, deadline)
        vectors = await self._model.infer(rows, self._pool, deadline)
        return np.array(vectors, dtype=np.float32)

    async def cut(
        self, documents: Sequence[tuple[str, str]], passages: Passages, deadline: Deadline | None = None
    ) -> list[list[str]]:
        """Cuts documents, each a title and a text, as the dense service's port says. Raises like encode_query."""
        tokenizer = self._model.tokenizer
        (prefix,) = tokenizer.ids([self._profile.passage_prefix])
        size = passages.tokens - tokenizer.single_length(prefix)

        def cut_chunk(chunk: list[tuple[str, str]]) -> list[list[str]]:
            texts = [f"{title} {text}".strip() for title, text in chunk]
            return [
                cut_text(whole, offsets, len(title.strip()), size, passages.overlap)
                for whole, (title, _), (_, offsets) in zip(texts, chunk, tokenizer.located(texts), strict=True)
            ]

        return await self._model.map_texts(documents, cut_chunk, deadline, urgent=False)

    async def lengths(
        self, texts: Sequence[str], role: Literal["query", "passage"], deadline: Deadline | None = None
    ) -> tuple[int, ...]:
        """Counts the tokens of each text before truncation, with its prefix and special tokens.

        Raises like encode_query.
        """
        prefix = self._profile.query_prefix if role == "query" else self._profile.passage_prefix
        return await self._model.single_lengths([prefix + text for text in texts], deadline)

    async def close(self) -> None:
        """Stops the threads after their current micro-batches."""
        self._model.close()
        self._of_queries.close()

    def _pool(self, hidden: Float32, rows: Sequence[Row]) -> Float32:
        return pool(hidden, [len(row.ids) for row in rows], self._profile)


def pool(hidden: Float32, lengths: Sequence[int], profile: EncoderProfile) -> Float32:
    """Pools `hidden` [rows, tokens, width] over each row's first `lengths` tokens: fp32 [rows, dimension].

    Each row is averaged without its padding, so that padding changes no bit. A graph that pools gives [rows, width].
    """
    match profile.pooling:
        case "mean":
            # By ufuncs, as below: numpy's `mean` and `norm` have equal bits, and take 0.06 ms more of a search.
            sums = [np.add.reduce(hidden[place, :length], axis=0) / length for place, length in enumerate(lengths)]
            vectors = np.array(sums, dtype=np.float32)
        case "cls":
            vectors = hidden[:, 0].copy()
        case "last":
            vectors = hidden[np.arange(len(lengths)), np.asarray(lengths) - 1]
        case "graph":
            vectors = hidden
    vectors = vectors[:, : profile.dimension]
    if profile.normalise:
        with np.errstate(invalid="ignore"):  # 0/0 gives NaN, for which OpenModel raises
            norms: Float32 = np.sqrt(np.add.reduce(vectors * vectors, axis=1, keepdims=True))
            vectors = vectors / norms
    return vectors


def stamp_of(profile: EncoderProfile, weights_sha256: str) -> Mapping[str, str]:
    """Returns what determines the vectors of a model; device and number of threads do not."""
    query_graph = profile.query_graph
    own_queries = {} if query_graph is None else {"query_weights_sha256": profile.files[query_graph]}
    return own_queries | {
        "model": profile.name,
        "weights_sha256": weights_sha256,
        "tokenizer_sha256": profile.files[TOKENIZER],
        "precision": profile.computation(),
        "pooling": profile.pooling,
        "normalise": str(profile.normalise).lower(),
        "query_prefix": profile.query_prefix,
        "passage_prefix": profile.passage_prefix,
        "max_tokens": str(profile.max_tokens),
        "dimension": str(profile.dimension),
        "schema": "1",
    }
