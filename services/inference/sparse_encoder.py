"""Encodes texts as weights of terms. Owns the methods, the choice of terms and the stamp.

A term is a word piece of the model, and its number is the piece's id. Running the graph is open_model's.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from services.chassis.deadlines import Deadline
from services.contracts.explanation import Match
from services.inference.explained_matches import matches_of_all
from services.inference.idf import read_idf
from services.inference.model_tokenizer import Row
from services.inference.open_model import Engine, OpenModel
from services.inference.profiles import TOKENIZER, ModelError, SparseEncoderProfile
from services.storage.representation import Sparse, SparseVector, Vector

Float32 = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class TermLimits:
    """Most terms of a vector that a model weighs, the heaviest ones. A bag of word pieces keeps all of them."""

    document: int = 128
    query: int = 32


class SparseTextEncoder:
    """Encodes queries and passages with one model; implements the sparse service's port, SparseEncoder."""

    representation = Sparse()

    def __init__(
        self,
        profile: SparseEncoderProfile,
        folder: Path,
        engine: Engine | None = None,
        limits: TermLimits | None = None,
        idf: Path | None = None,
    ) -> None:
        """Opens the model in `folder` (blocking, below a second); raises ModelError when it is not the declared one.

        `idf` is a table in place of the model's own, for queries that no model encodes.
        """
        if idf is not None and profile.method != "inference-free":
            raise ModelError(
                f"{idf} weighs queries of a model whose method is inference-free, and that of {profile.name} is "
                f"{profile.method}; unset SPARSE_IDF, or name another SPARSE_MODEL."
            )
        self._profile = profile
        self._limits = limits or TermLimits()
        self._model = OpenModel(profile, folder, engine or Engine(), inputs="documents")
        self._special = np.array(sorted(self._model.tokenizer.special_ids), dtype=np.int64)
        table = idf or (folder / profile.idf if profile.idf is not None else None)
        self._idf = read_idf(table, self._model.tokenizer) if table is not None else None
        self.max_tokens = profile.max_tokens
        idf_sha256 = self._idf.sha256 if self._idf is not None else "none"
        self.stamp = sparse_stamp(profile, self._model.weights_sha256, self._limits, idf_sha256)

    async def encode_query(self, text: str, deadline: Deadline | None = None) -> SparseVector:
        """Encodes one query. Queries are scheduled before waiting passages.

        Raises ModelError, DeadlineExceeded, Overloaded, Unavailable (while shutting down).
        """
        if self._profile.method == "splade":
            select = partial(self._heaviest, most=self._limits.query)
            return _vector(await self._model.infer_text(text, self._model.single_rows, select, deadline))
        (vector,) = await self._model.map_texts([text], self._bags, deadline, urgent=True)
        return vector

    async def encode_passages(self, texts: Sequence[str], deadline: Deadline | None = None) -> list[SparseVector]:
        """Encodes each passage, in their order; raises like encode_query."""
        if not texts:
            return []
        rows = await self._model.document_rows(texts, self._model.single_rows, deadline)
        select = partial(self._heaviest, most=self._limits.document)
        return [_vector(row) for row in await self._model.infer(rows, select, deadline)]

    async def explain(
        self, query: str, passages: Sequence[str], vectors: Sequence[Vector], deadline: Deadline | None = None
    ) -> list[tuple[Match, ...]]:
        """Returns for each document's vector the word pieces that it shares with the query; raises like encode_query.

        The passages are not read: a term number names its word piece.
        """
        query_vector = await self.encode_query(query, deadline)
        return await matches_of_all(query_vector, vectors, self._model.tokenizer.piece)

    async def lengths(self, texts: Sequence[str], deadline: Deadline | None = None) -> tuple[int, ...]:
        """Counts the tokens of each text before truncation, with special tokens; raises like encode_query."""
        return await self._model.single_lengths(texts, deadline)

    async def close(self) -> None:
        """Stops the threads after their current micro-batches."""
        self._model.close()

    def _bags(self, texts: list[str]) -> list[SparseVector]:
        """Returns each text as a bag of its word pieces: counts (sparta), or weights, 1 without a table."""
        bags: list[SparseVector] = []
        for row in self._model.single_rows(texts):
            terms, counts = np.unique(np.array(row.ids, dtype=np.int64), return_counts=True)
            if self._idf is not None:
                weights = self._idf.weights[terms]
            else:
                weights = (counts if self._profile.method == "sparta" else np.ones_like(counts)).astype(np.float32)
            kept = ~np.isin(terms, self._special) & (weights > 0)
            bags.append(SparseVector(terms[kept].astype(np.uint32), weights[kept]))
        return bags

    def _heaviest(self, maxima: Float32, _rows: Sequence[Row], most: int) -> Iterator[Float32]:
        """Yields numbers and weights of each row's heaviest terms, fp32 [2, terms]; its terms ascend.

        `maxima` is fp32 [rows, vocabulary]. fp32 holds whole numbers up to 2^24 exactly. Of equal weights, the lowest
        numbers are taken. Special tokens are no terms.
        """
        if not np.isfinite(maxima).all():
            raise ModelError(f"The model {self._profile.name} gave a result that is not finite.")
        maxima[:, self._special] = -np.inf
        maxima += np.float32(self._profile.bias)
        for row in maxima:
            terms = np.flatnonzero(row > 0)
            weights = np.log1p(row[terms])
            if self._profile.saturation == "log-log":
                weights = np.log1p(weights)
            if len(terms) > most:
                kept = np.sort(np.argsort(-weights, kind="stable")[:most])
                terms, weights = terms[kept], weights[kept]
            yield np.stack([terms.astype(np.float32), weights])


def sparse_stamp(
    profile: SparseEncoderProfile, weights_sha256: str, limits: TermLimits, idf_sha256: str
) -> Mapping[str, str]:
    """Returns what determines the vectors of a model; device and number of threads do not."""
    return {
        "model": profile.name,
        "weights_sha256": weights_sha256,
        "tokenizer_sha256": profile.files[TOKENIZER],
        "precision": profile.computation(),
        "method": profile.method,
        "bias": str(profile.bias),
        "idf_sha256": idf_sha256,
        "max_tokens": str(profile.max_tokens),
        "document_terms": str(limits.document),
        "query_terms": str(limits.query),
        "schema": "1",
        **({"saturation": profile.saturation} if profile.saturation != "log" else {}),
    }


def _vector(row: Float32) -> SparseVector:
    terms, weights = row
    return SparseVector(terms.astype(np.uint32), weights)
